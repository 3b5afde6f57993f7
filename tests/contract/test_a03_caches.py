"""A3, the caches of transformers as arguments and results: a step of a language model, with what it has seen before."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import Dim
from torch.utils import _pytree as pytree

import onward
from tests.models._torchvision import torchvision_models

from .running import assert_same, load, run, shapes

pytest.importorskip("transformers")
torchvision_models()  # transformers imports torchvision, which may need help

from transformers import (  # noqa: E402
    DynamicCache,
    EncoderDecoderCache,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    StaticCache,
    T5Config,
    T5ForConditionalGeneration,
)

SMALL = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64,
}  # fmt: skip


def llama() -> torch.nn.Module:
    return LlamaForCausalLM(LlamaConfig(**SMALL)).eval()


def gpt2() -> torch.nn.Module:
    sizes = {"vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
    return GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)).eval()


def mistral() -> torch.nn.Module:
    return MistralForCausalLM(MistralConfig(**SMALL, sliding_window=48)).eval()


def ids(batch: int, length: int) -> torch.Tensor:
    return torch.randint(1, 64, (batch, length))


@torch.no_grad()
def step(model: Any, batch: int = 2, new: int = 3, past: int = 5) -> tuple[tuple, dict[str, Any]]:
    cache = DynamicCache(config=model.config)
    model(ids(batch, past), past_key_values=cache)
    return (ids(batch, new),), {"past_key_values": cache, "attention_mask": torch.ones(batch, past + new).long()}


def in_cache(cache: Any) -> Iterator[torch.Tensor]:
    for layer in cache.layers:
        yield from (layer.keys, layer.values)


KEY = {0: "batch", 2: "past"}
STEP = {
    "input_ids": {0: "batch", 1: "new"},
    "attention_mask": {0: "batch", 1: "past + new"},
    "past_key_values": [(KEY, KEY), (KEY, KEY)],
}
NAMES = [f"past_key_values_{layer}_{kind}" for layer in (0, 1) for kind in ("key", "value")]


@pytest.mark.parametrize("build", [llama, gpt2, mistral])
def test_a_step_with_a_cache(build: Any, tmp_path: Path) -> None:
    path, model = tmp_path / "model.onnx", build()
    args, kwargs = step(model)
    before = [tensor.clone() for tensor in in_cache(kwargs["past_key_values"])]

    program = onward.export(model, args, path, kwargs=kwargs, dynamic_shapes=STEP, verify=True)

    assert_same(list(in_cache(kwargs["past_key_values"])), before)
    proto = load(path)
    assert [value.name for value in proto.graph.input] == ["input_ids", *NAMES, "attention_mask"]
    assert [value.name for value in proto.graph.output] == ["logits", *(f"{name}_out" for name in NAMES)]
    assert shapes(proto.graph.output)["logits"] == ("batch", "new", 64)
    kept = shapes(proto.graph.output)[f"{NAMES[0]}_out"][2]
    if build is mistral:  # a sliding window keeps no more than fits into it: an axis without a name of its own
        assert str(kept).startswith("dim_")
    else:
        assert kept == "past + new"
    for sizes in ((1, 1, 9), (3, 4, 1)):
        args, kwargs = step(model, *sizes)
        cache = kwargs["past_key_values"]
        inputs = {"input_ids": args[0], "attention_mask": kwargs["attention_mask"]}
        inputs |= dict(zip(NAMES, in_cache(cache), strict=True))
        with torch.no_grad():
            wanted = model(*args, **{**kwargs, "past_key_values": copy.deepcopy(cache)})
        expected = [wanted.logits, *in_cache(wanted.past_key_values)]
        assert_same(run(path, inputs), expected)
        result = program(*args, **kwargs)
        assert type(result) is type(wanted) and type(result.past_key_values) is DynamicCache
        assert_same([result.logits, *in_cache(result.past_key_values)], expected)
        assert result.past_key_values.get_seq_length() == wanted.past_key_values.get_seq_length()


def test_the_cache_that_comes_out_goes_in_again() -> None:
    model = mistral()
    args, kwargs = step(model)
    program = onward.export(model, args, kwargs=kwargs, dynamic_shapes=STEP)
    tokens, steps = ids(2, 6), (1, 2, 3)
    cache, real, done = kwargs["past_key_values"], copy.deepcopy(kwargs["past_key_values"]), 0
    for length in steps:
        new = tokens[:, done : done + length]
        done += length
        mask = torch.ones(2, 5 + done).long()
        result = program(new, past_key_values=cache, attention_mask=mask)
        with torch.no_grad():
            wanted = model(new, past_key_values=real, attention_mask=mask)
        assert_same([result.logits], [wanted.logits])
        cache = result.past_key_values


def test_a_window_that_is_full_counts_with_a_number_that_is_baked_in() -> None:
    model = MistralForCausalLM(MistralConfig(**SMALL, sliding_window=6)).eval()
    new, there = ids(2, 1), {0: "batch"}

    def after(past: int) -> DynamicCache:
        cache = DynamicCache(config=model.config)
        with torch.no_grad():
            model(ids(2, past), past_key_values=cache)
        return cache

    program = onward.export(
        model,
        new,
        kwargs={"past_key_values": after(9)},
        dynamic_shapes={"input_ids": there, "past_key_values": [(there, there)] * 2},
        verify=True,
    )
    cache = after(9)
    result = program(new, past_key_values=cache)
    with torch.no_grad():
        wanted = model(new, past_key_values=cache)
    assert_same([result.logits], [wanted.logits])
    assert result.past_key_values.get_seq_length() == wanted.past_key_values.get_seq_length() == 10
    with pytest.raises(onward.InputError, match="'past_key_values_0_cumulative_length' cannot be changed: .* with 9"):
        program(new, past_key_values=after(12))


def test_a_window_that_bounds_keep_from_filling() -> None:
    model = MistralForCausalLM(MistralConfig(**SMALL, sliding_window=16)).eval()
    args, kwargs = step(model)
    past = {0: "batch", 2: Dim("past", max=12)}
    form = {"input_ids": {0: "batch", 1: 3}, "attention_mask": {0: "batch", 1: "past + 3"}}
    program = onward.export(
        model, args, kwargs=kwargs, dynamic_shapes={**form, "past_key_values": [(past, past)] * 2}, verify=True
    )
    assert program.inputs[1].bounds == {2: (0, 12)} and program.outputs[1].shape[2] == "past + 3"


def test_the_first_step_makes_a_cache(tmp_path: Path) -> None:
    path, model = tmp_path / "model.onnx", llama()
    for past in ({}, {"past_key_values": DynamicCache(config=model.config)}):
        program = onward.export(
            model,
            ids(2, 5),
            path,
            kwargs={**past, "use_cache": True},
            dynamic_shapes={"input_ids": (Dim("batch"), "n")},
        )
        assert [port.name for port in program.outputs] == ["logits", *NAMES]
        other = ids(3, 4)
        with torch.no_grad():
            wanted = model(other)
        assert_same(run(path, [other]), [wanted.logits, *in_cache(wanted.past_key_values)])


FORMS = {
    "layer by layer": [(KEY, KEY), (KEY, KEY)],
    "by name": {0: {"key": KEY, "value": KEY}, 1: [KEY, KEY]},
    "one flat list": [KEY] * 4,
    "tuples for tensors": [((("batch", None, "past", None)),) * 2] * 2,
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_the_shapes_of_a_cache_have_several_forms(form: Any) -> None:
    model = gpt2()
    args, kwargs = step(model)
    program = onward.export(model, args, kwargs=kwargs, dynamic_shapes={**STEP, "past_key_values": form})
    assert [port.shape for port in program.inputs if port.name in NAMES] == [("batch", 4, "past", 8)] * 4


def test_all_keys_and_all_values_as_torch_export_has_them() -> None:
    model = LlamaForCausalLM(LlamaConfig(**{**SMALL, "num_hidden_layers": 3})).eval()
    args, kwargs = step(model)
    form = {**STEP, "past_key_values": [[KEY] * 3, [{0: "batch", 2: "past", 3: 8}] * 3]}
    program = onward.export(model, args, kwargs=kwargs, dynamic_shapes=form, verify=True)
    assert [port.shape for port in program.inputs[1:7]] == [("batch", 2, "past", 8)] * 6


def test_two_layers_as_the_registered_form_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_kind(cache: Any) -> tuple[list[Any], None]:
        return [[layer.keys for layer in cache.layers], [layer.values for layer in cache.layers]], None

    node = pytree.NodeDef(DynamicCache, by_kind, lambda children, context: None, None)
    monkeypatch.setitem(pytree.SUPPORTED_NODES, DynamicCache, node)
    model = gpt2()
    args, kwargs = step(model)
    form = {**STEP, "past_key_values": [[KEY, {0: "batch", 2: 9}], [KEY, KEY]]}
    with pytest.raises(onward.InputError, match="is 9, and axis 2 of 'past_key_values_1_key' is 5 in the example"):
        onward.export(model, args, kwargs=kwargs, dynamic_shapes=form)


def test_hints_find_out_for_themselves() -> None:
    model, auto = gpt2(), Dim.AUTO
    args, kwargs = step(model)
    del kwargs["attention_mask"]
    form = {"input_ids": (auto, auto), "past_key_values": [{0: auto, 2: auto}] * 4}
    program = onward.export(model, args, kwargs=kwargs, dynamic_shapes=form, verify=True)
    assert program.inputs[1].shape == ("input_ids_axis_0", 4, "past_key_values_0_key_axis_2", 8)


def test_an_encoder_and_a_decoder() -> None:
    sizes = {"vocab_size": 64, "d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 1, "num_heads": 4}
    model = T5ForConditionalGeneration(T5Config(**sizes, decoder_start_token_id=0)).eval()
    with torch.no_grad():
        first = model(input_ids=ids(2, 6), decoder_input_ids=ids(2, 4))
    kwargs = {
        "encoder_outputs": (first.encoder_last_hidden_state,),
        "decoder_input_ids": ids(2, 1),
        "past_key_values": first.past_key_values,
    }
    there = {0: "batch", 2: "source"}
    form = {
        "encoder_outputs": ({0: "batch", 1: "source"},),
        "decoder_input_ids": {0: "batch"},
        "past_key_values": {"self": [(KEY, KEY)], "cross": [(there, there)]},
    }
    program = onward.export(model, kwargs=kwargs, dynamic_shapes=form, verify=True)
    names = [f"past_key_values_{part}_0_{kind}" for part in ("self", "cross") for kind in ("key", "value")]
    assert [port.name for port in program.inputs][2:] == names
    result = program(**kwargs)
    assert type(result.past_key_values) is EncoderDecoderCache and result.past_key_values.is_updated == {0: True}
    with torch.no_grad():
        wanted = model(**copy.deepcopy(kwargs))
    assert_same([result.logits], [wanted.logits])
    assert_same(
        list(in_cache(result.past_key_values.self_attention_cache)),
        list(in_cache(wanted.past_key_values.self_attention_cache)),
    )


def test_a_cache_of_fixed_size() -> None:
    model = llama()
    cache = StaticCache(config=model.config, max_cache_len=12)
    with torch.no_grad():
        model(ids(2, 5), past_key_values=cache)
    program = onward.export(model, ids(2, 1), kwargs={"past_key_values": cache}, verify=True)
    assert [port.name for port in program.inputs][:4] == [
        "input_ids",
        "past_key_values_0_key",
        "past_key_values_0_value",
        "past_key_values_0_cumulative_length",
    ]


def test_nothing_is_registered_for_good() -> None:
    before = dict(pytree.SUPPORTED_NODES)
    model = gpt2()
    args, kwargs = step(model)
    onward.export(model, args, kwargs=kwargs, dynamic_shapes=STEP)
    added = set(pytree.SUPPORTED_NODES) - set(before)
    assert not [kind for kind in added if "Cache" in kind.__name__]


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ([KEY], r"dynamic_shapes\['past_key_values'\] has 1 entry, and the argument there is a DynamicCache of 2"),
        (
            [(KEY,), (KEY,)],
            r"dynamic_shapes\['past_key_values'\]\[0\] has 1 entry, and the argument there is a DynamicL",
        ),
        ({"keys": KEY}, r"dynamic_shapes\['past_key_values'\] has 'keys', and the argument there has 0, 1"),
        ([({4: "n"}, KEY), (KEY, KEY)], r"\['past_key_values'\]\[0\]\[0\] has axis 4, and 'past_key_values_0_key' has"),
    ],
)
def test_a_wrong_form_for_a_cache_is_said(form: Any, message: str) -> None:
    model = gpt2()
    args, kwargs = step(model)
    with pytest.raises(onward.InputError, match=message):
        onward.export(model, args, kwargs=kwargs, dynamic_shapes={**STEP, "past_key_values": form})
