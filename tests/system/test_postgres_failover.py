"""A PostgreSQL primary is lost under load and its standby takes over: every job is counted.

Producers and handlers write ledgers outside of the queue; see `longshore_lab.failover`.
"""

from pathlib import Path

import pytest

from longshore_lab.failover import Plan, run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("postgres_server")]


async def test_a_standby_that_lags_loses_what_it_never_received_and_mixes_up_nothing(
    tmp_path: Path,
):
    verdict = await run(Plan(before=2.0, lag=4.0, after=5.0), tmp_path)

    assert verdict.lost_of_new_primary == 0
    assert verdict.never_ran == 0
    assert verdict.wrong_results == 0
    assert verdict.lost_before_lag == 0
    assert verdict.misplaced == 0
    # There was something to mix up: jobs of both, and some that the standby never received.
    assert verdict.by_new_primary > 50
    assert verdict.unreceived > 50


async def test_a_synchronous_standby_that_takes_over_loses_nothing(tmp_path: Path):
    verdict = await run(Plan(before=2.0, after=4.0, is_synchronous=True), tmp_path)

    assert verdict.holds
    assert verdict.unreceived == 0
    assert verdict.by_new_primary > 50
