"""What `onward.init` leaves on a model: its configuration, and what is known of the model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx_ir as ir
import torch
from torch import Tensor, nn

from ...errors import InputError, QuantizationError
from ...lower.file_formats import PREPARED
from ...options import ExportOptions, TrainingMode
from ..config.settings import QuantConfig, Resolved
from ..grids.ranges import make_observer
from ..grids.sites import Site
from ..passes.pipeline import for_onnxruntime
from .calls import Call
from .states import BatchNorm
from .study import Study

ATTRIBUTE = PREPARED


class Controller:
    """Lives with the model: copied and pickled along with it."""

    def __init__(self, config: QuantConfig, settings: dict[str, Resolved | None]) -> None:
        self.config = config
        self.observers: dict[str, Any] | None = None  # by the label of a site, while calibrating
        self.reached: set[str] = set()  # the modules that ran while calibrating
        self.read: set[int] = set()  # the ids of the parameters that functions got then
        self.study: Study | None = None
        self._followers: dict[str, BatchNorm] = {}  # by the labels of the products that they follow
        self.warned: set[str] = set()  # the products whose sums may have no room
        self._settings = settings  # by the path of a module

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "observers": None, "study": None, "reached": set(), "read": set(), "_followers": {}}

    def settings_for(self, path: str) -> Resolved | None:
        """What the configuration says of a module; None leaves it in float. One that came after `init` has no hook:
        what it calls belongs to the module around it."""
        return self._settings.get(path)

    @property
    def is_weight_only(self) -> bool:
        """Whether all activations stay in float, so that there is no range to find."""
        return all(each is None or each.weight_only for each in self._settings.values())

    @property
    def has_weight_only(self) -> bool:
        """Whether there are weights in integers between activations in float."""
        return any(each is not None and each.weight_only for each in self._settings.values())

    def follower_of(self, call: Call) -> BatchNorm | None:
        """The batch norm that was seen to follow a product."""
        return self._followers.get(call.label)

    def set_follower(self, call: Call, norm: BatchNorm | None) -> None:
        """Note the batch norm that follows a product, or that none does any more."""
        if norm is None:
            self._followers.pop(call.label, None)
        else:
            self._followers[call.label] = norm

    # Ranges

    def observe(self, site: Site, x: Tensor) -> None:
        """Calibration: a site looks at what passes."""
        assert self.observers is not None
        held = self.observers.get(site.label)
        if held is None:
            held = self.observers[site.label] = (site, make_observer(site.settings))
        held[1].observe(x.detach())

    # Export (see `lower/file_formats.py`)

    def check_export(self, module: nn.Module, model: nn.Module, options: ExportOptions) -> None:
        """Refuse what an export of this model, or of one around it, cannot do: its weights are integers, worked out
        when it is exported."""
        for name, (asked, does) in _WEIGHTS_OUTSIDE.items():
            if getattr(options, name) is asked:
                raise InputError(
                    f"{name}={asked} {does}, and the weights of a quantized model are integers that are worked out "
                    "once",
                    hint=f"leave {name} out",
                )
        check_types(module, self, "export")
        if self.observers is not None:
            raise QuantizationError(
                "the model is being calibrated, and computes in float until its ranges are found",
                hint="export it behind the block of `with onward.calibration(model):`",
            )
        training = [path for path, each in model.named_modules() if each.training and path]
        if options.training is TrainingMode.PRESERVE and training and not model.training:
            raise QuantizationError(
                f"a quantized model is exported in evaluation mode, and {training[0]} is in training mode",
                hint="leave `training` out, or call model.eval()",
            )

    def finish_export(self, graph: ir.Model) -> None:
        """Let passes make the file fast in onnxruntime."""
        for_onnxruntime(graph, widen=self.config.widen_channels)


_WEIGHTS_OUTSIDE = {
    "export_params": (False, "makes inputs of the parameters"),
    "keep_initializers_as_inputs": (True, "makes inputs of the parameters"),
    "do_constant_folding": (False, "leaves to the file what is computed from the parameters"),
}


def quantized_parameters(
    controller: Controller, module: nn.Module, path: str
) -> Iterator[tuple[str, nn.Module, str, Tensor]]:
    """The float parameters of the modules that are quantized, each with the path of its module, that, and its name."""
    for name, each in module.named_modules(prefix=path):
        if controller.settings_for(name) is not None:
            for key, one in each._parameters.items():
                if one is not None and one.is_floating_point():
                    yield name, each, key, one


def check_types(model: nn.Module, controller: Controller, what: str) -> None:
    """Refuse parameters of another type than float32; `what` is the caller, for the error."""
    for path, _, _, each in quantized_parameters(controller, model, ""):
        if each.dtype is not torch.float32:
            where = path or "the model itself"
            raise InputError(
                f"{what}: {where} has parameters of {each.dtype}, and what is quantized is float32",
                hint="call model.float() first (autocast may still compute in half precision), or switch it off",
            )
