"""A file is untrusted: what is missing, cut short, something else, or reaches outside its folder is told."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import onward
from onward.files import load


def save_with_data(folder: Path, name: str = "model.onnx") -> Path:
    folder.mkdir(exist_ok=True)
    weight = onnx.numpy_helper.from_array(np.arange(600, dtype=np.float32), "w")
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [600]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [y], [weight])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    path = folder / name
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


def redirect(path: Path, **entries: str) -> Path:
    """Change what the model says about its data file."""
    model = onnx.load(path, load_external_data=False)
    (tensor,) = model.graph.initializer
    kept = {entry.key: entry.value for entry in tensor.external_data} | entries
    del tensor.external_data[:]
    for key, value in kept.items():
        tensor.external_data.add(key=key, value=value)
    path.write_bytes(model.SerializeToString())
    return path


def test_weights_of_a_data_file_are_read_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save_with_data(tmp_path / "there")
    np.testing.assert_array_equal(load(path).graph.initializers["w"].const_value.numpy(), np.arange(600))
    monkeypatch.chdir(path.parent)
    np.testing.assert_array_equal(load("model.onnx").graph.initializers["w"].const_value.numpy(), np.arange(600))


@pytest.mark.parametrize("place", ["../secret.bin", "sub/../../secret.bin", "{absolute}", "link.bin", ""])
def test_a_data_file_elsewhere_is_refused(place: str, tmp_path: Path) -> None:
    path = save_with_data(tmp_path / "model")
    secret = tmp_path / "secret.bin"
    secret.write_bytes(bytes(4096))
    (path.parent / "sub").mkdir()
    os.symlink(secret, path.parent / "link.bin")
    redirect(path, location=place.format(absolute=secret))
    for use in (load, onward.infer_shapes):
        with pytest.raises(onward.InputError, match="the weight 'w' of .* outside the model's folder"):
            use(path)
    assert "%w : Float(600)" in onward.printable(path)  # which reads no weights


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"location": "gone.bin"}, "is in 'gone.bin', and there is no such file beside the model"),
        ({"offset": "64"}, "should be bytes 64 to 2464 of 'weights.bin', which has 2400"),
        ({"offset": "-8"}, "should be bytes -8 to 2392 of 'weights.bin'"),
        ({"length": "9999"}, "should be bytes 0 to 9999 of 'weights.bin', which has 2400"),
        ({"offset": "many"}, "has no readable place in 'weights.bin'"),
    ],
)
def test_a_data_file_that_does_not_fit_is_told(entries: dict[str, str], message: str, tmp_path: Path) -> None:
    path = redirect(save_with_data(tmp_path / "model"), **entries)
    with pytest.raises(onward.InputError, match=message):
        load(path)


def test_a_proto_without_a_path_does_not_say_where_its_data_lie(tmp_path: Path) -> None:
    proto = onnx.load(save_with_data(tmp_path / "model"), load_external_data=False)
    for model in (proto, proto.SerializeToString()):
        with pytest.raises(onward.InputError, match="it is not known where that lies\n  give the model's path instead"):
            load(model)
        assert "onnx::Add" in onward.printable(model)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.unlink(), "there is no file '.*model.onnx'"),
        (lambda path: (path.unlink(), path.mkdir()), "'.*model.onnx' is not a file"),
        (lambda path: path.write_bytes(b""), "is no ONNX model: it has no graph"),
        (lambda path: path.write_text("PK this is something else"), "is no ONNX model"),
        (cut, "is no ONNX model, or is cut short"),
    ],
)
def test_what_is_no_model_is_told(spoil: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onward.export(lambda x: x * 2, onnx_input(), path)
    spoil(path)
    for use in (load, onward.printable, onward.infer_shapes, onward.input_names):
        with pytest.raises(onward.InputError, match=message):
            use(path)


def onnx_input() -> Any:
    import torch

    return torch.randn(2)


@pytest.mark.parametrize("model", [None, 3, [1], {}])
def test_other_things_are_refused(model: Any) -> None:
    with pytest.raises(onward.InputError, match=f"a model is expected, not {type(model).__name__}\n  give a path"):
        load(model)


def test_a_graph_that_contradicts_itself_is_told() -> None:
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xy")
    twice = [onnx.helper.make_node("Relu", ["x"], ["y"]), onnx.helper.make_node("Abs", ["x"], ["y"])]
    model = onnx.helper.make_model(onnx.helper.make_graph(twice, "g", [x], [y]))
    with pytest.raises(onward.InputError, match="the ModelProto is malformed"):
        load(model)
