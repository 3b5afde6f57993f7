"""`quant_format="linger"`: the file that the tools of linger's chips read."""

from .format import register

__all__ = ["register"]
