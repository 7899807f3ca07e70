"""The jobs of `longshore bench --profile real` are mixed as its help says."""

from collections import Counter
from itertools import islice

from longshore.bench.load import Load
from longshore.bench.plan import Plan, Profile

JOBS = 12_000


def shares(values: list[object]) -> tuple[int, float, float]:
    """How many different ones, and the share of the rarest and of the most common."""
    counts = Counter(values).values()
    return len(counts), min(counts) / len(values), max(counts) / len(values)


async def test_real_jobs_have_the_proportions_that_are_told():
    load = Load(Plan(url="sqlite:///jobs.db", profile=Profile.REAL))
    jobs = [spec.job for spec in islice(load.specs(), JOBS)]

    assert shares([job.queue for job in jobs]) == (4, 1 / 4, 1 / 4)
    assert shares([job.type for job in jobs]) == (20, 1 / 20, 1 / 20)
    assert shares([job.priority for job in jobs]) == (3, 1 / 3, 1 / 3)
    tenants, rarest, most = shares([job.tenant for job in jobs])
    assert tenants == 50
    assert 0.9 / 50 < rarest <= most < 1.1 / 50
    keys = [job.idempotency_key for job in jobs if job.idempotency_key is not None]
    assert len(keys) == len(set(keys)) == JOBS * 3 // 10
    lines = [job.ordering_key for job in jobs if job.ordering_key is not None]
    assert (len(lines), len(set(lines))) == (JOBS // 10, 1_000)
    assert len(await load.real(0, 0, "")) == 200
