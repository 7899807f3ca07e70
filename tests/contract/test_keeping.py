"""What keepers ask of engines, on those that have it."""

import pytest

from longshore.testing.contract.keeping import *  # noqa: F403


@pytest.fixture(params=["model:", "sqlite://:memory:", "file"])
def engine_url(request: pytest.FixtureRequest, tmp_path: object) -> str:
    return f"sqlite:///{tmp_path}/jobs.db" if request.param == "file" else request.param
