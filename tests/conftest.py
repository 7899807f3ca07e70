"""What every test shares: rewritten asserts in the contract, and Hypothesis profiles."""

import os

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("longshore.testing.contract")

# CI repeats the same examples, so a red build is red for everyone; at home they vary, and a
# counterexample found there is kept in .hypothesis until it is fixed.
settings.register_profile("home", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.register_profile(
    "prove",
    deadline=None,
    max_examples=5_000,
    stateful_step_count=200,
    suppress_health_check=[HealthCheck.too_slow],
)


def chosen_profile() -> str:
    """HYPOTHESIS_PROFILE if it is set, else ci where CI is set, else home."""
    return os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "home")


settings.load_profile(chosen_profile())
