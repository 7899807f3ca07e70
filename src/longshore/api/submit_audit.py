"""Who submitted how much: what goes into the audit log, a record for many requests."""

import logging
from collections.abc import Sequence

from msgspec.structs import replace

from longshore.contract import Records
from longshore.core import audit_record
from longshore.core.audit_record import Tally, joined
from longshore.core.job import JobId, NewJob, Submitted, Verdict
from longshore.errors import EngineError
from longshore.runtime.actor import ACTOR
from longshore.runtime.clock import SECOND, Clock
from longshore.runtime.ticker import FAULTS_OF_STORE

__all__ = ["Submissions"]

log = logging.getLogger("longshore.api")

_LOOK_S = 1.0
_APART_US = 60 * SECOND
"""Between two records of the same caller and tenant: a busy key makes 1,440 a day."""

_Who = tuple[str, str]


class Submissions:
    """Counts what callers submit, and tells the store.

    The first of a caller is told within a second, and what follows within a minute. A process
    that is killed tells nothing of what it had counted.
    """

    def __init__(self, engine: Records, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._counted: dict[_Who, Tally] = {}
        self._told_at: dict[_Who, int] = {}

    def note(self, jobs: Sequence[NewJob], answers: Sequence[Submitted]) -> None:
        """Count what was accepted of whoever asks."""
        accepted: dict[str, list[JobId]] = {}
        for job, answer in zip(jobs, answers, strict=True):
            if answer.verdict is Verdict.ACCEPTED:
                accepted.setdefault(job.tenant, []).append(answer.id)
        for tenant, found in accepted.items():
            who = ACTOR.get(), tenant
            tally = Tally(tenant, len(found), found[0], found[-1])
            self._counted[who] = joined(self._counted.get(who), tally)

    async def tick(self) -> float:
        """Tell what is due; the seconds until the next look."""
        since = self._clock.now() - _APART_US
        self._told_at = {who: at for who, at in self._told_at.items() if at > since}
        await self._tell_each([one for one in self._counted if one not in self._told_at])
        return _LOOK_S

    async def tell_all(self) -> None:
        """Tell everything that was counted."""
        await self._tell_each(list(self._counted))

    async def _tell_each(self, them: Sequence[_Who]) -> None:
        for who in them:
            try:
                await self._tell(who)
            except FAULTS_OF_STORE:
                raise
            except Exception:
                # Whatever is wrong with one caller or tenant, others are told of.
                facts = {"actor": who[0], "tenant": who[1]}
                log.exception("submits not told to the audit log", extra=facts)

    async def _tell(self, who: _Who) -> None:
        tally = self._counted.pop(who)
        try:
            record = replace(audit_record.submitted(tally), actor=who[0])
            await self._engine.write_records([], audit=record)
        except EngineError:
            later = self._counted.get(who)
            self._counted[who] = tally if later is None else joined(tally, later)
            raise
        self._told_at[who] = self._clock.now()
