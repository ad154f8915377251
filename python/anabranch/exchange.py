"""A request to the server over HTTP/1.0, and its answer: JSON, or a stream of events."""

from __future__ import annotations

import json
from typing import Any, Optional

from .connections import Kind
from .errors import Error, error_in
from .server import Server


class Exchange:
    def __init__(self, server: Server, kind: Kind) -> None:
        self._server, self._connection = server, kind()
        self._data, self._length = b"", -1

    async def begin(self, path: str, body: Any = None) -> None:
        """Sends the request; without a body it is a GET. Returns when a good answer begins; raises Error for others."""
        data = b"" if body is None else json.dumps(body, allow_nan=False).encode()
        request = (
            f"{'GET' if body is None else 'POST'} {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n"
            f"Authorization: Bearer {self._server.key}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(data)}\r\n\r\n"
        )
        try:
            await self._connection.open(self._server)
            await self._connection.send(request.encode() + data)
        except OSError:
            raise self._server.lost() from None
        while b"\r\n\r\n" not in self._data:
            await self._more_or_cancelled()
        head, _, self._data = self._data.partition(b"\r\n\r\n")
        first, *headers = head.decode("latin-1").split("\r\n")
        status = int(first.split()[1])
        for header in headers:
            name, _, value = header.partition(":")
            if name.lower() == "content-length":
                self._length = int(value)
        if status != 200:
            raise error_in(await self.json(), status)

    async def json(self) -> Any:
        while self._length < 0 or len(self._data) < self._length:
            await self._more_or_cancelled()
        return json.loads(self._data)

    async def event(self) -> Optional[Any]:
        """The next event of a stream; None at its end, or once close() was called. Raises Error if it is one."""
        while True:
            line, found, rest = self._data.partition(b"\n")
            if found:
                self._data = rest
                if line.startswith(b"data: "):
                    return event_in(line[6:].strip())
            elif not await self._more():
                return None

    async def _more(self) -> bool:
        """Waits for more bytes. False: close() was called meanwhile."""
        try:
            data = await self._connection.receive()
        except OSError:
            data = b""
        if not data and not self._connection.aborted:
            raise self._server.lost()
        self._data += data
        return bool(data)

    async def _more_or_cancelled(self) -> None:
        if not await self._more():
            raise Error("the request was cancelled", code="cancelled")

    def close(self) -> None:
        """Ends the request, if it still runs."""
        self._connection.abort()


def event_in(data: bytes) -> Optional[Any]:
    if data == b"[DONE]":
        return None
    event = json.loads(data)
    if "error" in event:
        raise error_in(event)
    return event
