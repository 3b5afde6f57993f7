"""What is in the file: the same model that onnx_ir would write, loadable, complete, with tied weights once."""

from __future__ import annotations

import copy
import io

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from onnx_ir.tensor_adapters import TorchTensor

from onward.errors import WriteError
from onward.write import model_bytes, to_proto, write_model
from onward.write import tensors as tensors_module
from tests.write.small_models import constants_model, initializer, tied_model

VALUES = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4) - 7


class TransposedOnRead(TorchTensor):
    """Square, so that its raw tensor has the right shape and the wrong order."""

    def numpy(self) -> np.ndarray:
        return self.raw.t().numpy()

    def tobytes(self) -> bytes:
        return self.numpy().tobytes()


CASES: dict[str, torch.Tensor | ir.TensorProtocol] = {
    "dense": VALUES,
    "transposed": VALUES.permute(2, 0, 1),
    "offset": VALUES[1, :, 1:3],
    "every_other": VALUES[:, ::2],
    "expanded": torch.tensor([[3.0]]).expand(5, 7),
    "expanded_to_one": torch.tensor(3.0).expand(1),
    "expanded_to_none": torch.tensor([3.0]).expand(1)[:0],
    "scalar": torch.tensor(2.5),
    "empty": torch.zeros(0, 3),
    "float64": VALUES.double(),
    "float16": VALUES.half(),
    "bfloat16": VALUES.bfloat16(),
    "bfloat16_transposed": VALUES.bfloat16().permute(2, 1, 0),
    "float8_e4m3": VALUES.to(torch.float8_e4m3fn),
    "float8_e5m2_transposed": VALUES.to(torch.float8_e5m2).permute(1, 0, 2),
    "bool": VALUES > 0,
    "int8": VALUES.to(torch.int8),
    "int64": VALUES.long(),
    "uint16": VALUES.abs().to(torch.uint16),
    "parameter": torch.nn.Parameter(VALUES.clone()),
    "numpy": ir.Tensor(VALUES.numpy().copy()),
    "numpy_fortran": ir.Tensor(np.asfortranarray(VALUES.numpy())),
    "numpy_bfloat16": ir.Tensor(VALUES.numpy().astype(ml_dtypes.bfloat16)),
    "torch_in_plain_tensor": ir.Tensor(VALUES[0].t(), dtype=ir.DataType.FLOAT),
    "int4": ir.Tensor(np.array([1, -2, 3], dtype=ml_dtypes.int4)),
    "int4_packed": ir.PackedTensor(np.array([0x21, 0x03], np.uint8), ir.DataType.INT4, shape=[3]),
    "lazy": ir.LazyTensor(lambda: TorchTensor(VALUES[0].t()), dtype=ir.DataType.FLOAT, shape=ir.Shape([4, 3])),
    "own_reading": TransposedOnRead(VALUES[0, :3, :3]),
    "strings": ir.StringTensor([b"one", b"two"], shape=ir.Shape([2])),
}


@pytest.mark.parametrize("name", CASES)
def test_is_what_onnx_ir_writes(name: str) -> None:
    model = constants_model({name: CASES[name]})
    expected = ir.to_proto(model)
    assert to_proto(model) == expected
    assert onnx.ModelProto.FromString(model_bytes(model)) == expected


@pytest.mark.parametrize("name", [name for name in CASES if name != "strings"])
def test_external_data_holds_the_same_bytes(name: str, tmp_path) -> None:
    model = constants_model({"before": torch.ones(3), name: CASES[name]})
    write_model(model, tmp_path / "model.onnx", external_data=True, size_threshold_bytes=0)
    loaded = onnx.load(tmp_path / "model.onnx")
    expected = onnx.ModelProto.FromString(model_bytes(model))
    assert [t.raw_data for t in loaded.graph.initializer] == [t.raw_data for t in expected.graph.initializer]
    # Nothing to store is stored in the model: an empty stretch of a file cannot be mapped.
    assert len(loaded.graph.initializer) == 2


def test_strided_tensors_are_written_in_small_pieces(monkeypatch) -> None:
    monkeypatch.setattr(tensors_module, "PIECE_BYTES", 16)
    weights = {
        "transposed": VALUES.permute(2, 0, 1),
        "one_row": VALUES.reshape(1, 24)[:, ::2],
        "scalar": torch.ones(()),
    }
    weights["numpy"] = ir.Tensor(np.asfortranarray(VALUES.numpy()))
    model = constants_model(weights)
    lengths = [len(piece) for piece in tensors_module.pieces(TorchTensor(weights["transposed"]))]
    assert sum(lengths) == 96 and max(lengths) <= 16
    assert to_proto(model) == ir.to_proto(model)


@pytest.mark.parametrize("external", [False, True])
def test_checker_and_onnxruntime_accept_the_file(tmp_path, external: bool) -> None:
    weights = {name: CASES[name] for name in ("dense", "transposed", "bool", "int64", "scalar", "empty", "float16")}
    path = tmp_path / "model.onnx"
    written = write_model(constants_model(weights), path, external_data=external, size_threshold_bytes=0)
    onnx.checker.check_model(str(path), full_check=True)
    results = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {})
    for (name, expected), actual in zip(weights.items(), results, strict=True):
        np.testing.assert_array_equal(actual, expected.numpy(), err_msg=name)
    assert written.path == str(path)
    assert written.data_path == (str(path) + ".data" if external else None)
    assert written.bytes == sum((tmp_path / file).stat().st_size for file in written.paths)


def test_initializers_keep_their_order() -> None:
    names = [f"w{number}" for number in (5, 1, 9, 3)]
    model = constants_model({name: torch.full((2,), float(index)) for index, name in enumerate(names)})
    assert [tensor.name for tensor in to_proto(model).graph.initializer] == names


def test_same_model_same_bytes(tmp_path) -> None:
    model = constants_model({name: CASES[name] for name in ("dense", "bool", "strings")})
    model.metadata_props.update({"z": "1", "a": "2"})
    assert model_bytes(model) == model_bytes(copy.deepcopy(model)) == model_bytes(model)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_model(model, tmp_path / name / "model.onnx", external_data=True, size_threshold_bytes=0)
    for file in ("model.onnx", "model.onnx.data"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_functions_documentation_and_metadata_survive() -> None:
    source = """<ir_version: 10, opset_import: ["": 17, "local": 1], producer_name: "someone">
        graph_name (float[N] x) => (float[N] y) <float[2] w = {1.0, 2.0}> { t = Add(x, w)  y = local.twice(t) }
        <domain: "local", opset_import: ["": 17]> twice (x) => (y) { y = Add(x, x) }"""
    model = ir.from_onnx_text(source)
    model.graph.initializers["w"].const_value = ir.tensor([1.0, 2.0], doc_string="a weight")
    model.graph.initializers["w"].const_value.metadata_props["origin"] = "test"
    model.graph.doc_string = "a graph"
    expected = ir.to_proto(model)
    assert expected.functions and expected.graph.initializer[0].metadata_props
    assert onnx.ModelProto.FromString(model_bytes(model)) == expected


@pytest.mark.parametrize("condition", [True, False])
def test_tied_weights_are_stored_once_and_used_under_one_name(tmp_path, condition: bool) -> None:
    weight = torch.arange(300, dtype=torch.float32)
    model = tied_model(weight)
    proto = onnx.ModelProto.FromString(model_bytes(model))
    assert [tensor.name for tensor in proto.graph.initializer] == ["first"]
    assert "second" not in {name for value in proto.graph.value_info for name in [value.name]}
    onnx.checker.check_model(proto, full_check=True)
    x = np.ones(300, np.float32)
    expected = (x + weight.numpy()) * (weight.numpy() if condition else 2)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"x": x, "condition": np.array(condition)})[0], expected)

    path = tmp_path / "tied.onnx"
    write_model(model, path, external_data=True, size_threshold_bytes=100)
    parsed = onnx.load(path, load_external_data=False)
    places = [{e.key: e.value for e in tensor.external_data} for tensor in parsed.graph.initializer]
    assert len(places) == 2 and places[0] == places[1]
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"x": x, "condition": np.array(condition)})[0], expected)


def test_only_the_same_reading_of_the_same_memory_is_tied() -> None:
    square = torch.arange(9.0).reshape(3, 3)
    weights = {
        "square": square,
        "transposed": square.t(),
        "bits": square.view(torch.int32),
        "equal": square.clone(),
        "again": square.view(3, 3),
    }
    names = [tensor.name for tensor in to_proto(constants_model(weights)).graph.initializer]
    assert names == ["square", "transposed", "bits", "equal"]


def test_inputs_and_outputs_keep_their_names_and_values() -> None:
    weight = torch.ones(4)
    plain, as_output, as_input = (initializer(name, weight) for name in ("plain", "as_output", "as_input"))
    node = ir.node("Add", [plain, as_input], outputs=[ir.Value(name="y", shape=plain.shape, type=plain.type)])
    graph = ir.Graph(
        [as_input],
        [node.outputs[0], as_output],
        nodes=[node],
        initializers=[plain, as_output, as_input],
        opset_imports={"": 17},
        name="g",
    )
    proto = to_proto(ir.Model(graph, ir_version=8))
    # `as_input` may be fed another value, so nothing leans on it; `plain` becomes the output's initializer.
    assert [tensor.name for tensor in proto.graph.initializer] == ["as_output", "as_input"]
    assert list(proto.graph.node[0].input) == ["as_output", "as_input"]
    assert [value.name for value in proto.graph.output] == ["y", "as_output"]


def test_writing_does_not_touch_the_model() -> None:
    weight = torch.ones(4)
    shared = TorchTensor(weight, name="neither")  # one tensor object behind two values; onnx_ir would rename it
    lazy = ir.LazyTensor(lambda: shared, dtype=shared.dtype, shape=shared.shape, cache=True)
    model = constants_model({"a": shared, "b": shared, "lazy": lazy})
    tied = tied_model(weight)
    tied.graph.node(1).attributes["else_branch"].as_graph().initializers["inner"].const_value.name = "old"
    for changed in (model, tied):
        before = [(v.name, v.const_value, v.const_value.name) for v in changed.graph.initializers.values()]
        model_bytes(changed)
        to_proto(changed)
        assert before == [(v.name, v.const_value, v.const_value.name) for v in changed.graph.initializers.values()]
    assert shared.name == "neither"
    assert lazy._tensor is None
    assert tied.graph.node(1).attributes["else_branch"].as_graph().initializers["inner"].const_value.name == "old"


def test_offsets_are_aligned_for_mapping(tmp_path) -> None:
    weights = {"a": torch.ones(300), "big": torch.ones(1 << 18), "b": torch.ones(300), "small": torch.ones(2)}
    write_model(constants_model(weights), tmp_path / "m.onnx", external_data=True)
    proto = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    entries = {t.name: {e.key: e.value for e in t.external_data} for t in proto.graph.initializer}
    assert {entry["location"] for entry in entries.values() if entry} == {"m.onnx.data"}
    assert int(entries["a"]["offset"]) % 4096 == 0 and int(entries["b"]["offset"]) % 4096 == 0
    assert int(entries["big"]["offset"]) % 65536 == 0 and entries["big"]["length"] == str(1 << 20)
    assert not entries["small"]  # below the threshold: it stays in the model


def test_nothing_to_put_into_a_data_file_makes_none(tmp_path) -> None:
    written = write_model(constants_model({"a": torch.ones(2)}), tmp_path / "m.onnx", external_data=True)
    assert written.data_path is None and [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_a_model_with_external_data_can_be_written_over_itself(tmp_path) -> None:
    path = tmp_path / "m.onnx"
    write_model(constants_model({"a": torch.arange(400.0), "b": torch.ones(500)}), path, external_data=True)
    model = ir.load(path)
    write_model(model, path, external_data=True)
    write_model(model, path)
    assert np.array_equal(onnx.numpy_helper.to_array(onnx.load(path).graph.initializer[0]), np.arange(400.0))


@pytest.mark.parametrize("device", ["meta", "fake"])
def test_weights_without_data_are_named(device: str) -> None:
    if device == "meta":
        weight = torch.empty(3, 3, device="meta")
    else:
        with torch._subclasses.fake_tensor.FakeTensorMode():
            weight = torch.empty(3, 3)
    with pytest.raises(WriteError, match=f"the weight 'hollow' has no data: it is .*{device}"):
        model_bytes(constants_model({"hollow": weight}))


def test_an_initializer_without_value_is_named() -> None:
    model = constants_model({"a": torch.ones(2)})
    model.graph.initializers["a"].const_value = None
    with pytest.raises(WriteError, match="the initializer 'a' has no value"):
        model_bytes(model)


def test_a_tensor_that_lies_about_its_size_is_refused() -> None:
    class Short(ir.Tensor):
        def tobytes(self) -> bytes:
            return super().tobytes()[:-1]

    with pytest.raises(WriteError, match=r"the weight 'a' has 7 bytes.*ask for 8"):
        write_model(constants_model({"a": Short(np.ones(2, np.float32))}), io.BytesIO())
