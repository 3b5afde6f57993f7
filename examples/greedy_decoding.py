"""Greedy decoding as one ONNX file: the loop, its early end and the tokens it collects are all inside.

    python examples/greedy_decoding.py [decoder.onnx]

A traced loop over a model's own output would be written out as often as it ran for the example. A scripted one stays a
loop: this file decodes prompts of any length, until every sequence of the batch has ended or `limit` tokens are made.
"""

import sys
from typing import Final, List, Tuple  # noqa: UP035  (TorchScript reads annotations as they are written)

import torch

import onward


class Step(torch.nn.Module):
    """A language model in small: from the last token and a hidden state to the logits of the next token."""

    def __init__(self, vocabulary: int = 20, width: int = 16) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(vocabulary, width)
        self.cell = torch.nn.GRUCell(width, width)
        self.head = torch.nn.Linear(width, vocabulary)

    def forward(self, token: torch.Tensor, hidden: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:  # noqa: UP006
        hidden = self.cell(self.embedding(token), hidden)
        return self.head(hidden), hidden


class GreedyDecoder(torch.nn.Module):
    """Reads prompts, then takes the best token again and again."""

    end: Final[int]

    def __init__(self, step: Step, end: int = 0) -> None:
        super().__init__()
        self.step = step
        self.end = end  # the token that ends a sequence

    def forward(self, prompt: torch.Tensor, limit: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:  # noqa: UP006
        batch, length = prompt.shape
        hidden = torch.zeros(batch, self.step.cell.hidden_size)
        logits = torch.zeros(batch, self.step.head.out_features)
        for i in range(length):
            logits, hidden = self.step(prompt[:, i], hidden)

        tokens: List[torch.Tensor] = []  # noqa: UP006
        score = torch.zeros(batch)
        ended = torch.zeros(batch, dtype=torch.bool)
        while len(tokens) < int(limit) and not bool(ended.all()):
            best, token = logits.log_softmax(1).max(1)
            token = token.masked_fill(ended, self.end)
            score = score + best.masked_fill(ended, 0.0)
            tokens.append(token)
            ended = ended | (token == self.end)
            logits, hidden = self.step(token, hidden)
        if len(tokens) == 0:
            return torch.zeros(batch, 0, dtype=torch.int64), score
        return torch.stack(tokens, 1), score


def build() -> torch.jit.ScriptModule:
    """A decoder with weights of no meaning, which ends its sequences sooner or later."""
    torch.manual_seed(2)
    step = Step()
    with torch.no_grad():
        step.head.weight *= 4
        step.head.bias[0] = 1.0
    return torch.jit.script(GreedyDecoder(step).eval())


def main(path: str = "decoder.onnx") -> onward.Program:
    decoder = build()
    program = onward.export(
        decoder,
        (torch.tensor([[3, 1, 4], [1, 5, 9]]), torch.tensor(8)),
        path,
        output_names=["tokens", "score"],
        dynamic_axes={"prompt": {0: "batch", 1: "length"}},
    )
    for prompt, limit in (([[7]], 5), ([[2, 7, 1, 8], [2, 8, 1, 8], [4, 5, 9, 0]], 12), ([[6, 6]], 0)):
        prompts = torch.tensor(prompt)
        tokens, score = program(prompts, torch.tensor(limit))
        expected, _ = decoder(prompts, torch.tensor(limit))
        print(f"{prompt} -> {tokens.tolist()}, log p {score.tolist()}, as PyTorch: {torch.equal(tokens, expected)}")
    print(f"{path}: {[node.op_type for node in program.model.graph]}")
    return program


if __name__ == "__main__":
    main(*sys.argv[1:])
