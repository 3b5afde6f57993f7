"""The grammars of --input, --dynamic and --arg, and the caret under a mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from onward.cli.console.usage_errors import SpecMistake
from onward.cli.inputs.grammar import (
    Axis,
    FileSpec,
    Fill,
    TensorSpec,
    ValueSpec,
    parse_arguments,
    parse_dynamic,
    parse_inputs,
)
from onward.cli.inputs.values import make
from onward.errors import InputError


@pytest.mark.parametrize(
    ("text", "specs"),
    [
        ("x:f32[1,3,224,224]", [TensorSpec("x", "float32", (1, 3, 224, 224))]),
        (" x : float16 [ 2 , 3 ] = ones ", [TensorSpec("x", "float16", (2, 3), Fill("ones"))]),
        ("i64[]=7", [TensorSpec(None, "int64", (), Fill("number", 7))]),
        ("ids:i64[1,16]=0..999", [TensorSpec("ids", "int64", (1, 16), Fill("range", 0, 999))]),
        ("x:f32[2]=-1.5..1e2", [TensorSpec("x", "float32", (2,), Fill("range", -1.5, 100))]),
        ("x:f32[2]=.25...5", [TensorSpec("x", "float32", (2,), Fill("range", 0.25, 0.5))]),
        ("input.1:bool[0]", [TensorSpec("input.1", "bool", (0,))]),
        ("x:f32[batch=2,3,w=8]", [TensorSpec("x", "float32", (2, 3, 8), Fill(), {0: "batch", 2: "w"})]),
        ("x=a.npy; b/c.npz", [FileSpec("x", "a.npy"), FileSpec(None, "b/c.npz")]),
        ("x=a.npz:first;y=b.pt", [FileSpec("x", "a.npz", "first"), FileSpec("y", "b.pt")]),
        ("scale=2.0;kind='bold'", [ValueSpec("scale", 2.0), ValueSpec("kind", "bold")]),
    ],
)  # fmt: skip
def test_inputs_read(text: str, specs: list[Any]) -> None:
    assert parse_inputs([text]) == specs


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("x:f32(1,3)", 5, "the sizes of the tensor are expected here, in brackets: f32[2,3]"),
        ("x:f33[1,3]", 2, "'f33' is no type; did you mean 'f32'?"),
        ("x f32[1,3]", 2, "':' is expected here, between 'x' and its type"),
        ("x:f32[1,a,3]", 9, "the axis 'a' needs a size for the example: a=2"),
        ("x:f32[1,-2]", 8, "'-2' is no size"),
        ("x:f32[1,,2]", 8, "a size is expected here"),
        ("x:f32[1 2]", 8, "',' or ']' is expected here"),
        ("x:f32[1,2", 9, "',' or ']' is expected here"),
        ("x:f32[n=b]", 8, "'b' is no size"),
        ("x:f32[1]]", 8, "nothing is expected here"),
        ("x:f32[1]=twos", 9, "'twos' is none of random, zeros, ones, arange, a number, or a range such as 0..9"),
        ("x:i64[1]=0.5", 9, "'0.5' is no integer"),
        ("x:i64[1]=9..1", 9, "the range ends before it begins: 9 is more than 1"),
        ("x:i64[1]=", 9, "what to fill it with is expected here"),
        ("x:", 2, "the type of 'x' is expected here"),
        ("x:f32[1];", 9, "an input is expected here"),
        ("x:f32[1];x:f32[2]", 9, "the input 'x' is given twice"),
        ("x=what?", 2, "'what?' is neither a file (.npy, .npz, .pt) nor a Python value"),
        ("x:picture.npy", 1, "a file follows the name of its input with '='"),
    ],
)
def test_a_mistake_has_a_caret_under_it(text: str, at: int, message: str) -> None:
    with pytest.raises(SpecMistake) as caught:
        parse_inputs([text])
    said, shown, caret, hint = str(caught.value).split("\n")
    assert message in said
    assert (shown, caret) == (f"  {text}", "  " + " " * at + "^")
    assert hint.startswith("  for example --input")


def test_dynamic_axes_and_arguments() -> None:
    assert parse_dynamic(["x:0=batch,2=h", "y:0=batch", "x:-1"]) == {
        "x": {0: Axis("batch"), 2: Axis("h"), -1: Axis("x_-1")},
        "y": {0: Axis("batch")},
    }
    assert parse_dynamic(["x:0=batch[1..64], 1 = t [ 2 .. ]", "y:0=batch[1..64],1=u[..9]", "z:0=batch"]) == {
        "x": {0: Axis("batch", 1, 64), 1: Axis("t", 2)},
        "y": {0: Axis("batch", 1, 64), 1: Axis("u", None, 9)},
        "z": {0: Axis("batch")},
    }
    assert parse_arguments(["depth=50", "name=small", "sizes=[1, 2]", "text='a b'", "on=True"]) == {
        "depth": 50, "name": "small", "sizes": [1, 2], "text": "a b", "on": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("read", "text", "at", "message"),
    [
        (parse_dynamic, "x", 1, "':' and an axis are expected here"),
        (parse_dynamic, "x:batch", 2, "'batch' is no axis: axes have numbers, the first is 0"),
        (parse_dynamic, "x:0=", 4, "a name for the axis is expected here"),
        (parse_dynamic, "x:0=b,0=c", 6, "axis 0 of 'x' is given twice"),
        (parse_dynamic, "x:0=batch[1-64]", 11, "'..' and the largest size are expected here"),
        (parse_dynamic, "x:0=batch[a..64]", 10, "a size is expected here"),
        (parse_dynamic, "x:0=batch[1..64", 15, "']' is expected here"),
        (parse_dynamic, "x:0=batch[1..", 13, "a size is expected here"),
        (parse_dynamic, "x:0=batch[..]", 10, "a smallest or a largest size is expected here"),
        (parse_dynamic, "x:0=batch[64..1]", 10, "64..1 leaves no two sizes"),
        (parse_dynamic, "x:0=b[1..64],1=b[1..8]", 17, "the axis 'b' has other bounds elsewhere"),
        (parse_dynamic, "x:0=a-b[1..64]", 4, "needs a name of letters"),
        (parse_arguments, "depth", 5, "'=' and a value are expected here"),
        (parse_arguments, "3=4", 0, "the name of an argument is expected here"),
        (parse_arguments, "on=true", 3, "'true' is written True"),
        (parse_arguments, "sizes=[1,", 6, "'[1,' is no Python value"),
    ],
)
def test_mistakes_in_axes_and_arguments(read: Any, text: str, at: int, message: str) -> None:
    with pytest.raises(SpecMistake) as caught:
        read([text])
    assert message in str(caught.value)
    assert f"\n  {text}\n  {' ' * at}^\n" in str(caught.value)


def made(text: str, seed: int = 0) -> Any:
    ((_, value),) = make(parse_inputs([text]), seed).values
    return value


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "u16", "bool", "c64"])
@pytest.mark.parametrize("fill", ["random", "zeros", "ones", "arange"])
def test_fills_of_every_type(dtype: str, fill: str) -> None:
    value = made(f"{dtype}[2,3]={fill}")
    assert value.shape == (2, 3)
    assert str(value.dtype).removeprefix("torch.") == parse_inputs([f"{dtype}[1]"])[0].dtype  # type: ignore[union-attr]
    if fill != "random":
        assert value[0, 0] == (fill == "ones") and value[0, 1] == (fill != "zeros")


def test_ranges_and_seeds() -> None:
    ints = made("i64[1000]=3..5")
    assert sorted(ints.unique().tolist()) == [3, 4, 5]
    floats = made("f32[1000]=-2.0..-1.0")
    assert -2 <= floats.min() < -1.9 and -1.1 < floats.max() <= -1
    assert torch.equal(made("f32[5]", 3), made("f32[5]", 3)) and not torch.equal(made("f32[5]", 3), made("f32[5]", 4))


def test_files(tmp_path: Path) -> None:
    one, two = np.arange(6, dtype=np.float32).reshape(2, 3), np.array(5, dtype=">i8")
    np.save(tmp_path / "one.npy", one)
    np.savez(tmp_path / "all.npz", a=one, b=two)
    torch.save({"a": torch.ones(2), "b": [torch.zeros(1), 3]}, tmp_path / "all.pt")
    assert made(f"x={tmp_path}/one.npy").tolist() == one.tolist()
    assert made(f"x={tmp_path}/all.npz:b").item() == 5
    assert make(parse_inputs([f"{tmp_path}/all.npz"])).names() == ["a", "b"]
    assert made(f"x={tmp_path}/all.pt:b")[1] == 3


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    np.save(tmp_path / "objects.npy", np.array([{}, set()], dtype=object), allow_pickle=True)
    (tmp_path / "text.npy").write_text("no array")
    torch.save(torch.nn.Linear(2, 2), tmp_path / "module.pt")
    np.savez(tmp_path / "all.npz", a=1, b=2)
    for text, message in [
        ("x=missing.npy", "there is no file 'missing.npy'"),
        (f"x={tmp_path}/objects.npy", "cannot be read as tensors"),
        (f"x={tmp_path}/text.npy", "cannot be read as tensors"),
        (f"x={tmp_path}/module.pt", "they could run code"),
        (f"x={tmp_path}/all.npz", "say which: x="),
        (f"x={tmp_path}/all.npz:c", "has no 'c', it holds a, b"),
        ("x:f32[1000000,1000000,1000000]", "the input 'x' cannot be made"),
    ]:
        with pytest.raises(InputError) as caught:
            make(parse_inputs([text]))
        assert message in str(caught.value)
