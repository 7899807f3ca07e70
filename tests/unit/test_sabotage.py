"""Planted faults fit the product as it is: one that does not would prove nothing."""

import subprocess
import sys

PLANT = """
from longshore_lab.sabotage import open_planted
open_planted("sqlite://:memory:", "fence")
from longshore.engines.sqlite.sql import SQL
print(SQL.session_get)
"""


def test_the_fence_is_where_the_plant_looks_for_it():
    done = subprocess.run(
        [sys.executable, "-c", PLANT], capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 0, done.stderr
    assert "expires_at > :now" not in done.stdout
