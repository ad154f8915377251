"""Sockets to the server, for plain Python and for asyncio. The code above them is written once, as coroutines: those
over a BlockingConnection never wait for a loop, so that run_now() takes them to their end."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from typing import Any, Awaitable, Callable, Coroutine, Type, TypeVar

from .server import Server

T = TypeVar("T")
BYTES = 1 << 16


def run_now(coroutine: "Coroutine[Any, Any, T]") -> T:
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("a coroutine over a BlockingConnection waited")


async def told(begin: Callable[[Callable[[], None]], None]) -> None:
    """Waits until what begin() gets is called, from any thread. Unlike asyncio.to_thread() it takes no thread of the
    loop, whose end would wait for it."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()

    def tell() -> None:
        try:
            loop.call_soon_threadsafe(lambda: future.done() or future.set_result(None))
        except RuntimeError:
            pass  # the loop is closed

    begin(tell)
    await future


async def wait_until_ready(server: Server) -> None:
    if server.port is None:
        await told(server.call_when_ready)
        server.wait_until_ready()  # at once: what has come of it


async def close(server: Server) -> None:
    """Returns when the server has ended."""

    def begin(tell: Callable[[], None]) -> None:
        def end() -> None:
            try:
                server.close()
            finally:
                tell()

        threading.Thread(target=end, name="anabranch", daemon=True).start()

    await told(begin)


class Connection:
    """One request and its answer. Closing it ends the request."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._owner = os.getpid()
        self._used = False
        self.aborted = False

    async def open(self, server: Server) -> None:
        await self._use(self._wait_for, server)
        await self._use(self._connect, server)

    async def send(self, data: bytes) -> None:
        await self._use(self._send, data)

    async def receive(self) -> bytes:
        """Some bytes, or none at the end."""
        return await self._use(self._receive)

    async def pause(self, seconds: float) -> None:
        raise NotImplementedError

    async def _wait_for(self, server: Server) -> None:
        raise NotImplementedError

    async def _connect(self, server: Server) -> None:
        raise NotImplementedError

    async def _send(self, data: bytes) -> None:
        raise NotImplementedError

    async def _receive(self) -> bytes:
        raise NotImplementedError

    async def _use(self, work: "Callable[..., Awaitable[T]]", *arguments: Any) -> T:
        """Raises OSError after abort(). The socket is not closed while it is used: its number could be given again."""
        self._used = True
        try:
            if self.aborted:
                raise ConnectionAbortedError
            return await work(*arguments)
        finally:
            self._used = False
            if self.aborted:
                self._socket.close()

    def abort(self) -> None:
        """May be called from other threads and tasks: who uses the connection gets an error or the end."""
        self.aborted = True
        # A forked child has a copy of the socket, and must leave its parent's request alone.
        if os.getpid() == self._owner:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it was not connected, or not any more
        if not self._used:
            self._socket.close()


class BlockingConnection(Connection):
    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    async def _wait_for(self, server: Server) -> None:
        server.wait_until_ready()

    async def _connect(self, server: Server) -> None:
        self._socket.connect(("127.0.0.1", server.port))

    async def _send(self, data: bytes) -> None:
        self._socket.sendall(data)

    async def _receive(self) -> bytes:
        return self._socket.recv(BYTES)


class LoopConnection(Connection):
    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _wait_for(self, server: Server) -> None:
        await wait_until_ready(server)

    async def _connect(self, server: Server) -> None:
        self._socket.setblocking(False)
        await asyncio.get_running_loop().sock_connect(self._socket, ("127.0.0.1", server.port))

    async def _send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._socket, data)

    async def _receive(self) -> bytes:
        return await asyncio.get_running_loop().sock_recv(self._socket, BYTES)


Kind = Type[Connection]
