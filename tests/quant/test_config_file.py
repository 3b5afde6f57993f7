"""Configurations in files: back as they were, refused at their lines, and linger's own."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy
import pytest
import torch
from torch import nn

import onward
from onward.errors import InputError, WriteError
from onward.quant import (
    Activations,
    Clamp,
    QuantConfig,
    QuantizationWarning,
    Rule,
    Weights,
    initialise,
    load_config,
    save_config,
)

# As linger 3's config_save_to_yaml writes it.
LINGERS = """\
clamp_info:
  clamp_activation_value: 8
  clamp_bias_value: null
  clamp_factor_value: 7
  clamp_weight_value: null
device: cuda
dtype: torch.float32
mix_parts: []
open_quant: true
platform: venusA
quant_info:
  a_calibrate_name: top_10
  a_strategy: RANGE_MEAN
  activate_bits: 8
  activation_type: none
  bias_bits: 32
  is_perchannel: false
  is_symmetry: true
  qat_method: MOM
  round_mode: floor_add
  w_calibrate_name: abs_max
  w_strategy: RANGE_MEAN
  weight_bits: 8
quant_method: NATIVE
seed: 42
"""


def read(tmp_path: Path, text: str) -> QuantConfig:
    path = tmp_path / "quant.yaml"
    path.write_text(text)
    return load_config(path)


@pytest.mark.parametrize(
    "config",
    [
        QuantConfig(),
        QuantConfig(weights=Weights(bits=4, block_size=32), weight_only=True, outputs=False),
        QuantConfig(activations=Activations(bits=16, range="percentile", percentile=99.5, averaging=1e-4)),
        QuantConfig(activations=Activations(averaging=numpy.float64(0.2)), rules=[Rule("1e5", off=True)]),
        QuantConfig(
            rules=[
                Rule("größe.*", off=True),
                Rule("layer1.*.conv?", type=nn.Conv2d, weights={"bits": 4, "block_size": None}, off=False),
                Rule(type="LayerNorm", activations=Activations(symmetric=True), weight_only=False),
            ],
            rounding="half_up",
            lstm="dynamic",
            clamp=Clamp(weight_factor=7, activation=8.0),
            platform="arcs",
        ),
    ],
)
def test_back_as_it_was(tmp_path: Path, config: QuantConfig) -> None:
    path = tmp_path / "quant.yaml"
    save_config(config, path)
    assert load_config(path) == config
    save_config(config, os.fspath(path))  # over the old one
    assert load_config(os.fspath(path)) == config and [each.name for each in tmp_path.iterdir()] == ["quant.yaml"]


def test_written_by_a_person(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        "weights: {bits: 4}   # and nothing else\n"
        "activations:\n  averaging: 1e-3\n"
        "rules:\n- name: stem\n  off: true\n- {type: Linear, weights: {bits: 8}}\n",
    )
    assert config == QuantConfig(
        weights=Weights(bits=4),
        activations=Activations(averaging=0.001),
        rules=[Rule("stem", off=True), Rule(type="Linear", weights={"bits": 8})],
    )


@pytest.mark.parametrize(
    ("text", "line", "wanted"),
    [
        ("outputs: true\nwieghts: {}\n", 2, "configuration has no field 'wieghts'\n  at {}\n  did you mean 'weights'?"),
        ("weights:\n  bits: 4\n  bit: 3\n", 3, "weights has no field 'bit'\n  at {}\n  did you mean 'bits'?"),
        ("weights:\n  per_channel: true\n  bits: 16\n", 3, "weights.bits must be a whole number from 2 to 8, not 16"),
        ("weights:\n  bits: 4\n  reduce_range: true\n", 3, "weights.reduce_range is for 8 bits"),
        ("weights:\n  per_channel: yes\n", 2, "weights.per_channel must be True or False, not 'yes'"),
        ("weights: 4\n", 1, "weights has fields, and here is 4"),
        ("rules: stem\n", 1, "rules is a list, and each rule has fields"),
        ("rules:\n- stem\n", 1, "rules is a list, and each rule has fields"),
        ("rules:\n- name: a\n  off: true\n- name: b\n  on: false\n", 5, "a rule has no field 'on'"),
        ("rules:\n- name: a\n  off: true\n- name: b\n", 4, "Rule('b') changes nothing"),
        ("rules:\n- name: a\n  weights:\n    bit: 3\n", 3, "rule.weights has no field 'bit'\n  at {}"),
        (
            "weights: {bits: 4}\nrules:\n- {name: a, weights: {bits: 8}}\n- name: b\n  weights: {bits: 9}\n",
            5,
            "weights.bits must be a whole number from 2 to 8, not 9\n  at {}",
        ),
        ("weights: {bits: 4, block_size: 32}\nrules:\n- {name: a, off: true}\n", 1, "is for weight-only quantization"),
        ("rules:\n- off: true\n  name: 1.0\n", 3, "not the number 1.0\n  at {}\n  in quotes it is one: name: '1.0'"),
        ("rules:\n- name: *.norm\n  off: true\n", 2, "begins with * is written in quotes: name: '*.norm'"),
        ("outputs: true\nlstm: dynamik\n", 2, 'lstm must be "float" or "dynamic", not \'dynamik\''),
        ("clamp:\n  weight: -1\n", 2, "clamp.weight must be a number above 0, not -1"),
        ("weights: {bits: 4}\nweights: {bits: 8}\n", 2, "'weights' is there twice"),
        ("1: 2\n", 1, "1 is not a name"),
        ("weights: {bits: 4\n", 2, "is not YAML that a configuration can be read from"),
        ("weights: !!python/object:os.system {}\n", 1, "objects of Python are not read from a file"),
    ],
)  # fmt: skip
def test_refused_at_its_line(tmp_path: Path, text: str, line: int, wanted: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    where = f"at {tmp_path / 'quant.yaml'}:{line}"
    assert where in str(caught.value)
    assert wanted.replace("at {}", where) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (b"", "is empty"),
        (b"# nothing\n", "is empty"),
        (b"- a\n- b\n", "has a list where fields should be"),
        (b"word\n", "has a str where fields should be"),
        (b"\xff\xfe\x00", "is not a text file in UTF-8"),
        (b"a: b\n---\nc: d\n", "is not YAML that a configuration can be read from"),
        (None, "cannot read the configuration"),
    ],
)
def test_no_configuration(tmp_path: Path, content: bytes | None, wanted: str) -> None:
    path = tmp_path / "quant.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=wanted):
        load_config(path)


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="save_config writes a QuantConfig, or that of an initialised model, not dict"):
        save_config({}, tmp_path / "quant.yaml")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"save_config: Linear is not quantization-aware\n  call onward.init"):
        save_config(nn.Linear(1, 1), tmp_path / "quant.yaml")
    with pytest.raises(InputError, match="its submodule module is\n  give that submodule to save_config"):
        save_config(nn.DataParallel(initialise(nn.Linear(1, 1))), tmp_path / "quant.yaml")
    with pytest.raises(InputError, match="written to the path of a file, not to 3"):
        save_config(QuantConfig(), 3)  # type: ignore[arg-type]
    with pytest.raises((WriteError, InputError), match="nowhere"):
        save_config(QuantConfig(), tmp_path / "nowhere" / "quant.yaml")
    assert list(tmp_path.iterdir()) == []


def test_init_reads_it_and_the_model_remembers(tmp_path: Path) -> None:
    config = QuantConfig(activations=Activations(bits=4), rules=[Rule("1", off=True)])
    save_config(config, tmp_path / "quant.yaml")
    try:
        model = onward.init(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), config_file=tmp_path / "quant.yaml")
        onward.save_config(model, tmp_path / "again.yaml")
        assert onward.load_config(tmp_path / "again.yaml") == config
        with pytest.raises(InputError, match="both config and config_file"):
            onward.init(nn.Linear(1, 1), config, config_file=tmp_path / "quant.yaml")
        with pytest.raises(InputError, match="Rule\\('1'\\) speaks of no module of Linear"):
            onward.init(nn.Linear(1, 1), config_file=tmp_path / "quant.yaml")
    finally:
        onward.restore()


def test_lingers_file_as_it_writes_it(tmp_path: Path) -> None:
    with pytest.warns(QuantizationWarning) as warned:
        config = read(tmp_path, LINGERS)
    assert config == QuantConfig(
        weights=Weights(per_channel=False, power_of_two=True),
        activations=Activations(symmetric=True, power_of_two=True, range="topk", top_k=10, averaging=0.1),
        rounding="half_up",
        clamp=Clamp(activation=8, weight_factor=7),
        platform="venusA",
    )
    (warning,) = warned
    text = str(warning.message)
    assert "line 6: device: cuda (the model stays where it is: call model.to(device))" in text
    assert "line 25: seed: 42 (call torch.manual_seed(seed)" in text
    assert not any(name in text for name in ("dtype", "quant_method", "strategy", "activation_type"))
    save_config(config, tmp_path / "ours.yaml")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_config(tmp_path / "ours.yaml") == config


def test_lingers_other_settings(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        "quant_info:\n  qat_method: TQT\n  activate_bits: 16\n  weight_bits: 4\n  round_mode: round\n"
        "  a_calibrate_name: abs_max\n  w_calibrate_name: w_like\n  is_perchannel: true\n",
    )
    assert config == QuantConfig(
        weights=Weights(bits=4, power_of_two=True, range="mse"),
        activations=Activations(
            bits=16, symmetric=True, power_of_two=True, range="minmax", averaging=0.1, learned=True
        ),
    )


def test_lingers_mixed_precision(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        "platform: arcs\npart1:\n  name: [0.0]\n  quant_info: {weight_bits: 4}\n".replace("[0.0]", "['0.0']")
        + "part2:\n  name: ['0', '1']\n  quant_info: {output_bits: 16}\n"
        + "quant_info: {weight_bits: 4, activate_bits: 16}\n",
    )
    model = nn.Sequential(nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1)), nn.Linear(1, 1), nn.Linear(1, 1))
    found = {
        path: each and (each.weights.bits, each.activations.bits) for path, each in config.for_model(model).items()
    }
    # The first section alone speaks of 0.0, and what a section leaves out is linger's default, 8.
    assert found == {"": (4, 16), "0": (8, 16), "0.0": (4, 8), "0.1": (8, 16), "1": (8, 16), "2": (4, 16)}


@pytest.mark.parametrize(
    ("text", "line", "wanted"),
    [
        ("platform: venusB\n", 1, 'platform must be "venus", "mars", "arcs", "venusA" or "jupiter", not \'venusB\''),
        ("seed: 1\nquant_inf: {}\n", 2, "linger's configuration has no field 'quant_inf'\n  at {}"),
        ("quant_info:\n  weigth_bits: 8\n", 2, "at {}\n  did you mean 'weight_bits'?"),
        ("quant_info:\n  activate_bits: 32\n", 2, "activate_bits: activations.bits must be"),
        ("quant_info:\n  bias_bits: 16\n", 2, "bias_bits must be 32, not 16"),
        ("quant_info:\n  round_mode: floor\n", 2, 'round_mode must be "floor_add" or "round", not \'floor\''),
        ("quant_info:\n  qat_method: LSQ\n", 2, 'qat_method must be "MOM" or "TQT", not \'LSQ\''),
        ("quant_info:\n  a_calibrate_name: top_11\n", 2, 'did you mean "top_10"?'),
        ("quant_info:\n  is_symmetry: 1\n", 2, "is_symmetry: activations.symmetric must be True or False, not 1"),
        ("quant_info: 8\n", 1, "quant_info has fields, and here is 8"),
        ("clamp_info:\n  clamp_weight: 8\n", 2, "at {}\n  did you mean 'clamp_weight_value'?"),
        ("clamp_info:\n  clamp_bias_value: 0\n", 2, "clamp_bias_value: clamp.bias must be a number above 0, not 0"),
        ("open_quant: false\n", 1, "leave out onward.init"),
        ("mix_parts: [{name: [a]}]\n", 1, "mix_parts is linger's own form"),
        ("seed: 1\np:\n  name: a\n", 3, "name must be a list of modules, not 'a'\n  at {}\n  for example name: ['0', "),
        ("seed: 1\np:\n  name: [a]\n  bits: 3\n", 4, "a section has no field 'bits'"),
        ("seed: 1\np:\n  name: [a]\n  quant_info: {input_bits: 8}\n", 4, "give output_bits to the module"),
        ("seed: 1\nweights: {bits: 4}\n", 2, "linger's configuration has no field 'weights'"),
    ],
)  # fmt: skip
def test_lingers_fields_that_are_refused(tmp_path: Path, text: str, line: int, wanted: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    where = f"at {tmp_path / 'quant.yaml'}:{line}"
    assert where in str(caught.value)
    assert wanted.replace("at {}", where) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("quant_method: CUDA\n", "quant_method: CUDA (there is one implementation"),
        ("p: {name: [a], quant_info: {qat_method: TQT}}\nseed: 1\n", "qat_method: TQT (linger looks at that of the"),
        ("quant_info: {a_strategy: KLD}\n", "a_strategy: KLD (linger itself does not look at it; a_calibrate_name"),
        ("quant_info: {activation_type: Relu}\n", "activation_type: Relu (activations that follow a layer are found"),
        ("p: {name: [a], clamp_info: {}}\nplatform: arcs\n", "clamp_info: {} (one clamp_info holds for the"),
        ("p: {name: [a], quant_info: {round_mode: round}}\nseed: 1\n", "round_mode: round (one rounding holds"),
    ],
)  # fmt: skip
def test_lingers_fields_that_say_nothing_here(tmp_path: Path, text: str, wanted: str) -> None:
    with pytest.warns(QuantizationWarning) as warned:
        read(tmp_path, text)
    assert any(wanted in str(each.message) for each in warned)


def test_a_model_of_lingers_runs(tmp_path: Path) -> None:
    (tmp_path / "quant.yaml").write_text(LINGERS)
    try:
        with pytest.warns(QuantizationWarning, match="device: cuda"):
            model = onward.init(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), config_file=tmp_path / "quant.yaml")
        with onward.calibration(model):
            model(torch.randn(8, 4))
        assert model.eval()(torch.randn(8, 4)).shape == (8, 3)
    finally:
        onward.restore()
