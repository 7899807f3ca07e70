"""Words as any store can keep them."""

__all__ = ["storable"]


def storable(words: str) -> str:
    """Without NUL and lone surrogates, which no store accepts."""
    return words.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
