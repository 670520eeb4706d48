"""Python in a step: on small networks a step costs what its calls of functions cost."""

import subprocess
import sys

import pytest

from vadam.backends import has_native

BEFORE = 1901  # calls in the same step before there were backends; at most a quarter of them is allowed
PROGRAM = """
import cProfile, pstats, torch, vadam

model = torch.nn.Sequential(*[torch.nn.Linear(7, 5), torch.nn.ReLU(), torch.nn.Linear(5, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3)])
x, y = torch.randn(4, 7), torch.randint(3, (4,))
opt = vadam.Vadam(model.parameters(), num_data=100).attach(model)
profiler = cProfile.Profile()
for step in range(23):
    if step == 3:
        profiler.enable()
    opt.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    opt.step()
profiler.disable()
print(pstats.Stats(profiler).total_calls / 20)
"""


@pytest.mark.skipif(not has_native(), reason="native loops need llvmlite")
def test_a_step_of_a_small_network_makes_few_calls() -> None:
    """In a process of its own: what other tests have loaded adds hooks to every module."""
    found = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert 100 < float(found.stdout) <= BEFORE / 4, found.stdout
