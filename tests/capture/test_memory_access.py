"""Code that asks for the memory of a tensor: an error or a warning by line, and never what happens to lie there."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch

import onward
from onward.errors import CaptureError

X = torch.randn(2, 3)


class Model(torch.nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


_REFUSED = {
    "torch.from_dlpack": lambda x: torch.from_dlpack(x) * 1,
    "numpy.from_dlpack": lambda x: torch.tensor(np.from_dlpack(x)),
    "__dlpack__": lambda x: torch.utils.dlpack.from_dlpack(x.__dlpack__()),
    "data_ptr": lambda x: x * 2 if x.data_ptr() == 0 else x * 3,
    "data_ptr of a result": lambda x: x * 2 if (x + 1)[1:].data_ptr() % 2 else x * 3,
    "untyped_storage": lambda x: x * float(x.untyped_storage().data_ptr() % 7),
    "storage": lambda x: x * float(x.storage().data_ptr() % 7),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", _REFUSED)
def test_memory_is_refused_with_its_line(name) -> None:
    with pytest.raises(CaptureError, match="asks for the memory of a tensor that depends on the inputs") as caught:
        onward.export(Model(_REFUSED[name]), (X,), verify=False)
    assert caught.value.source is not None and __file__ in caught.value.source


def test_code_in_cpp_that_asks_for_the_memory_gets_an_exception_and_no_null_pointer() -> None:
    program = (
        "import torch, onward\n"
        "class M(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x)) + 1\n"
        "try:\n"
        "    onward.export(M(), (torch.ones(2, 3),), verify=False)\n"
        "except onward.errors.ExportError as error:\n"
        "    print(error)\n"
    )
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "Cannot access data pointer of Tensor" in run.stdout


_READ = {
    "numpy": lambda x: x + torch.from_numpy(x.numpy() * 2),
    "detach().numpy()": lambda x: x + torch.from_numpy(x.detach().numpy() * 2),
    "cpu().numpy()": lambda x: x + torch.from_numpy(x.cpu().numpy() * 2),
    "asarray": lambda x: x + torch.from_numpy(np.asarray(x) * 2),
    "array": lambda x: x + torch.from_numpy(np.array(x) * 2),
    "__array__": lambda x: x + torch.from_numpy(x.__array__() * 2),
    "function of numpy": lambda x: x + torch.as_tensor(np.sqrt(np.abs(x))),
    "memoryview": lambda x: x + torch.frombuffer(bytearray(memoryview(x.numpy())), dtype=x.dtype).reshape(x.shape),
}


@pytest.mark.parametrize("name", _READ)
def test_what_numpy_is_given_is_said_to_be_the_examples(name) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        onward.export(Model(_READ[name]), (X,), verify=False)
    texts = [str(each.message) for each in said]
    assert any(__file__ in each and "the file keeps the example's values" in each for each in texts), texts


def test_the_memory_of_weights_may_be_looked_at() -> None:
    weight = torch.ones(3)

    def function(x):
        return x * (2 if weight.data_ptr() else 3) + torch.from_dlpack(weight)

    program = onward.export(Model(function), (X,), verify=False)
    torch.testing.assert_close(program(torch.ones(2, 3)), torch.full((2, 3), 3.0))
