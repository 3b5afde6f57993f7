"""What the tracer tells a run that is explored, and asks of it."""

from __future__ import annotations

from typing import Any, Protocol

from ..functions.intercepts import FunctionRecorder


class RunRecorder(FunctionRecorder, Protocol):
    """A run that is explored: what its operators tell it, and what they get for an answer."""

    question: tuple  # what Python asks the value of

    def asks_of_sizes(self) -> bool:
        """Whether a question to a tensor that is made of sizes alone is a decision."""

    def read(self, natural: Any) -> Any:
        """A number that the model reads from its data."""

    def rows(self, result: Any) -> Any:
        """What an operator found whose result is as long as data says."""

    def length(self, value: list[Any]) -> Any:
        """The length of a list: of one that grows with the turns of a loop, a number that is followed."""

    def decide(self, predicate: Any, answer: Any, expression: str) -> Any:
        """Python asks for a plain answer, and gets one."""
