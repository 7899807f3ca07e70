"""Flags of the whole store."""

from longshore.contract.records import Delete, Found, Kind, Put, Records, Ref
from longshore.records import access
from longshore.records.access import Change

__all__ = ["MUTED", "is_muted", "mute"]

MUTED = Ref(Kind.FLAG, "muted")
"""There while progress events are left out of the outbox. Sessions read it."""


async def is_muted(records: Records) -> bool:
    """Whether progress events are left out of the outbox."""
    (flag,) = (await records.get_records([MUTED])).records
    return flag is not None


async def mute(records: Records, is_muted: bool) -> bool:
    """Leave progress events out of the outbox, or no longer; whether that is news.

    Of several that notice at the same moment it is news to one.
    """
    is_news = False

    def decide(found: Found) -> Change:
        nonlocal is_news
        (flag,) = found.records
        is_news = (flag is not None) is not is_muted
        if not is_news:
            return Change([])
        if flag is None:
            # Of two who write at once, the other's body tells them apart.
            return Change([Put(ref=MUTED, body=b'{"since":%d}' % found.now, expected=0)])
        return Change([Delete(ref=MUTED, expected=flag.version)])

    await access.change(records, [MUTED], decide, "whether progress is muted")
    return is_news
