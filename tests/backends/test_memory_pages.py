"""Large tensors in large pages of memory."""

import re
import sys
from pathlib import Path

import pytest
import torch

from vadam.backends.memory_pages import LARGE, empty_in_large_pages


@pytest.mark.parametrize("rows", [1, LARGE // 4 // 1000 + 1])
def test_a_new_tensor(rows: int) -> None:
    x = empty_in_large_pages(rows, 1000)
    assert (x.shape, x.dtype, x.device.type) == ((rows, 1000), torch.float32, "cpu")
    assert (x.fill_(3.0) == 3).all()


@pytest.mark.skipif(sys.platform != "linux", reason="large pages are asked for on Linux")
def test_linux_is_asked_for_large_pages() -> None:
    if not Path("/sys/kernel/mm/transparent_hugepage").exists():
        pytest.skip("this kernel has no large pages")
    x = empty_in_large_pages(2 * LARGE // 4)
    middle = x.data_ptr() + LARGE
    for area in re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text(), flags=re.MULTILINE):
        bounds = re.match(r"([0-9a-f]+)-([0-9a-f]+) ", area)
        if bounds and int(bounds[1], 16) <= middle < int(bounds[2], 16):
            assert " hg" in area.split("VmFlags:")[1]
            return
    pytest.fail("the tensor is in no area of memory")
