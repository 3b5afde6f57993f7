"""Contract row H5: models that an exporter need not keep, and must not get wrong without a word.

Each is named by line in an error or a warning. An engine that keeps one after all, right for all inputs, is welcome.
"""

from __future__ import annotations

import heapq

import numpy as np
import torch
from torch import nn

from .h_rows import Table, floats, ints, noise, number, sizes

ROWS = Table()
UP, DOWN = floats(1, 2, 3), floats(-1, -2, -3)
AXES = {"x": {0: "n"}}


@ROWS.row(*map(number, (5.0, 0.5, 30.0, 2.0)), expects="warns", reason="ONNX has no recursion")
class TreeRecursion(nn.Module):
    def grow(self, x):
        if x < 1:
            return x
        return self.grow(x / 2) + self.grow(x / 3) * 2

    def forward(self, x):
        return self.grow(x)


@ROWS.row(*map(number, (5.0, 0.5, 300.0, 2.0)), expects="warns", reason="recursion without a bound")
class RecursionWithoutABound(nn.Module):
    def forward(self, x):
        if x < 1:
            return x
        return self.forward(x / 2) + 1


@ROWS.row(noise(8), noise(8, seed=1), noise(8).abs(), -noise(8).abs(), expects="warns", reason="a tree of decisions")
class Quicksort(nn.Module):
    def sort(self, x):
        if x.numel() <= 1:
            return x
        pivot, rest = x[0], x[1:]
        return torch.cat([self.sort(rest[rest < pivot]), pivot[None], self.sort(rest[rest >= pivot])])

    def forward(self, x):
        return self.sort(x) * 2


@ROWS.row(*map(number, (5.0, 0.5, 300.0, 2.0)), expects="warns", reason="the rank depends on the number of turns")
class RankGrowsInAWhile(nn.Module):
    def forward(self, x):
        while x.max() > 1:
            x = x.unsqueeze(0) / 2
        return x


@ROWS.row(*sizes(lambda n: noise(n), 3, 0, 1, 2, 6), axes=AXES, expects="error", reason="the rank depends on a size")
class RankGrowsWithAnAxis(nn.Module):
    def forward(self, x):
        y = x.sum()
        for _ in range(x.shape[0]):
            y = y.unsqueeze(0)
        return y


@ROWS.row(*map(number, (5.0, 0.5, 300.0, 2.0)), expects="warns", reason="the dtype depends on the number of turns")
class DtypeChangesInAWhile(nn.Module):
    def forward(self, x):
        while x > 1:
            x = x.float() / 2 if x.dtype is torch.float64 else x.double() / 2
        return x


@ROWS.row(ints(5), ints(0), ints(300), ints(2), expects="warns", reason="the first turn turns integers into floats")
class DtypeChangesOnce(nn.Module):
    def forward(self, x):
        while x.sum() > 1:
            x = x / 2
        return x


@ROWS.row(UP, DOWN, expects="warns", reason="the sides have different dtypes")
class SidesOfDifferentDtypes(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x.long()


@ROWS.row(UP, DOWN, expects="warns", reason="the sides have different ranks")
class SidesOfDifferentRanks(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x.sum()


@ROWS.row(UP, DOWN, expects="warns", reason="the number of outputs depends on data")
class OutputsDependOnData(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x, x * 2
        return (x - 1,)


@ROWS.row(UP, DOWN, expects="warns", reason="the names of the outputs depend on data")
class KeysDependOnData(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return {"positive": x}
        return {"negative": x * 2}


@ROWS.row(*sizes(lambda n: noise(n, 2), 3, 1, 2, 6), axes=AXES, expects="error", reason="as many outputs as rows")
class OutputPerRow(nn.Module):
    def forward(self, x):
        return list(x * 2)


@ROWS.row(*sizes(lambda n: noise(n, 2), 3, 1, 2, 6), axes=AXES, expects="error", reason="as many outputs as turns")
class DictKeyedByTheTurn(nn.Module):
    def forward(self, x):
        out = {}
        for t in range(x.shape[0]):
            out[f"step{t}"] = x[t].exp()
        return out


@ROWS.row(*sizes(lambda n: noise(n, 2), 3, 1, 2, 6), axes=AXES, expects="error", reason="a list of different shapes")
class PrefixesInAList(nn.Module):
    def forward(self, x):
        out = []
        for t in range(x.shape[0]):
            out.append(x[: t + 1] * 2)
        return out


@ROWS.row(noise(4, 2), noise(4, 2).abs(), -noise(4, 2).abs() - 1, expects="warns", reason="as many rows as answers")
class AppendUnderAnIf(nn.Module):
    def forward(self, x):
        out = [torch.zeros(2)]
        for i in range(4):
            if x[i].sum() > 0:
                out.append(x[i])
        return torch.stack(out)


@ROWS.row(noise(4), noise(4).abs(), -noise(4).abs(), expects="warns", reason="a generator that yields on data")
class GeneratorOnData(nn.Module):
    def positive(self, x):
        for value in x:
            if value > 0:
                yield value * 2

    def forward(self, x):
        return sum(self.positive(x), x.sum())


SEEN: list[int] = []


@ROWS.row(UP, DOWN, expects="warns", reason="the answer is kept in a global")
class GlobalState(nn.Module):
    def forward(self, x):
        SEEN.clear()
        if x.sum() > 0:
            SEEN.append(2)
        return x * (len(SEEN) + 1)


@ROWS.row(UP, DOWN, expects="warns", reason="a number is made into text")
class Printing(nn.Module):
    def forward(self, x):
        print("the mean is", x.mean().item())
        if x.mean() > 0:
            print(f"positive: {float(x.sum()):.2f}")
        return x * 2


@ROWS.row(UP, 100 * UP, floats(0, 0, 0), expects="warns", reason="a number is made from text")
class LengthOfText(nn.Module):
    def forward(self, x):
        return x * len(str(int(x.sum())))


@ROWS.row((UP, number(1)), (UP, number(0)), (DOWN, number(7)), expects="warns", reason="an exception decides")
class KeyErrorAsABranch(nn.Module):
    def forward(self, x, kind):
        try:
            scale = {0: 10.0, 1: 20.0}[int(kind)]
        except KeyError:
            scale = 30.0
        return x * scale


class Found(Exception):
    pass


@ROWS.row(
    noise(4), noise(4).abs(), -noise(4).abs(), floats(-1, -1, 5, 6), expects="warns", reason="an exception decides"
)
class ExceptionEndsALoop(nn.Module):
    def search(self, x):
        for value in x:
            if value > 0:
                raise Found
            x = x + 1

    def forward(self, x):
        y = x * 2
        try:
            self.search(y)
        except Found:
            y = y.flip(0)
        return y


@ROWS.row(torch.eye(2) * 3, -torch.eye(2), floats([2, 1], [1, 2]), expects="warns", reason="a kernel's error decides")
class ErrorOfAKernel(nn.Module):
    def forward(self, x):
        try:
            return torch.linalg.cholesky(x) * 2
        except torch.linalg.LinAlgError:
            return x - 1


@ROWS.row(UP, DOWN, floats(2, 1, 3), expects="warns", reason="the values leave PyTorch")
class ThroughNumpy(nn.Module):
    def forward(self, x):
        order = np.argsort(x.numpy())
        return x * 2 + torch.from_numpy(order.copy())


@ROWS.row(UP, DOWN, floats(2, 2, 3), floats(1, 1, 1), expects="warns", reason="values are compared by their hash")
class SetOfValues(nn.Module):
    def forward(self, x):
        return x * len(set(x.tolist()))


@ROWS.row(noise(4, 2), noise(4, 2, seed=1), -noise(4, 2), expects="warns", reason="Python sorts by data")
class SortedByAKey(nn.Module):
    def forward(self, x):
        return torch.stack(sorted(x, key=lambda row: float(row[0])))


@ROWS.row((noise(3), number(0)), (noise(3), number(1)), (noise(3), number(2)), expects="warns", reason="text is a key")
class ModuleByName(nn.Module):
    """As switch_transformers chooses its experts."""

    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleDict({f"expert{k}": nn.Linear(3, 3) for k in range(3)})

    def forward(self, x, kind):
        return self.experts[f"expert{int(kind)}"](x)


@ROWS.row((noise(3), number(0)), (noise(3), number(1)), (noise(3), number(2)), expects="warns", reason="a list index")
class ModuleByIndex(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList([nn.Linear(3, 3) for k in range(3)])

    def forward(self, x, kind):
        return self.experts[int(kind)](x)


@ROWS.row(*sizes(lambda n: noise(n, 3), 3, 1, 2, 5), axes=AXES, expects="warns", reason="a module per turn")
class ModulesAlongTheAxis(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(5)])

    def forward(self, x):
        y = torch.zeros(3)
        for t in range(x.shape[0]):
            y = torch.tanh(self.layers[t](x[t]) + y)
        return y


@ROWS.row(
    (noise(4, 2), number(2)), (noise(4, 2), number(1)), (noise(4, 2), number(4)), expects="warns", reason="a list cut"
)
class ListCutByData(nn.Module):
    def forward(self, x, count):
        parts = [row * 2 for row in x]
        return torch.stack(parts[: int(count)])


@ROWS.row(
    *[ints(*kinds) for kinds in [(0, 1, 2, 1), (0, 0, 0, 0), (2, 2, 1, 0)]], expects="warns", reason="lists by data"
)
class GroupsByData(nn.Module):
    def forward(self, kinds):
        groups = [[torch.zeros(())] for _ in range(3)]
        for place, kind in enumerate(kinds):
            groups[int(kind)].append(torch.tensor(place + 1.0))
        return torch.stack([torch.stack(group).sum() for group in groups]) + kinds[0]


LINKS = floats([0, 1, 0, 0], [0, 0, 2, 5], [0, 0, 0, 1], [0, 0, 0, 0])


@ROWS.row(LINKS, LINKS.t().contiguous(), torch.zeros(4, 4), torch.ones(4, 4), expects="warns", reason="a Python queue")
class BreadthFirst(nn.Module):
    def forward(self, links):
        queue, depth = [0], {0: 0}
        while queue:
            node = queue.pop(0)
            for other in range(4):
                if links[node, other] > 0 and other not in depth:
                    depth[other] = depth[node] + 1
                    queue.append(other)
        return torch.tensor([depth.get(node, -1) for node in range(4)]) + links[0, 0]


@ROWS.row(LINKS, LINKS.t().contiguous(), torch.zeros(4, 4), torch.ones(4, 4), expects="warns", reason="a Python heap")
class Dijkstra(nn.Module):
    def forward(self, links):
        heap, done = [(0.0, 0)], {}
        while heap:
            length, node = heapq.heappop(heap)
            if node in done:
                continue
            done[node] = length
            for other in range(4):
                if links[node, other] > 0:
                    heapq.heappush(heap, (length + links[node, other].item(), other))
        return torch.tensor([done.get(node, -1.0) for node in range(4)]) + links[0, 0]


@ROWS.row(*sizes(lambda n: noise(n, 2), 4, 1, 9, 15, 16, 20), axes=AXES, expects="warns", reason="turns are counted")
class TurnsCountedInPython(nn.Module):
    def forward(self, x):
        turns = 0
        for _ in x:
            turns += 1
        return x * 2 if turns >= 16 else x + 1


SIGNS = [floats(*[1] * k, *[-1] * (8 - k)) for k in range(9)]
SIGNS += [-each for each in SIGNS]


@ROWS.row(noise(8), *SIGNS, expects="warns", reason="Python counts the answers")
class AllEight(nn.Module):
    def forward(self, x):
        hits = 0
        for i in range(8):
            if x[i] > 0:
                hits += 1
        return x * 2 if hits == 8 else x + 1


@ROWS.row(noise(8), *SIGNS, expects="warns", reason="Python counts the answers")
class ListByTheNumberOfAnswers(nn.Module):
    def forward(self, x):
        hits = 0
        for value in x:
            if value > 0:
                hits += 1
        return x * [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 5.0][hits]


@ROWS.row(noise(8), *SIGNS, expects="warns", reason="Python keeps the answers in the bits of a number")
class AnswersAsBits(nn.Module):
    def forward(self, x):
        bits = 0
        for i in range(8):
            if x[i] > 0:
                bits |= 1 << i
        return x * 2 if bits in (0b10111011, 0b11111111) else x + 1


@ROWS.row(UP, DOWN, expects="warns", reason="an attribute is there or not")
class HasattrOnData(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            self.bias = x.mean()
        y = x * 2
        return y + self.bias if hasattr(self, "bias") else y


@ROWS.row(number(3), number(0), number(45), number(70), expects="warns", reason="integers without a bound")
class LargeIntegers(nn.Module):
    def forward(self, n):
        value = 3 ** int(n)
        return torch.tensor(value % 1000) + n
