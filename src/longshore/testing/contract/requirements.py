from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

import pytest

from longshore.contract import Engine

__all__ = ["requires"]

Test = Callable[..., Awaitable[None]]


def requires(trait: str) -> Callable[[Test], Test]:
    """Skip the test on an engine that does not promise the trait."""

    def decorate(test: Test) -> Test:
        @wraps(test)
        async def checked(engine: Engine, **fixtures: Any) -> None:
            if not getattr(engine.traits, trait):
                pytest.skip(f"{engine.url} does not promise {trait}")
            await test(engine=engine, **fixtures)

        return checked

    return decorate
