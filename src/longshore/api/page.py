"""The page at /docs: one file, which asks for nothing but the document beside it."""

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files

__all__ = ["HTML", "POLICY"]

_folder = files("longshore.api")
_STYLE = (_folder / "page.css").read_text(encoding="utf-8")
_SCRIPT = (_folder / "page.js").read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode("ascii")


HTML = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Longshore HTTP API</title>
<style>{_STYLE}</style>
</head>
<body>
<main id="page"><p>Loading…</p></main>
<script>{_SCRIPT}</script>
</body>
</html>
""".encode()
POLICY = (
    f"default-src 'none'; style-src 'sha256-{_hash(_STYLE)}'; "
    f"script-src 'sha256-{_hash(_SCRIPT)}'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
).encode("ascii")
