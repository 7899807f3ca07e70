"""The statements of an engine that mutants are made of, by the call that runs them.

A statement is a section of a `.sql` file of the engine, a function that its migrations create
(`claim()`, as the last of them has it), or Python in which a fault is planted by hand.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

from longshore.runtime.migrate import read_migrations
from longshore.runtime.sql_loader import read
from longshore_lab.mutants.conditions import Probe, changes, probed
from longshore_lab.mutants.planted import PLANTED

__all__ = ["ENGINES", "VERBS", "Mutant", "functions", "mutants", "probes", "statements"]

ENGINES = ("sqlite", "postgres")

VERBS: dict[str, dict[str, str]] = {
    "sqlite": {
        "exchange": """
            session_get session_exchanged session_renew session_close session_quiet shares
            start report unwanted cancel_request is_held let_go handed_out held
            settle settle_succeeded settle_finished settle_ready settle_scheduled
            settled_history
            claim claim_ready claim_places claimable claimable_end claimed front sizes
            type_heads types_ready queues_ready ruled running_of_type
            flow_took flow_free flow_move fair_put fair_prune leave_ready
            lanes lane_types lane_front lane_claimable lane_put
            keyed lines line_put line_delete park parked_any parked_first parked_next
            leave_parked let_in
        """,
        "submit": """
            last_arrival job_insert job_insert_alike job_times ready_add ready_add_fair
            scheduled_add idempotency_get idempotency_put unique_holder unique_put joining
        """,
        "promote": "due promote leave_scheduled next_due joining_again lines_due",
        "reclaim": "lapsed session_lapsed session_ahead session_shorten session_owner losses",
        "fire": "schedule_due schedule_move schedule_last_job firing_add",
        "prune": """
            expired delete_unique delete_attempts delete_progress delete_jobs leave_finished
            consumers_gone consumers_floor prune_idempotency prune_outbox prune_passed
            prune_sessions quarantine_prune firing_prune bucket_prune count_prune pruned_forget
            audit_oldest audit_cut
        """,
    },
    "postgres": {
        "exchange": """
            exchange() pick_up() is_idle() check_in() current_era() clear_up() complete()
            settle() settle_rare() settle_purged()
            claim() claim_whole() claim_front() claimed() lanes() part() await_span()
            hold_flow() rooms() took() enter_running() tell_running() leave_running()
            held_of() has_ready() is_loose() call_waiting() sift() probe() running_of_type()
            claim_turns() claim_lane() lane_names() lane_types() into_lanes()
            move_up() leave_lines() hold_lines() go_back()
            claims_of journal_of requests session_renew session_end forget_session
            session_await session_lock tell_running call_holders check_in
        """,
        "submit": """
            submit() submit_one() submit_keyed() admit() recall() keys_held() line_up()
            line_up_new() arrange() state_of() has_any() hold()
            submit_keyed submit_lined admit keys_held
        """,
        "promote": """
            promote() promote_whole() promote_front() next_due() due_from() open_lines()
            promote promoted next_due open_lines
        """,
        "reclaim": """
            lapsed session_ahead session_shorten session_bury session_owner losses losses_add
            hold_tellers
        """,
        "fire": "schedule_due schedule_move schedule_last_job firing_add",
        "prune": """
            expire() expire_part() expire_dead() expire_dead_whole() forget() take_finished()
            prune_old() prune_buckets() fold() stamp() cut() count_finished()
            expire expire_dead expire_told erase quarantine_prune consumers_gone
            pruned_add pruned_forget pruned_queues audit_oldest audit_cut forget
        """,
    },
}
"""The statements of each call; what only people look at is not among them."""

_FUNCTION = re.compile(
    r"create (?:or replace )?function longshore\.(?P<made>\w+)\s*\("
    r"(?:(?!\$\$|\nbegin atomic\n).)*(?:\$\$.*?\$\$;|\nbegin atomic\n.*?\nend;)"
    r"|drop function longshore\.(?P<dropped>\w+)\s*\(",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One statement with one thing less."""

    engine: str
    statement: str
    label: str
    text: str
    """The statement, the function's definition, or the module's source, with the change."""
    module: str | None = None
    """The Python module, if it is one."""

    @property
    def key(self) -> str:
        """What it is called in reports and in `accepted.toml`."""
        return f"{self.statement}: {self.label}"

    @property
    def is_function(self) -> bool:
        """Whether it is a function in the database."""
        return self.statement.endswith("()")

    @property
    def digest(self) -> str:
        """Short, and another one when the statement around the condition changes."""
        return f"{crc32(f'{self.key}{self.text}'.encode()):08x}"


def statements(engine: str) -> dict[str, str]:
    """Every statement and every function of the engine, by name, as it is now."""
    migrations = read_migrations(f"longshore.engines.{engine}.migrations")
    return {
        **dict(sorted(read(f"longshore.engines.{engine}.sql", ".sql").items())),
        **functions([one.statements for one in migrations]),
    }


def functions(migrations: Sequence[str]) -> dict[str, str]:
    """Every function that is there after these migrations, by name with `()`."""
    found: dict[str, str] = {}
    for text in migrations:
        for one in _FUNCTION.finditer(text):
            if one["dropped"]:
                found.pop(f"{one['dropped']}()", None)
            else:
                definition = re.sub("^create function", "create or replace function", one[0])
                found[f"{one['made']}()"] = definition
    return found


def mutants(
    engine: str, *, verbs: Sequence[str] = (), only: Sequence[str] = ()
) -> list[Mutant]:
    """The mutants of all calls, of some, or of some statements."""
    texts = statements(engine)
    called = VERBS[engine]
    names = [name for verb in verbs or called for name in called[verb].split()]
    chosen = only or list(dict.fromkeys(names))
    made = [one for name in chosen if name in texts for one in _of(engine, name, texts[name])]
    planted = [
        Mutant(engine, one.name, one.about, one.source(), one.module)
        for one in PLANTED
        if one.engine == engine
        and (one.name in only if only else one.verb in (verbs or called))
    ]
    return [*planted, *made]


def probes(name: str, text: str, note: str, first: int) -> tuple[str, list[Probe]]:
    """A function that notes the value of each condition, and what is noted, by number."""
    head, body, tail = _parts(name, text)
    changed, found = probed(body, note, first)
    return head + changed + tail, found


def _of(engine: str, name: str, text: str) -> list[Mutant]:
    head, body, tail = _parts(name, text)
    return [Mutant(engine, name, one.label, head + one.text + tail) for one in changes(body)]


def _parts(name: str, text: str) -> tuple[str, str, str]:
    """What is before a function's body, the body, and what is behind it."""
    if not name.endswith("()"):
        return "", text, ""
    if "$$" in text:
        begin, end = text.index("$$") + 2, text.rindex("$$")
    else:
        begin, end = text.index("\nbegin atomic\n") + 14, text.rindex("end;")
    return text[:begin], text[begin:end], text[end:]
