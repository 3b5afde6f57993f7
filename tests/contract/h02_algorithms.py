"""Contract row H2: algorithms that people know, written with `while`: numerics, decoding, search, sorting, graphs."""

from __future__ import annotations

import torch
from torch import nn

from .h_rows import Table, floats, ints, noise, number, sizes

ROWS = Table()


@ROWS.row(floats(2, 9), floats(1, 1), floats(1e4, 3), floats(0.01, 4))
class Newton(nn.Module):
    def forward(self, x):
        guess = torch.ones_like(x)
        while ((guess * guess - x).abs() > 1e-3 * x).any():
            guess = (guess + x / guess) / 2
        return guess


@ROWS.row(*[number(value) for value in (2.0, 0.3, 50.0, 63.9)])
class Bisection(nn.Module):
    def forward(self, x):
        low, high = torch.zeros(()), torch.tensor(8.0)
        while high - low > 0.01:
            middle = (low + high) / 2
            if middle * middle > x:
                high = middle
            else:
                low = middle
        return low


@ROWS.row(*[number(value) for value in (2.0, 1.0, 50.0, -3.0)])
class BisectionThatMayHit(nn.Module):
    def forward(self, x):
        low, high = -8.0 + x * 0, 8.0 + x * 0
        middle = (low + high) / 2
        while (high - low) > 0.01:
            middle = (low + high) / 2
            value = middle**3 - x
            if value == 0:
                break
            elif value > 0:
                high = middle
            else:
                low = middle
        return middle


@ROWS.row(*[noise(3, 3, seed=seed) @ noise(3, 3, seed=seed).t() for seed in (1, 2, 3)], torch.eye(3))
class PowerIteration(nn.Module):
    def forward(self, matrix):
        vector = torch.ones(3) / 3**0.5
        change = torch.ones(())
        while change > 0.01:
            new = matrix @ vector
            new = new / new.norm()
            change = (new - vector).norm()
            vector = new
        return vector @ matrix @ vector


@ROWS.row((number(48), number(18)), (number(7), number(0)), (number(5), number(5)), (number(17), number(610)))
class Gcd(nn.Module):
    def forward(self, a, b):
        while b != 0:
            a, b = b, a % b
        return a


@ROWS.row((number(48), number(18)), (number(7), number(0)), (number(5), number(5)), (number(17), number(610)))
class GcdOfPythonNumbers(nn.Module):
    def forward(self, a, b):
        m, n = int(a), int(b)
        while n:
            m, n = n, m % n
        return torch.tensor(m) + a * 0


@ROWS.row(number(6), number(1), number(27), number(16))
class Collatz(nn.Module):
    def forward(self, n):
        steps = 0
        while n != 1:
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
            steps += 1
        return torch.tensor(steps) + n


@ROWS.row((number(3.0), number(5)), (number(2.0), number(0)), (number(0.5), number(12)), (number(1.5), number(1)))
class PowerBySquaring(nn.Module):
    def forward(self, base, exponent):
        result = torch.ones(())
        while exponent > 0:
            if exponent % 2 == 1:
                result = result * base
            base = base * base
            exponent = exponent // 2
        return result


@ROWS.row(number(5), number(0), number(255), number(1024))
class CountOfBits(nn.Module):
    def forward(self, n):
        count = torch.zeros((), dtype=torch.int64)
        while n:
            n = n & (n - 1)
            count += 1
        return count


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 6)
        self.head = nn.Linear(6, 7)
        nn.init.orthogonal_(self.embedding.weight)
        nn.init.orthogonal_(self.head.weight)

    def forward(self, tokens):
        return self.head(self.embedding(tokens).cumsum(-2))


@ROWS.row(
    *sizes(lambda n: ints(*range(1, n + 1)) % 7, 2, 1, 3, 5),
    ints(3, 0),
    ints(6),
    ints(4, 4),
    axes={"tokens": {0: "seq"}},
)
class GreedyDecoding(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = LanguageModel()

    def forward(self, tokens):
        last = tokens[-1]
        while last != 0 and tokens.shape[0] < 9:
            last = self.model(tokens)[-1].argmax()
            tokens = torch.cat([tokens, last[None]])
        return tokens


@ROWS.row(
    *[ints([2, 2, a], [4, 2, b]) for a, b in [(2, 1), (1, 1), (3, 6), (0, 0), (5, 4), (1, 0)]],
    ints([1, 2, 3], [1, 1, 1]),
)
class GreedyDecodingOfABatch(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = LanguageModel()

    def forward(self, tokens):
        finished = tokens[:, -1] == 0
        for _ in range(6):
            if finished.all():
                break
            following = self.model(tokens)[:, -1].argmax(-1)
            following = torch.where(finished, 0, following)
            tokens = torch.cat([tokens, following[:, None]], 1)
            finished = finished | (following == 0)
        return tokens


@ROWS.row(*[ints(start) for start in range(7)])
class BeamSearch(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = LanguageModel()

    def forward(self, start):
        beams, scores = start.expand(3, 1), floats(0, -1, -2)
        steps = 0
        while steps < 5 and (beams[:, -1] != 0).any():
            logits = self.model(beams)[:, -1].log_softmax(-1)
            best = (scores[:, None] + logits).flatten().topk(3)
            scores = best.values
            beams = torch.cat([beams[best.indices // 7], best.indices[:, None] % 7], 1)
            steps += 1
        return beams[0], scores


def _boxes(count, spread):
    corner = noise(count, 2, seed=3) * spread
    return torch.cat([corner, corner + 1 + noise(count, 2, seed=4).abs()], 1), noise(count, seed=5)


@ROWS.row(
    *sizes(lambda n: _boxes(n, 1.0), 6, 0, 1, 2, 12), _boxes(6, 0.1), _boxes(6, 50.0),
    axes={"boxes": {0: "n"}, "scores": {0: "n"}},
)  # fmt: skip
class NonMaximumSuppression(nn.Module):
    def overlaps(self, box, boxes):
        low, high = torch.maximum(box[:2], boxes[:, :2]), torch.minimum(box[2:], boxes[:, 2:])
        common = (high - low).clamp(min=0).prod(1)
        areas = (boxes[:, 2:] - boxes[:, :2]).prod(1)
        return common / (areas + (box[2:] - box[:2]).prod() - common)

    def forward(self, boxes, scores):
        order = scores.argsort(descending=True)
        keep = torch.zeros(0, dtype=torch.int64)
        while order.numel() > 0:
            best = order[0]
            keep = torch.cat([keep, best[None]])
            order = order[1:]
            order = order[self.overlaps(boxes[best], boxes[order]) < 0.3]
        return keep


@ROWS.row(*sizes(lambda n: _boxes(n, 1.0), 6, 1, 2, 12), axes={"boxes": {0: "n"}, "scores": {0: "n"}})
class NonMaximumSuppressionWithAList(nn.Module):
    def forward(self, boxes, scores):
        alive, kept = torch.ones_like(scores), []
        while alive.any():
            best = (scores.exp() * alive).argmax()
            kept.append(best)
            distance = (boxes - boxes[best]).abs().sum(1)
            alive = alive * (distance > 2)
        return torch.stack(kept)


@ROWS.row(floats(3, 1, 2, 0), floats(1, 2, 3, 4), floats(4, 3, 2, 1), floats(1, 1, 0, 0))
class BubbleSort(nn.Module):
    def forward(self, x):
        x = x.clone()
        swapped = True
        while swapped:
            swapped = False
            for i in range(3):
                if x[i] > x[i + 1]:
                    x[i], x[i + 1] = x[i + 1].clone(), x[i].clone()
                    swapped = True
        return x


@ROWS.row(floats(3, 1, 2, 0), floats(1, 2, 3, 4), floats(4, 3, 2, 1), floats(1, 1, 0, 0))
class InsertionSort(nn.Module):
    def forward(self, x):
        x = x.clone()
        for i in range(1, 4):
            value = x[i].clone()
            j = i
            while j > 0 and x[j - 1] > value:
                x[j] = x[j - 1]
                j -= 1
            x[j] = value
        return x


WALLS = torch.tensor([[0, 0, 1, 0], [1, 0, 1, 0], [0, 0, 0, 1], [1, 1, 0, 0]]).bool()


@ROWS.row(torch.ones(4, 4).bool(), WALLS, ~WALLS, torch.zeros(4, 4).bool(), WALLS.t().contiguous())
class FloodFill(nn.Module):
    def forward(self, walls):
        filled = torch.zeros_like(walls)
        filled[0, 0] = True
        size = torch.zeros(())
        while filled.sum() > size:
            size = filled.sum().float()
            wider = filled.clone()
            wider[1:] |= filled[:-1]
            wider[:-1] |= filled[1:]
            wider[:, 1:] |= filled[:, :-1]
            wider[:, :-1] |= filled[:, 1:]
            filled = wider & ~walls
        return filled


@ROWS.row(
    *sizes(lambda n: (torch.eye(n) + torch.diag(torch.arange(n - 1.0) % 3, 1)).bool(), 5, 1, 2, 9),
    torch.ones(4, 4).bool(), axes={"links": {0: "n", 1: "n"}},
)  # fmt: skip
class ConnectedComponents(nn.Module):
    def forward(self, links):
        links = links | links.t()
        labels = torch.arange(links.shape[0])
        while True:
            best = torch.where(links, labels[None], links.shape[0]).min(1).values
            if torch.equal(best, labels):
                return labels
            labels = best


@ROWS.row((floats(1, 3, 5, 7), number(5.0)), (floats(1, 3, 5, 7), number(0.0)), (floats(1, 3, 5, 7), number(9.0)))
class BinarySearch(nn.Module):
    def forward(self, values, wanted):
        low, high = 0, 4
        while low < high:
            middle = (low + high) // 2
            if values[middle] < wanted:
                low = middle + 1
            else:
                high = middle
        return torch.tensor(low) + wanted * 0


@ROWS.row(
    *sizes(lambda n: (torch.arange(n) * 2.0, number(5.0)), 6, 0, 1, 2, 9),
    (torch.arange(4) * 2.0, number(-1.0)), (torch.arange(4) * 2.0, number(2.0)), axes={"values": {0: "n"}},
)  # fmt: skip
class BinarySearchWithTensors(nn.Module):
    def forward(self, values, wanted):
        low, high = torch.tensor(0), torch.tensor(values.shape[0])
        while low < high:
            middle = (low + high) // 2
            if values[middle] < wanted:
                low = middle + 1
            else:
                high = middle
        return low


@ROWS.row(*sizes(lambda n: noise(n, seed=2), 5, 1, 2, 9), *sizes(lambda n: -noise(n).abs(), 1, 4), axes={"x": {0: "n"}})
class TakeTheLargestAway(nn.Module):
    def forward(self, x):
        taken = torch.zeros(())
        while x.max() > 0:
            place = x.argmax()
            taken = taken * 2 + x[place]
            x = x.scatter(0, place[None], -1.0)
        return taken, x


@ROWS.row(floats(1, 3, 2, 5), floats(5, 1, 1, 1), floats(1, 2, 3, 4), floats(0, 0, 0, 0))
class RunningMax(nn.Module):
    def forward(self, x):
        out, best, i = [], x[0], 0
        while i < 4:
            if x[i] > best:
                best = x[i]
            out.append(best)
            i += 1
        return torch.stack(out)


@ROWS.row(noise(4), noise(4, seed=1), noise(4, seed=2) * 5, torch.full((4,), 40.0), torch.full((4,), -3.0))
class AdaptiveComputation(nn.Module):
    def __init__(self):
        super().__init__()
        self.step, self.halt = nn.Linear(4, 4), nn.Linear(4, 1)
        nn.init.constant_(self.halt.bias, -1.0)

    def forward(self, x):
        total, output, steps = torch.zeros(1), torch.zeros(4), 0
        while total < 0.99 and steps < 3:
            x = torch.tanh(self.step(x))
            halt = torch.sigmoid(self.halt(x))
            if total + halt > 0.99:
                halt = 1 - total
            output = output + halt * x
            total = total + halt
            steps += 1
        return output, total


@ROWS.row(noise(3, 4), noise(3, 4, seed=1) * 9, torch.zeros(3, 4), noise(3, 4, seed=4) * 0.1)
class HaltingPerRow(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        running = torch.ones(3, 1, dtype=torch.bool)
        turns = torch.zeros(3, 1)
        while running.any():
            x = torch.where(running, torch.tanh(self.layer(x)), x)
            turns = turns + running
            running = running & (x.norm(dim=1, keepdim=True) > 0.8) & (turns < 5)
        return x, turns


@ROWS.row(*[noise(6, 2, seed=seed) * 5 for seed in (1, 6, 8, 10)])
class KMeans(nn.Module):
    def forward(self, x):
        centers = x[:2]
        moved = torch.ones(())
        while moved > 1e-3:
            near = torch.cdist(x, centers).argmin(1)
            new = torch.stack([x[near == k].sum(0) / (near == k).sum().clamp(min=1) for k in range(2)])
            moved = (new - centers).abs().max()
            centers = new
        return centers


@ROWS.row(
    *[(noise(3, seed=seed), floats([4, 1, 0], [1, 3, 1], [0, 1, 2])) for seed in range(3)],
    (torch.zeros(3), torch.eye(3)),
)
class ConjugateGradient(nn.Module):
    def forward(self, b, matrix):
        x, rest = torch.zeros(3), b
        direction, size = rest, rest @ rest
        while size > 1e-3:
            image = matrix @ direction
            step = size / (direction @ image)
            x, rest = x + step * direction, rest - step * image
            before, size = size, rest @ rest
            direction = rest + size / before * direction
        return x


@ROWS.row(number(1.0), number(0.0), number(0.02), number(3.0))
class AdaptiveStepSize(nn.Module):
    """An ordinary differential equation: a step that is too coarse is tried again with half of it."""

    def forward(self, end):
        t, y, step = torch.zeros(()), torch.ones(()), torch.tensor(0.5)
        while t < end:
            step = torch.minimum(step, end - t)
            coarse = y - step * y
            half = y - step / 2 * y
            fine = half - step / 2 * half
            if (fine - coarse).abs() > 0.02:
                step = step / 2
                continue
            t, y = t + step, fine
            step = step * 1.5
        return y
