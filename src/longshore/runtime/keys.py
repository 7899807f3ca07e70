"""New API keys."""

import secrets
from dataclasses import dataclass, field

from longshore.core import account

__all__ = ["MintedKey", "mint"]


@dataclass(frozen=True, slots=True)
class MintedKey:
    """A key that was just made: its text is for its owner, its digest for the engine."""

    id: str
    text: str = field(repr=False)
    digest: bytes = field(repr=False)


def mint(key_id: str | None = None) -> MintedKey:
    """A key that nobody else has; with `key_id`, a new secret for that one."""
    key_id = key_id or _letters(account.ID_LENGTH)
    secret = _letters(account.SECRET_LENGTH)
    return MintedKey(key_id, account.compose(key_id, secret), account.digest(secret))


def _letters(count: int) -> str:
    return "".join(secrets.choice(account.ALPHABET) for _ in range(count))
