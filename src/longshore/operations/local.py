"""What every group of operations on an engine starts from."""

from datetime import datetime

from longshore.contract import Engine
from longshore.core.account import DEFAULT_TENANT
from longshore.operations.fields import instant
from longshore.runtime.ids import IdSource

__all__ = ["EngineOperations"]


class EngineOperations:
    """An engine, and the tenant for whom it is asked.

    `tenant=None` asks for everyone, as an operator does; what is made then belongs to the
    tenant `default`.
    """

    _ids = IdSource()

    def __init__(self, engine: Engine, *, tenant: str | None = None) -> None:
        self._engine = engine
        self._tenant = tenant

    @property
    def _home(self) -> str:
        """The tenant to whom belongs what is made."""
        return self._tenant or DEFAULT_TENANT

    @property
    def url(self) -> str:
        """Where the store is, without a password."""
        return self._engine.url

    async def now(self) -> datetime:
        """The store's clock."""
        return instant(await self._engine.now())
