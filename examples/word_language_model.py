"""A word language model with its state passed in and out, so that a text can be read in pieces.

    python examples/word_language_model.py [LSTM|GRU|RNN_TANH|RNN_RELU] [model.onnx]

Arguments may be nested: an LSTM's state is a pair, `(tokens, (h0, c0))`, and each tensor in it is an input of the file.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import onward

WORDS, WIDTH, LAYERS = 97, 24, 2


class WordLanguageModel(nn.Module):
    """Embedding, a recurrent network, and the probabilities of the next word."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.encoder = nn.Embedding(WORDS, WIDTH)
        if kind in ("LSTM", "GRU"):
            self.rnn = getattr(nn, kind)(WIDTH, WIDTH, LAYERS, dropout=0.2)
        else:
            self.rnn = nn.RNN(WIDTH, WIDTH, LAYERS, nonlinearity=kind.removeprefix("RNN_").lower(), dropout=0.2)
        self.decoder = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        output, state = self.rnn(self.encoder(tokens), state)
        return F.log_softmax(self.decoder(output), dim=-1), state


def main(kind: str = "LSTM", path: str | None = None) -> None:
    torch.manual_seed(0)
    model = WordLanguageModel(kind).eval()
    zeros = torch.zeros(LAYERS, 2, WIDTH)
    state, names = ((zeros, zeros), ["h0", "c0"]) if kind == "LSTM" else (zeros, ["h0"])
    program = onward.export(
        model,
        (torch.randint(WORDS, (5, 2)), state),
        path or f"{kind.lower()}.onnx",
        input_names=["tokens", *names],
        output_names=["scores", *(name.replace("0", "1") for name in names)],
        dynamic_axes={"tokens": {0: "time", 1: "batch"}, **{name: {1: "batch"} for name in names}},
        verify=True,
    )
    print(repr(program))

    text = torch.randint(WORDS, (9, 2))
    whole, _ = program(text, state)
    first, state = program(text[:4], state)  # state comes back as it went in
    second, _ = program(text[4:], state)
    error = (torch.cat([first, second]) - whole).abs().max()
    print(f"nine words in two pieces: off by {error.item():.1e} from nine at once")


if __name__ == "__main__":
    main(*sys.argv[1:])
