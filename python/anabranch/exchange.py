"""A request to the server over HTTP/1.0, and its answer: JSON, or a stream of events."""

from __future__ import annotations

import json
import re
from typing import Any, Optional, Union

from .connections import Kind
from .errors import Error, error_in
from .server import Server

PATH = re.compile(r"/[!-~]*")


class Exchange:
    def __init__(self, server: Server, kind: Kind) -> None:
        self._server, self._connection = server, kind()
        self._data, self._length = bytearray(), -1
        self._searched = 0  # bytes of _data that hold no end of a line

    @property
    def aborted(self) -> bool:
        """Whether close() was called."""
        return self._connection.aborted

    async def begin(self, path: str, body: Any = None) -> None:
        """Sends the request; without a body it is a GET. Returns when a good answer begins; raises Error for others."""
        if not PATH.fullmatch(path):
            raise ValueError(f"{path!r} is no path: write / first, and %-escapes for spaces and what is not ASCII")
        data = b"" if body is None else json.dumps(body, allow_nan=False).encode()
        request = (
            f"{'GET' if body is None else 'POST'} {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n"
            f"Authorization: Bearer {self._server.key}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(data)}\r\n\r\n"
        )
        try:
            await self._connection.open(self._server)
            if self._server.has_ended():  # another program may have the port now: the key is not for it
                raise ConnectionRefusedError
            await self._connection.send(request.encode() + data)
        except OSError:
            raise (cancelled() if self.aborted else await self._lost()) from None
        while b"\r\n\r\n" not in self._data:
            await self._more_or_cancelled()
        status = self._read_head()
        if status != 200:
            raise error_in(await self.json(), status)

    def _read_head(self) -> int:
        """Takes the head off the data. The status of the answer."""
        head, _, self._data = self._data.partition(b"\r\n\r\n")
        first, *headers = head.decode("latin-1").split("\r\n")
        try:
            status = int(first.split()[1])
            for header in headers:
                name, _, value = header.partition(":")
                if name.lower() == "content-length":
                    self._length = int(value)
        except (ValueError, IndexError):
            raise Error(f"the server's answer is not HTTP: {first!r:.200}", code="connection_lost") from None
        return status

    async def json(self) -> Any:
        while self._length < 0 or len(self._data) < self._length:
            await self._more_or_cancelled()
        return parsed(self._data)

    async def event(self) -> Optional[Any]:
        """The next event of a stream; None at its end, or once close() was called. Raises Error if it is one."""
        while True:
            end = self._data.find(b"\n", self._searched)
            if end >= 0:
                line = bytes(self._data[:end])
                del self._data[: end + 1]
                self._searched = 0
                if line.startswith(b"data: "):
                    return event_in(line[6:].strip())
            else:
                self._searched = len(self._data)
                if not await self._more():
                    return None

    async def _more(self) -> bool:
        """Waits for more bytes. False: close() was called meanwhile."""
        try:
            data = await self._connection.receive()
        except OSError:
            data = b""
        if not data and not self.aborted:
            raise await self._lost()
        self._data += data
        return bool(data)

    async def _more_or_cancelled(self) -> None:
        if not await self._more():
            raise cancelled()

    async def _lost(self) -> Error:
        """Why the connection broke. The end of the server is known a moment after that of its connections."""
        for _ in range(50):
            if self._server.has_ended() or not self._server.is_known():
                break
            await self._connection.pause(0.02)
        return self._server.lost()

    def close(self) -> None:
        """Ends the request, if it still runs."""
        self._connection.abort()


def cancelled() -> Error:
    return Error("the request was cancelled", code="cancelled")


def parsed(data: "Union[bytes, bytearray]") -> Any:
    try:
        return json.loads(data)
    except ValueError:
        raise Error(f"the server's answer is not JSON: {bytes(data[:200])!r}", code="not_json") from None


def event_in(data: bytes) -> Optional[Any]:
    if data == b"[DONE]":
        return None
    event = parsed(data)
    if "error" in event:
        raise error_in(event)
    return event
