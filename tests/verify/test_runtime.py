"""Running in onnxruntime: every type in and out, every way to hand over a model, every mistake by name."""

from __future__ import annotations

import builtins
import gc
import os

import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from onnx_ir.tensor_adapters import from_torch_dtype

from onward.errors import InputError, MissingDependencyError, VerifyError
from onward.verify import Session, Tolerance, runtime, supported_opset, verify_run
from onward.write import model_bytes, to_proto, write_model
from tests.write.small_models import constants_model, tied_model

TEXT = """<ir_version: 10, opset_import: ["": 21]>
g (float[batch, 3] x, int64[batch] k) => (float[batch, 3] y, int64[batch] n) { y = Add(x, x)  n = Neg(k) }"""


def passing(dtype: torch.dtype, shape: list[int | str]) -> ir.Model:
    """y = x, with a node that onnxruntime implements for every type."""
    kind = ir.TensorType(from_torch_dtype(dtype))
    x = ir.Value(name="x", shape=ir.Shape(shape), type=kind)
    node = ir.node("Identity", [x], outputs=[ir.Value(name="y", shape=ir.Shape(shape), type=kind)])
    return ir.Model(ir.Graph([x], node.outputs, nodes=[node], opset_imports={"": 21}, name="g"), ir_version=10)


DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.bool, torch.int8, torch.int16, torch.int32,
    torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2,
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3), (5,)], ids=str)
def test_every_type_goes_in_and_comes_out(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    count = torch.Size(shape).numel()
    x = torch.arange(count).reshape(shape).sub(0 if "uint" in str(dtype) else 2).to(dtype)
    session = Session(passing(dtype, [f"d{axis}" for axis in range(len(shape))]), threads=1)
    (y,) = session.run([x])
    assert y.dtype == dtype and y.shape == x.shape
    assert torch.equal(y.to(torch.float64), x.to(torch.float64))


def test_views_and_gradients_are_read_correctly() -> None:
    x = torch.arange(12.0, requires_grad=True).reshape(3, 4).t()[1:]
    (y,) = Session(passing(torch.float32, ["a", "b"]), threads=1).run({"x": x})
    assert torch.equal(y, x)


def test_results_outlive_the_session() -> None:
    y = Session(passing(torch.float32, ["a"]), threads=1).run([torch.arange(1000.0)])[0]
    assert torch.equal(y, torch.arange(1000.0))


@pytest.mark.parametrize("form", ["path", "text path", "bytes", "proto", "model", "model through a file", "external"])
def test_every_form_of_a_model(form: str, tmp_path, monkeypatch) -> None:
    model = tied_model(torch.arange(300.0))
    path = tmp_path / "m.onnx"
    write_model(model, path, external_data=form == "external")
    if form == "model through a file":
        monkeypatch.setattr(runtime, "_IN_MEMORY_BYTES", 100)
    given = {
        "path": path,
        "text path": str(path),
        "bytes": model_bytes(model),
        "proto": to_proto(model),
        "external": path,
    }
    session = Session(given.get(form, model), threads=1, optimize=False)
    assert (session._folder is not None) == (form == "model through a file")
    x = torch.ones(300)
    (y,) = session.run({"condition": torch.tensor(True), "x": x})
    assert torch.equal(y, (x + torch.arange(300.0)) * torch.arange(300.0))


def test_optional_inputs_keep_their_default_or_take_a_value() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 17]>
        g (float[2] x, float[2] w = {1, 2}) => (float[2] y) { y = Add(x, w) }"""
    )
    session = Session(model, threads=1)
    assert session.run([torch.zeros(2)])[0].tolist() == [1, 2]
    assert session.run({"x": torch.zeros(2), "w": torch.full((2,), 5.0)})[0].tolist() == [5, 5]


MISTAKES = {
    "too few": ([torch.ones(2, 3)], r"the model has 2 inputs \('x', 'k'\), and 1 were given"),
    "missing": ({"x": torch.ones(2, 3)}, r"missing input: 'k'\n.*the model has 'x', 'k'"),
    "unknown": ({"x": torch.ones(2, 3), "k": torch.ones(2).long(), "z": torch.ones(1)}, "no such input: 'z'"),
    "type": (
        [torch.ones(2, 3), torch.ones(2)],
        r"the input 'k' is a tensor\(float\), and the model takes a tensor\(int64\)",
    ),
    "size": ([torch.ones(2, 4), torch.ones(2).long()], r"'x' has the shape \[2, 4\], and the model takes \[batch, 3\]"),
    "rank": ([torch.ones(2, 3), torch.ones(()).long()], r"'k' has the shape \[\], and the model takes \[batch\]"),
    "not a tensor": ([[1.0], torch.ones(2).long()], "the input 'x' is a list, not a tensor"),
    "bare tensor": (torch.ones(2, 3), "the inputs are one tensor"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named(mistake: str) -> None:
    inputs, message = MISTAKES[mistake]
    with pytest.raises(InputError, match=message):
        Session(onnx.parser.parse_model(TEXT), threads=1).run(inputs)


def test_models_that_do_not_load(tmp_path) -> None:
    with pytest.raises(InputError, match="there is no file '.*missing.onnx'"):
        Session(tmp_path / "missing.onnx")
    with pytest.raises(VerifyError, match="onnxruntime does not load the model: .+") as caught:
        Session(b"not a model")
    assert caught.value.__cause__ is not None and "\n" not in str(caught.value)
    with pytest.raises(InputError, match="cannot run a int"):
        Session(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="threads is 0"):
        Session(model_bytes(passing(torch.float32, ["a"])), threads=0)


def test_a_failure_at_run_time_keeps_its_cause_and_names_the_run() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 17]> g (float[a] x, float[b] z) => (float[c] y) { y = Add(x, z) }"""
    )
    session = Session(model, threads=1)
    with pytest.raises(VerifyError, match=r"onnxruntime fails to run the model: .*Add.*\n  run: a=2") as caught:
        verify_run(session, "a=2", [torch.ones(2), torch.ones(3)], [torch.ones(2)])
    assert caught.value.__cause__ is not None and "onnxruntime" in type(caught.value.__cause__).__module__


def test_outputs_that_are_not_tensors_are_named() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 17]> g (float[a] x) => (optional(float[a]) y) { y = Optional(x) }"""
    )
    with pytest.raises(VerifyError, match=r"the output 'y' is a optional\(tensor\(float\)\); only tensors and lists"):
        Session(model, threads=1).run([torch.ones(2)])


@pytest.mark.parametrize("kind", ["float", "float16", "bool", "uint16", "int64"])
def test_a_sequence_comes_back_as_a_list(kind: str) -> None:
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["": 17]> g ({kind}[a] x, {kind}[b] z) => (seq({kind}) y, {kind}[a] w)
        {{ y = SequenceConstruct(x, z, x)
           w = Identity(x) }}"""
    )
    dtype = getattr(torch, kind)
    x, z = torch.tensor([1, 0, 1]).to(dtype), torch.tensor([]).to(dtype)
    y, w = Session(model, threads=1).run([x, z])
    assert isinstance(y, list) and [(each.dtype, each.tolist()) for each in y] == [
        (dtype, each.tolist()) for each in (x, z, x)
    ]
    assert isinstance(w, torch.Tensor) and torch.equal(w, x)


def test_verify_run_compares_each_output() -> None:
    session = Session(onnx.parser.parse_model(TEXT), threads=1)
    x, k = torch.randn(2, 3), torch.tensor([4, 5])
    right = verify_run(session, "example", [x, k], [x + x, -k])
    assert [(result.name, result.ok) for result in right] == [("y", True), ("n", True)]
    wrong = verify_run(session, "example", [x, k], [x * 2.01, -k + torch.tensor([0, 1])])
    assert [(result.name, result.ok) for result in wrong] == [("y", False), ("n", False)]
    assert wrong[1].mismatches == 1 and wrong[1].worst_index == (1,)
    loose = {"y": Tolerance(0.1, 0.1)}
    assert verify_run(session, "example", [x, k], [x * 2.01, -k], tolerances=loose)[0].ok
    with pytest.raises(VerifyError, match=r"the model has 2 outputs \(y, n\), and PyTorch returned 1\n  run: batch=1"):
        verify_run(session, "batch=1", [x, k], [x])
    with pytest.raises(VerifyError, match="a tolerance for an output that does not exist: z"):
        verify_run(session, "example", [x, k], [x, k], tolerances={"z": Tolerance(1, 1)})


def test_onnxruntime_missing(monkeypatch) -> None:
    found = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "onnxruntime":
            raise ModuleNotFoundError("No module named 'onnxruntime'")
        return found(name, *args, **kwargs)

    model = passing(torch.float32, ["a"])
    monkeypatch.setattr(builtins, "__import__", without)
    for attempt in (lambda: Session(model), supported_opset.__wrapped__):
        with pytest.raises(MissingDependencyError, match=r"onnxruntime is not installed.*\n  pip install onnxruntime"):
            attempt()


def test_supported_opset_is_the_newest_that_loads() -> None:
    newest = supported_opset()
    assert newest >= 21
    Session(runtime._smallest_model(newest), threads=1)
    if newest < onnx.defs.onnx_opset_version():
        with pytest.raises(VerifyError, match="does not load the model"):
            Session(runtime._smallest_model(newest + 1), threads=1)


def test_supported_opset_goes_down_until_one_loads(monkeypatch) -> None:
    load = onnxruntime.InferenceSession

    def only_up_to_17(model: bytes, *args, **kwargs):
        if onnx.load_from_string(model).opset_import[0].version > 17:
            raise RuntimeError("too new")
        return load(model, *args, **kwargs)

    monkeypatch.setattr(onnxruntime, "InferenceSession", only_up_to_17)
    assert supported_opset.__wrapped__() == 17


def test_a_large_constant_model_runs_through_its_own_folder(monkeypatch) -> None:
    monkeypatch.setattr(runtime, "_IN_MEMORY_BYTES", 1000)
    session = Session(constants_model({"a": torch.arange(1000.0)}), threads=1)
    assert torch.equal(session.run([])[0], torch.arange(1000.0))
    folder = session._folder
    assert folder is not None and os.path.isdir(folder)
    del session
    gc.collect()
    assert not os.path.exists(folder)
