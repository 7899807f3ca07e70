"""What Longshore does to processes of its own, each seen from inside one."""

import subprocess
import sys

LEAK = """
import weakref
from longshore.runtime.process import settle_in

class Cycle:
    def __init__(self):
        self.itself = self
        self.weight = bytes(10_000)

settle_in()
left, most = weakref.WeakSet(), 0
for number in range(100_000):
    left.add(Cycle())
    if number % 1_000 == 0:
        most = max(most, len(left))
print(most)
"""
CHOSEN = """
import gc
from longshore.runtime.process import settle_in

gc.set_threshold(123, 4, 5)
settle_in()
print(*gc.get_threshold())
"""


def test_cycles_that_tasks_leave_behind_are_collected_before_they_pile_up():
    most = int(_said_by(LEAK))

    assert 0 < most <= 12_000


def test_an_application_that_has_tuned_the_collector_keeps_what_it_chose():
    assert _said_by(CHOSEN) == "123 4 5"


def _said_by(program: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    return ran.stdout.strip()
