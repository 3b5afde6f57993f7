"""Where a model would run."""

from .answer import Compatibility, check_target, compatibility, held_against, targets
from .facts import Finding, Place

__all__ = ["Compatibility", "Finding", "Place", "check_target", "compatibility", "held_against", "targets"]
