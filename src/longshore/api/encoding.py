"""How the service writes its documents."""

import msgspec

__all__ = ["encode"]

encode = msgspec.json.Encoder().encode
