"""Python in a step and in a posterior: on small networks they cost what their calls of functions cost."""

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


CALLS_OF_A_POSTERIOR = """
import cProfile, pstats, torch, vadam

for n in (200, 400):
    opt = vadam.EVON([torch.nn.Parameter(torch.zeros(2, 2)) for _ in range(n)], num_data=10)
    opt.posterior()
    profiler = cProfile.Profile()
    profiler.enable()
    opt.posterior()
    profiler.disable()
    print(pstats.Stats(profiler).total_calls)
"""


def test_the_posterior_of_twice_as_many_tensors_makes_twice_as_many_calls() -> None:
    found = subprocess.run([sys.executable, "-c", CALLS_OF_A_POSTERIOR], capture_output=True, text=True, check=True)
    few, many = map(int, found.stdout.split())
    assert many < 2.1 * few, found.stdout
