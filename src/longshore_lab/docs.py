"""Writes what the docs say about the code from the code itself.

    python -m longshore_lab.docs            write the generated parts again
    python -m longshore_lab.docs --check    write nothing; exit code 1 if a part is stale

A page holds `<!-- generated: name -->` and `<!-- end -->`; what stands between them is written
here, the rest of the page by hand.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from longshore_lab.pages import PARTS, ROOT

__all__ = ["main", "pages", "renewed", "stale"]

_PART = re.compile(r"(<!-- generated: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def renewed(text: str) -> str:
    """The page with its generated parts written again. An unknown part is a KeyError."""
    return _PART.sub(
        lambda found: f"{found[1]}\n{PARTS[found[2]]().strip()}\n\n{found[3]}", text
    )


def pages(root: Path = ROOT) -> Iterator[Path]:
    """Every page of the docs, and the README."""
    yield root / "README.md"
    yield from sorted((root / "docs").rglob("*.md"))


def stale(root: Path = ROOT) -> list[Path]:
    """The pages that no longer say what the code does."""
    return [page for page in pages(root) if page.read_text() != renewed(page.read_text())]


def main(arguments: list[str]) -> int:
    """Write the stale pages again, or with --check only name them."""
    found = stale()
    is_check = "--check" in arguments
    for page in found:
        if not is_check:
            page.write_text(renewed(page.read_text()))
        print(f"{'stale' if is_check else 'written'}: {page.relative_to(ROOT)}")
    return 1 if is_check and found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
