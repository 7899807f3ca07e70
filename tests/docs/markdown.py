"""Read what the docs are made of: code blocks, links and headings."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    language: str
    words: tuple[str, ...]
    """What follows the language: `notest`, `file=name.py`."""
    code: str
    line: int

    @property
    def file(self) -> str | None:
        names = [word.removeprefix("file=") for word in self.words if word.startswith("file=")]
        return names[0] if names else None


def blocks(page: Path, language: str) -> list[Block]:
    text = page.read_text()
    return [
        Block(
            found[1], tuple(found[2].split()), found[3], text[: found.start()].count("\n") + 2
        )
        for found in _BLOCK.finditer(text)
        if found[1] == language
    ]


def links(page: Path) -> list[str]:
    return _LINK.findall(_BLOCK.sub("", page.read_text()))


def anchors(page: Path) -> set[str]:
    """The headings as a link names them."""
    headings = _HEADING.findall(_BLOCK.sub("", page.read_text()))
    return {
        re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", heading)).strip().lower().replace(" ", "-")
        for heading in headings
    }


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))
