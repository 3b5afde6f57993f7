"""The compiled part of the package; everything else about it is in pyproject.toml.

The loops of fake quantisation. Where they cannot be compiled the package does without, and trains more slowly.
"""

import sys
import sysconfig

from setuptools import Extension, setup

# Products and sums are not fused: the loops give what PyTorch's operations give, to the last bit.
OPTIONS = [] if sys.platform == "win32" else ["-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]

# One build for every version of Python, but for those without a global lock, which have no interface for that yet.
STABLE = not sysconfig.get_config_var("Py_GIL_DISABLED")

setup(
    ext_modules=[
        Extension(
            "onward.quant._native",
            ["src/onward/quant/_native.c"],
            extra_compile_args=OPTIONS,
            define_macros=[("Py_LIMITED_API", "0x030a0000")] if STABLE else [],
            py_limited_api=STABLE,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp310"}} if STABLE else {},
)
