"""Where a model would run."""

from .compatibility import Compatibility, check_target, compatibility, held_against, targets
from .node_facts import Finding, Place

__all__ = ["Compatibility", "Finding", "Place", "check_target", "compatibility", "held_against", "targets"]
