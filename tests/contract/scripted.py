"""An onnxscript function; onnxscript reads the source, so it lives in a file without postponed annotations."""

import onnxscript
from onnxscript import opset18 as op

domain = onnxscript.values.Opset("onward.tests", 1)


@onnxscript.script(domain)
def foo(x, y, scale: float, times: int):  # type: ignore[no-untyped-def]
    return op.Mul(op.Add(x, y), op.Mul(op.Constant(value_float=scale), op.Cast(op.Constant(value_int=times), to=1)))
