"""A model that chooses among equal values has no one right answer, and a verification notices."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import onward
from onward.verify.tied_choices import OtherChoices


@pytest.mark.parametrize(
    "choose",
    [lambda x: x.topk(3).indices, lambda x: x.argmax(), lambda x: x.sort().indices, lambda x: x.max(0).indices],
)
def test_only_equal_values_are_chosen_otherwise(choose) -> None:
    different, ones, zeros = torch.arange(50.0), torch.ones(50), torch.zeros(50)
    with OtherChoices(1):
        others = [choose(each) for each in (different, ones, zeros)]
    assert torch.equal(others[0], choose(different))
    assert not torch.equal(others[1], choose(ones))
    assert not torch.equal(others[2], choose(zeros))


class Best(nn.Module):
    """The places of the best scores of a picture that is stretched: one column of pixels gives equal scores."""

    def __init__(self, off: float = 0.0) -> None:
        super().__init__()
        self.off = off

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = nn.functional.interpolate(x[None, None], size=(4, 12), mode="bilinear")
        return wide.flatten().topk(5).indices * 1.5 + self.off


def test_equal_scores_are_no_mismatch() -> None:
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    program = onward.export(Best(), (x,), dynamic_axes={"x": {1: "width"}}, verify=True)
    skipped = {each.label: each.skipped for each in program.verification.checks if each.skipped}
    assert "a choice among equal or nearly equal values" in skipped["width=1"]
    assert not {"example", "fresh values", "width=7"} & skipped.keys()


def test_a_wrong_answer_is_not_excused() -> None:
    model = Best()
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    program = onward.export(model, (x,), dynamic_axes={"x": {1: "width"}})
    model.off = 1.5
    with pytest.raises(onward.VerifyError, match="example: output"):
        program.verify(explain=False)
