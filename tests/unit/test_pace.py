from longshore.worker.pace import Pace


def test_a_worker_with_slow_jobs_holds_none_in_advance():
    pace = Pace(rooms=8)
    pace.ended(0, now=0.0)

    for second in range(1, 10):
        pace.ended(5, now=float(second))

    assert pace.ahead == 0


def test_a_fast_worker_holds_what_it_runs_in_fifty_milliseconds():
    pace = Pace(rooms=8)
    pace.ended(0, now=0.0)

    pace.ended(1_000, now=0.1)

    assert pace.ahead == 500


def test_a_pace_that_is_over_is_forgotten():
    pace = Pace(rooms=8)
    pace.ended(0, now=0.0)
    pace.ended(1_000, now=0.1)

    pace.ended(0, now=1.0)

    assert pace.ahead == 0


def test_where_tenants_take_turns_a_burst_of_ends_does_not_fill_the_buffer():
    pace, now = Pace(rooms=2), 0.0
    pace.by_turns = True
    pace.ended(0, now)

    found: list[int] = []
    for _ in range(20):
        for ended in (20, *[0] * 9):  # two hundred a second
            now += 0.01
            pace.ended(ended, now)
            found.append(pace.ahead)

    assert 5 <= max(found) <= 15


def test_where_tenants_take_turns_none_waits_behind_slow_jobs():
    pace, now = Pace(rooms=64), 0.0
    pace.by_turns = True
    pace.ended(0, now)

    for _ in range(50):
        now += 0.01
        pace.ended(3, now)

    assert pace.ahead == 0
    assert pace.want(2, has_due=False, rides=True) == 2
    assert pace.want(0, has_due=False, rides=True) == 0
