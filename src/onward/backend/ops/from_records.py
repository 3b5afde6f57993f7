"""Operators that are computed for constants as well: their records have the functions (`onnx_operators`)."""

from __future__ import annotations

from ...onnx_operators import RECORDS
from ..registry import implements

for (_domain, _name), _record in RECORDS.items():
    if _record.evaluate is not None:
        implements(_name, domain=_domain, numbers=_record.numbers, scalars=_record.scalars)(_record.evaluate)
