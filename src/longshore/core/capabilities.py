"""What engines promise beyond the contract."""

import msgspec

__all__ = ["Traits"]


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """The promises that differ between engines. Each is also a row of the docs' table."""

    transactional_submit: bool
    """A job can be submitted on the caller's own connection, inside its transaction."""
    transactional_completion: bool
    """A handler's writes and its job's success can be one commit: `job.transaction()`."""
    pushes_wakeups: bool
    """`Session.wait` returns early when work arrives, also from other processes, and
    `until="cancel"` when a held job is to be cancelled."""
    claims_at_wakeup: bool
    """A waiting session can claim as soon as work arrives, with nothing in between:
    `Session.claim_at_wakeup`."""
    ordering_keys: bool
    """Jobs with the same ordering key run one after the other; without the trait a job that has
    one is refused."""
    survives_power_loss: bool
    """An accepted job survives the loss of the machine's power."""
    own_clock: bool
    """What is due and whose lease is over is decided by the store's own clock, whatever clocks
    the machines of workers have; without the trait by that of whichever process asks."""
    shared_between_processes: bool
    """Several processes can use the same URL at once."""
    maintenance: bool = True
    """Whoever has the URL can promote, reclaim, fire and prune. Without the trait a service in
    front of the store does so, and a worker has nothing but its session."""
