"""Devices that are there, and a GPU that is not: tensors without values, on which any read raises."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@contextmanager
def fake(device: str) -> Iterator[torch.device]:
    """Inside, tensors on the device have shapes and dtypes but no values: a read raises DataDependentOutputException."""
    with FakeTensorMode():
        yield torch.device(device)


class Launches(TorchDispatchMode):
    """Counts the operations that a GPU would launch: all but views, allocations and what stays on the CPU."""

    FREE = ("empty", "detach", "alias", "set_", "device")

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        leaves = torch.utils._pytree.tree_leaves((args, kwargs, result))
        on_device = any(isinstance(x, torch.Tensor) and x.device.type != "cpu" for x in leaves)
        is_view = any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns)
        if on_device and not is_view and not name.startswith(self.FREE):
            self.names.append(name)
        return result
