"""Sockets to the server, for plain Python and for asyncio. The code above them is written once, as coroutines: those
over a BlockingConnection never wait for a loop, so that run_now() takes them to their end."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any, Coroutine, Type, TypeVar

from .server import Server

T = TypeVar("T")
BYTES = 1 << 16


def run_now(coroutine: "Coroutine[Any, Any, T]") -> T:
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("a coroutine over a BlockingConnection waited")


class Connection:
    """One request and its answer. Closing it ends the request."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._owner = os.getpid()
        self._receiving = False
        self.aborted = False

    async def open(self, server: Server) -> None:
        raise NotImplementedError

    async def send(self, data: bytes) -> None:
        raise NotImplementedError

    async def receive(self) -> bytes:
        """Some bytes, or none at the end."""
        self._receiving = True
        try:
            return b"" if self.aborted else await self._receive()
        finally:
            self._receiving = False
            if self.aborted:
                self._socket.close()

    async def _receive(self) -> bytes:
        raise NotImplementedError

    def abort(self) -> None:
        """May be called from other threads and tasks: who receives gets the end."""
        self.aborted = True
        # A forked child has a copy of the socket, and must leave its parent's request alone.
        if os.getpid() == self._owner:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it was not connected, or not any more
        if not self._receiving:
            self._socket.close()


class BlockingConnection(Connection):
    async def open(self, server: Server) -> None:
        server.wait_until_ready()
        self._socket.connect(("127.0.0.1", server.port))

    async def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    async def _receive(self) -> bytes:
        return self._socket.recv(BYTES)


class LoopConnection(Connection):
    async def open(self, server: Server) -> None:
        if server.port is None:
            await asyncio.to_thread(server.wait_until_ready)
        self._socket.setblocking(False)
        await asyncio.get_running_loop().sock_connect(self._socket, ("127.0.0.1", server.port))

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._socket, data)

    async def _receive(self) -> bytes:
        return await asyncio.get_running_loop().sock_recv(self._socket, BYTES)


Kind = Type[Connection]
