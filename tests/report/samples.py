"""Models as the page reads them, made by hand: long ones, nested ones, and one whose every name is an attack."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
ATTACK = '</script><img src=x onerror="window.attacked = true"><!--<script>{{"\'\u2028'


class Sample:
    """A model in the making."""

    def __init__(self, name: str = "Sample") -> None:
        self.values: list[Json] = []
        self.nodes: list[Json] = []
        self.name = name
        self.inputs: list[int] = []
        self.outputs: list[int] = []

    def value(self, name: str, kind: str = "inner", shape: list[int | str] | None = None) -> int:
        shape = ["batch", 8] if shape is None else shape
        stored = {"name": name, "type": "float32", "shape": shape, "kind": kind, "bytes": 64, "preview": None}
        stored["parameters"] = 64 if kind == "weight" else 0
        self.values.append(stored)
        return len(self.values) - 1

    def node(self, op: str, inputs: list[int | None], scope: str = "", weight: str = "", **more: Any) -> int:
        """Append a node and give its result; `scope` is `layers.0:Linear`, words between dots are modules."""
        made = self.make(op, inputs, scope, weight, **more)
        self.nodes.append(made)
        return int(made["out"][0])

    def make(self, op: str, inputs: list[int | None], scope: str = "", weight: str = "", **more: Any) -> Json:
        index = len(self.values)
        out = self.value(f"{op.lower()}_{index}")
        weights = [self.value(weight, "weight", [8, 8])] if weight else []
        return {
            "name": f"node_{index}", "op": op, "domain": "", "in": [*inputs, *weights], "out": [out],
            "attributes": [["axis", "1"]], "scope": [[part, part.title()] for part in scope.split(".") if part],
            "source": f"net.py:{index}", "code": f"x = {op.lower()}(x)", "parameters": 64 if weight else 0,
            "flops": 128, "memory": 256, "microseconds": 1.5, "fused_into": None,
            "error": {"max": 1e-6, "scaled": 1e-7, "ok": True}, "problems": [], "graphs": [],
        } | more  # fmt: skip

    def data(self, **more: Any) -> Json:
        return {
            "name": self.name, "producer": "onward", "opset": {"": 20},
            "files": {"bytes_of_weights": 4096, "nodes": len(self.nodes)},
            "values": self.values, "nodes": self.nodes, "inputs": self.inputs, "outputs": self.outputs,
            "axes": [{"name": "batch", "where": "x axis 0", "bounds": "1..64", "proven": ["checked at 1, 3"]}],
            "frozen": [], "warnings": [],
            "verification": [
                {"sizes": "as given", "output": "y", "error": 1e-7, "verdict": "ok", "ok": True, "skipped": None}
            ],
            "totals": {
                "parameters": 64, "flops": 128, "peak_memory": 512, "microseconds": 9.0, "run_microseconds": 20.0,
                "profiled_at": "2×8",
            },
            "compatibility": [], "sections": [],
        } | more  # fmt: skip

    def enter(self, name: str = "x") -> int:
        self.inputs.append(self.value(name, "input"))
        return self.inputs[-1]

    def leave(self, value: int) -> None:
        self.values[value]["kind"] = "output"
        self.outputs.append(value)


def flat(length: int, skips: bool = True) -> Json:
    """One long row of nodes in no module; every seventh also reads what is some steps back."""
    sample = Sample("Flat")
    results = [sample.enter()]
    for i in range(length):
        back = results[-1 - (i * 5) % 9] if skips and i % 7 == 6 and i > 10 else None
        results.append(
            sample.node("Add", [results[-1], back]) if back else sample.node(["Relu", "Conv"][i % 2], [results[-1]])
        )
    sample.leave(results[-1])
    return sample.data()


def nested(layers: int) -> Json:
    """Blocks of ten nodes with a residual, in modules three deep."""
    sample = Sample("Nested")
    x = sample.enter()
    x = sample.node("MatMul", [x], "stem", weight="stem.weight")
    for i in range(layers):
        at = f"encoder.{i}"
        norm = sample.node("LayerNormalization", [x], f"{at}.norm", weight=f"encoder.{i}.norm.weight")
        q, k, v = (
            sample.node("MatMul", [norm], f"{at}.attention.{n}", weight=f"encoder.{i}.{n}.weight") for n in "qkv"
        )
        scores = sample.node("MatMul", [q, k], f"{at}.attention")
        mixed = sample.node("MatMul", [sample.node("Softmax", [scores], f"{at}.attention"), v], f"{at}.attention")
        y = sample.node("Add", [x, sample.node("Gemm", [mixed], f"{at}.out", weight=f"encoder.{i}.out.weight")], at)
        x = sample.node("Gelu", [y], f"{at}.act")
    sample.leave(sample.node("Gemm", [x], "head", weight="head.weight"))
    return sample.data()


def dense(length: int) -> Json:
    """Every node reads all that came before it."""
    sample = Sample("Dense")
    results: list[int | None] = [sample.enter()]
    for _ in range(length):
        results.append(sample.node("Concat", list(results)))
    sample.leave(sample.nodes[-1]["out"][0])
    return sample.data()


def cached(layers: int) -> Json:
    """Layers that each take and give a part of a cache."""
    sample = Sample("Cached")
    x = sample.enter()
    for i in range(layers):
        past = sample.enter(f"past.{i}")
        now = sample.node("Concat", [past, x], f"layers.{i}")
        sample.leave(now)
        x = sample.node("Attention", [x, now], f"layers.{i}")
    sample.leave(x)
    return sample.data()


def branching() -> Json:
    """An If whose branches read a value from outside, and a Loop in one of them."""
    sample = Sample("Branching")
    x = sample.enter()
    condition = sample.node("Greater", [x])
    outer = sample.node("Relu", [x])
    turn = sample.value("turn")
    step = sample.make("Mul", [outer, turn])
    loop = sample.make("Loop", [outer])
    loop["graphs"] = [{"name": "body", "nodes": [step], "inputs": [turn], "outputs": step["out"]}]
    then = sample.make("Neg", [outer])
    otherwise = sample.make("Exp", loop["out"])
    branches = [
        {"name": "then_branch", "nodes": [then], "inputs": [], "outputs": then["out"]},
        {"name": "else_branch", "nodes": [loop, otherwise], "inputs": [], "outputs": otherwise["out"]},
    ]
    sample.leave(sample.node("If", [condition], graphs=branches))
    return sample.data()


def target(title: str, source: str, **findings: list[Json]) -> Json:
    """What is known of a runtime."""
    return {"target": title, "problems": [], "unknown": [], "conditions": [], "source": source} | findings


def hostile() -> Json:
    """Every text that a model can bring is an attempt to become markup."""
    sample = Sample(ATTACK)
    x = sample.enter(ATTACK)
    texts = {"name": ATTACK, "domain": ATTACK, "attributes": [[ATTACK, ATTACK]], "code": ATTACK, "source": ATTACK}
    y = sample.node(ATTACK, [x], weight=ATTACK, problems=[ATTACK], fused_into=ATTACK, **texts)
    sample.nodes[0]["scope"] = [[ATTACK, ATTACK]]
    sample.node("Relu", [y])
    sample.nodes[1]["scope"] = [[ATTACK, ATTACK]]
    sample.nodes[1]["error"] = {"max": float("nan"), "scaled": float("inf"), "ok": False}
    sample.values[0]["preview"] = sample.values[0]["type"] = ATTACK
    sample.values[0]["shape"] = [ATTACK]
    sample.leave(sample.nodes[1]["out"][0])
    return sample.data(
        producer=ATTACK, opset={"": 20, ATTACK: 1}, frozen=[ATTACK], warnings=[ATTACK],
        axes=[{"name": ATTACK, "where": ATTACK, "bounds": ATTACK, "proven": [ATTACK]}],
        verification=[
            {"sizes": ATTACK, "output": ATTACK, "error": float("nan"), "verdict": ATTACK, "ok": False, "skipped": None}
        ],
        compatibility=[target(ATTACK, ATTACK, problems=[{"text": ATTACK, "count": 1, "nodes": [0]}])],
        sections=[{"title": ATTACK, "html": "<p>theirs</p>"}], notes=[ATTACK], error_note=ATTACK,
    )  # fmt: skip
