"""Stands before a PostgreSQL that has no TLS and speaks it for it. For tests, on loopback."""

import select
import socket
import ssl
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

__all__ = ["TlsProxy"]

_SSL_REQUEST = bytes.fromhex("00000008 04d2162f")
_ROOM = 65536


class TlsProxy:
    """Answers PostgreSQL's request for TLS with yes, and refuses whoever asks for less."""

    def __init__(self, certificate: Path, server: tuple[str, int]) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate)
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lines: list[socket.socket] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.close()
        for line in self._lines:
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client:
            if client.recv(8, socket.MSG_WAITALL) != _SSL_REQUEST:
                return
            client.sendall(b"S")
            with (
                self._context.wrap_socket(client, server_side=True) as line,
                socket.create_connection(self._server) as server,
            ):
                self._lines += [line, server]
                _pump(line, server)


def _pump(client: ssl.SSLSocket, server: socket.socket) -> None:
    """Copy both ways until one side ends."""
    while True:
        ready = [client] if client.pending() else select.select([client, server], [], [])[0]
        if client in ready:
            if not (data := client.recv(_ROOM)):
                return
            server.sendall(data)
        if server in ready:
            if not (data := server.recv(_ROOM)):
                return
            client.sendall(data)
