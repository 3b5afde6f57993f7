"""The configuration: what is refused and how, and which rule speaks of which module."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest
from torch import nn

from onward.errors import InputError
from onward.quant import Activations, QuantConfig, Resolved, Rule, Weights, load_config, save_config


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2, self.norm = nn.Conv2d(1, 1, 1), nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 1, 1)
        self.layer1 = nn.Sequential(Block(), Block())
        self.attention = nn.MultiheadAttention(4, 2)
        self.head = nn.Linear(4, 4)


def bits(config: QuantConfig) -> dict[str, tuple[int, int] | None]:
    found = config.for_model(Net())
    return {path: each and (each.weights.bits, each.activations.bits) for path, each in found.items()}


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Weights(bits=16), "weights.bits must be a whole number from 2 to 8, not 16"),
        (lambda: Weights(bits=True), "weights.bits must be a whole number from 2 to 8, not True"),
        (lambda: Weights(bits=8.0), "not 8.0"),
        (lambda: Weights(per_channel="no"), "weights.per_channel must be True or False, not 'no'"),
        (lambda: Weights(range="mze"), 'weights.range must be "minmax" or "mse", not \'mze\'\n  did you mean "mse"?'),
        (lambda: Weights(bits=4, reduce_range=True), "weights.reduce_range is for 8 bits, and weights.bits is 4"),
        (lambda: Weights(bits=6, block_size=32), "weights.block_size is for 4 or 8 bits, and weights.bits is 6"),
        (lambda: Weights(bits=4, block_size=48), "must be None or one of 16, 32, 64, 128, 256, not 48"),
        (lambda: Weights(bits=4, block_size=32, per_channel=False), "a block belongs to one channel"),
        (
            lambda: Activations(bits=32),
            "activations.bits must be a whole number from 2 to 8 or 16, not 32\n  what should",
        ),
        (lambda: Activations(range="percentil"), 'did you mean "percentile"?'),
        (lambda: Activations(range=3), "register_calibrate_method"),
        (lambda: Activations(averaging=-0.1), "activations.averaging must be a number from 0 to 1, not -0.1"),
        (lambda: Activations(averaging=1.5), "activations.averaging must be a number from 0 to 1, not 1.5"),
        (lambda: Activations(averaging=True), "activations.averaging must be a number from 0 to 1, not True"),
        (lambda: Activations(averaging=float("nan")), "not nan"),
        (lambda: Activations(percentile=101), "activations.percentile must be a number above 50 and at most 100"),
        (lambda: Activations(top_k=0), "activations.top_k must be a whole number from 1 on, not 0"),
        (lambda: Activations(bins=10), "activations.bins must be a whole number from 64 to 65536, not 10"),
        (lambda: Activations(bits=16, range="entropy"), "more levels than the histogram has bins"),
        (lambda: Rule(), "a rule needs a name or a type"),
        (lambda: Rule("", off=True), "rule.name must be the path of a module"),
        (lambda: Rule("stem"), "Rule('stem') changes nothing"),
        (lambda: Rule("stem", weights={}), "Rule('stem') changes nothing"),
        (lambda: Rule("stem", off=1), "rule.off must be True or False, not 1"),
        (lambda: Rule("stem", weights=4), "rule.weights must be a dict of the fields that change, not 4"),
        (lambda: Rule("stem", weights={"bit": 4}), "rule.weights has no field 'bit'\n  did you mean 'bits'?"),
        (lambda: Rule("stem", activations={"xyz": 4}), "its fields are bits, symmetric, power_of_two"),
        (lambda: Rule(type=int, off=True), "rule.type must be a module class or its name"),
        (lambda: QuantConfig(weights={"bits": 4}), "weights must be Weights(...), not {'bits': 4}"),
        (lambda: QuantConfig(rules="stem"), "rules must be a list of rules, not 'stem'"),
        (lambda: QuantConfig(rules=["stem"]), "rules has 'stem', which is not a Rule"),
        (lambda: QuantConfig(rounding="half_evn"), 'did you mean "half_even"?'),
        (lambda: QuantConfig(lstm=True), 'lstm must be "float" or "dynamic", not True'),
        (lambda: QuantConfig(lstm="dynamic", weight_only=True), "leaves activations in float"),
        (lambda: QuantConfig(weights=Weights(bits=4, block_size=32)), "add weight_only=True"),
        (lambda: QuantConfig(rules=[Rule("stem", weights={"bits": 9})]), "not 9\n  by Rule('stem')"),
        (lambda: QuantConfig(rules=[Rule("stem", weights={"block_size": 32})]), "is for weight-only quantization"),
    ],
)
def test_refused(make: Callable[[], object], text: str) -> None:
    with pytest.raises(InputError) as caught:
        make()
    assert text in str(caught.value)


def test_what_users_ask_for_is_allowed() -> None:
    QuantConfig()
    QuantConfig(weights=Weights(bits=4), activations=Activations(bits=4, learned=True))  # W4A4
    QuantConfig(activations=Activations(bits=16))  # W8A16
    QuantConfig(weights=Weights(bits=4, block_size=32), weight_only=True)
    QuantConfig(  # a chip that shifts
        weights=Weights(per_channel=False, power_of_two=True),
        activations=Activations(symmetric=True, power_of_two=True),
        rounding="half_up",
    )


@pytest.mark.parametrize(
    ("rules", "changed"),
    [
        ([Rule("stem", weights={"bits": 4})], {"stem": (4, 8)}),
        ([Rule("layer1.*.conv?", weights={"bits": 4})], {f"layer1.{i}.conv{j}": (4, 8) for i in "01" for j in "12"}),
        (
            [Rule("layer1.1", activations={"bits": 16})],  # and everything inside
            dict.fromkeys(["layer1.1", "layer1.1.conv1", "layer1.1.conv2", "layer1.1.norm"], (8, 16)),
        ),
        ([Rule(type="Linear", off=True)], dict.fromkeys(["head", "attention.out_proj"])),
        ([Rule(type=nn.Linear, off=True)], dict.fromkeys(["head", "attention.out_proj"])),  # a subclass counts
        ([Rule(type="MultiheadAttention", off=True)], dict.fromkeys(["attention", "attention.out_proj"])),
        ([Rule("head", type="Conv2d", off=True), Rule("head", off=True)], {"head": None}),
        (
            [Rule(type=Block, name="layer1.0", off=True), Rule("layer1.0.norm", off=False)],
            dict.fromkeys(["layer1.0", "layer1.0.conv1", "layer1.0.conv2"]),
        ),
        ([Rule("stem", off=True), Rule(type="Conv2d", name="stem", weights={"bits": 4})], {"stem": None}),
        (
            [Rule("stem", weights={"bits": 4}, activations={"bits": 16}), Rule("stem", activations={"bits": 4})],
            {"stem": (4, 4)},
        ),
    ],
)
def test_rules(rules: list[Rule], changed: dict[str, tuple[int, int] | None]) -> None:
    config = QuantConfig(rules=rules)
    if any(rule.name == "head" and rule.type for rule in rules):
        with pytest.raises(InputError, match="speaks of no module of Net"):
            config.for_model(Net())
        config = QuantConfig(rules=rules[1:])
    found = bits(config)
    assert found == {**dict.fromkeys(found, (8, 8)), **changed}


def test_rules_that_only_fit_together() -> None:
    first = Rule("head", weights={"bits": 4}, weight_only=True)
    rules = [first, Rule(type="Linear", weights={"range": "mse"}), Rule("head", weights={"block_size": 64})]
    config = QuantConfig(rules=rules)
    assert config.for_module("head", nn.Linear(4, 4)) == Resolved(
        weights=Weights(bits=4, block_size=64, range="mse"),
        activations=Activations(),
        rounding="half_even",
        weight_only=True,
    )


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (
            Rule("layer1.0.conv3", off=True),
            "Rule('layer1.0.conv3') speaks of no module of Net\n  did you mean 'layer1.0.conv",
        ),
        (Rule(type="Conv2D", off=True), "Rule(type='Conv2D') speaks of no module of Net\n  did you mean 'Conv2d'?"),
        (Rule(type="LSTM", off=True), "its modules are of the classes BatchNorm2d, Block, Conv2d"),
        (Rule("qqq", off=True), "its modules are stem, "),
    ],
)
def test_a_rule_for_nothing(rule: Rule, text: str) -> None:
    with pytest.raises(InputError) as caught:
        QuantConfig(rules=[rule]).for_model(Net())
    assert text in str(caught.value)


def test_a_shared_module_has_a_configuration_under_each_of_its_names() -> None:
    model = nn.ModuleDict({"a": nn.Linear(1, 1)})
    model["b"] = model["a"]
    found = QuantConfig(rules=[Rule("b", off=True)]).for_model(model)
    assert found["a"] is not None and found["b"] is None


class Linear(nn.Module):
    """Has a name in common with one of PyTorch's, and nothing else."""


class Special(nn.Linear):
    pass


@pytest.mark.parametrize(
    ("kind", "covered"),
    [
        (nn.Linear, ["special", "theirs"]),
        ("torch.nn.Linear", ["special", "theirs"]),
        ("torch.nn.modules.linear.Linear", ["special", "theirs"]),
        ("Linear", ["ours", "special", "theirs"]),
        (Linear, ["ours"]),
        (Special, ["special"]),
    ],
)
def test_a_class_and_others_of_its_name(kind: type[nn.Module] | str, covered: list[str], tmp_path: Path) -> None:
    model = nn.ModuleDict({"ours": Linear(), "theirs": nn.Linear(2, 2), "special": Special(2, 2)})
    config = QuantConfig(rules=[Rule(type=kind, off=True)])
    save_config(config, tmp_path / "quant.yaml")
    again = load_config(tmp_path / "quant.yaml")
    assert again == config
    assert sorted(path for path, found in again.for_model(model).items() if found is None) == covered


def test_configurations_are_values() -> None:
    config = QuantConfig(
        weights=Weights(bits=4), rules=[Rule(type=nn.Conv2d, weights=Weights(bits=6)), Rule("a", off=True)]
    )
    again = QuantConfig(
        weights=Weights(bits=4), rules=(Rule(type="torch.nn.Conv2d", weights=Weights(bits=6)), Rule("a", off=True))
    )
    assert config == again and hash(config) == hash(again)
    assert copy.deepcopy(config) == config and pickle.loads(pickle.dumps(config)) == config
    with pytest.raises(FrozenInstanceError):
        config.rounding = "half_up"  # type: ignore[misc]
