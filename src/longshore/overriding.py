"""What people do with the settings of queues, over any engine."""

from collections.abc import Mapping

from msgspec.structs import replace

from longshore.contract import Engine
from longshore.core import flow
from longshore.core.flow import ENFORCED, Layer, QueueFlow, QueueSettings
from longshore.errors import ConfigError, EngineBusyError

__all__ = ["declare", "forget", "get", "override"]

_TRIES = 20


async def get(engine: Engine, queue: str) -> QueueFlow:
    """All that is said of a queue, which may be nothing."""
    found = [one for one in await engine.queue_settings() if one.queue == queue]
    return found[0] if found else QueueFlow(queue)


async def override(engine: Engine, queue: str, changes: Mapping[str, object]) -> QueueFlow:
    """Override some settings of a queue; None lets what is declared hold again."""
    if refused := sorted(changes.keys() - ENFORCED):
        raise ConfigError(f"{refused[0]} is not a setting of queues")
    for _ in range(_TRIES):
        seen = await get(engine, queue)
        wanted = replace(seen.overridden, **changes)
        whole = replace(seen, overridden=wanted)
        said = [field for field, value in changes.items() if value is not None]
        if fault := flow.useless(whole.effective, said):
            raise ConfigError(f"{fault}; set both")
        if await engine.put_queue(queue, Layer.OVERRIDDEN, wanted, seen=seen.overridden):
            return whole
    raise EngineBusyError(f"others keep changing the queue {queue!r}; try again")


async def declare(engine: Engine, queue: str, settings: QueueSettings) -> None:
    """Let this be what code says of a queue. Writes only what differs."""
    if (await get(engine, queue)).declared != settings:
        await engine.put_queue(queue, Layer.DECLARED, settings)


async def forget(engine: Engine, queue: str) -> None:
    """Drop what code once declared of a queue; a worker that still does declares it again."""
    await engine.put_queue(queue, Layer.DECLARED, QueueSettings())
