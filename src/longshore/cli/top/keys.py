"""Keys, as bytes of a terminal and as words."""

import re
from enum import StrEnum

__all__ = ["Key", "Keys"]


class Key(StrEnum):
    """Keys that are no letters."""

    UP = "up"
    DOWN = "down"
    PAGE_UP = "page up"
    PAGE_DOWN = "page down"
    HOME = "home"
    END = "end"
    ENTER = "enter"
    BACK = "back"
    NEXT = "next"


_SEQUENCES = {
    "\x1b[A": Key.UP,
    "\x1bOA": Key.UP,
    "\x1b[B": Key.DOWN,
    "\x1bOB": Key.DOWN,
    "\x1b[C": Key.ENTER,
    "\x1bOC": Key.ENTER,
    "\x1b[D": Key.BACK,
    "\x1bOD": Key.BACK,
    "\x1b[5~": Key.PAGE_UP,
    "\x1b[6~": Key.PAGE_DOWN,
    "\x1b[H": Key.HOME,
    "\x1bOH": Key.HOME,
    "\x1b[1~": Key.HOME,
    "\x1b[F": Key.END,
    "\x1bOF": Key.END,
    "\x1b[4~": Key.END,
    "\r": Key.ENTER,
    "\n": Key.ENTER,
    "\t": Key.NEXT,
    "\x7f": Key.BACK,
    "\x08": Key.BACK,
    "\x1b": Key.BACK,
}
_LETTERS = {"k": Key.UP, "j": Key.DOWN, "l": Key.ENTER, "h": Key.BACK}

# A key is a sequence, the start of one, or a character.
_OPEN = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*|O)?")
_KEY = re.compile(rf"{_OPEN.pattern}(?<!\x1b)[@-~]|{_OPEN.pattern}\Z|.", re.DOTALL)


class Keys:
    """Turns what is typed into keys. A sequence may arrive in parts: a network is between."""

    def __init__(self) -> None:
        self._rest = ""

    @property
    def is_waiting(self) -> bool:
        """What came last may be the start of a sequence, or Escape."""
        return bool(self._rest)

    def feed(self, typed: bytes) -> list[str]:
        """The keys that are now known: a Key, or a character."""
        text, self._rest = self._rest + typed.decode(errors="replace"), ""
        found = [one.group() for one in _KEY.finditer(text)]
        if found and _OPEN.fullmatch(found[-1]):
            self._rest = found.pop()
        return [key for key in map(_named, found) if key]

    def flush(self) -> list[str]:
        """Nothing has followed: it was Escape."""
        rest, self._rest = self._rest, ""
        return [Key.BACK] if rest else []


def _named(text: str) -> str:
    if text in _SEQUENCES:
        return _SEQUENCES[text]
    if text in _LETTERS:
        return _LETTERS[text]
    return text if text.isprintable() else ""
