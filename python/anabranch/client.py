"""What Model and AsyncModel share: the requests, as coroutines over their kind of connection."""

from __future__ import annotations

from typing import Any, Optional

from .answers import Answer, Piece
from .connections import Kind
from .errors import Error
from .exchange import Exchange
from .requests import Request, streamed
from .server import Server


class Client:
    def __init__(self, server: Server, kind: Kind) -> None:
        self.server, self.kind = server, kind

    async def ask(self, path: str, body: Any = None) -> Any:
        """The JSON of an answer."""
        exchange = Exchange(self.server, self.kind)
        try:
            await exchange.begin(path, body)
            return await exchange.json()
        finally:
            exchange.close()

    async def answer(self, request: Request) -> Answer:
        answer = Answer()
        answer.add(await self.ask(*request))
        return answer

    def stream(self, request: Request) -> "Running":
        return Running(Exchange(self.server, self.kind), streamed(request))


class Running:
    """An answer that is being streamed. The request is sent when the first piece is asked for."""

    def __init__(self, exchange: Exchange, request: Request) -> None:
        self._exchange, self._request = exchange, request
        self._state = "new"
        self.answer = Answer()

    async def next(self) -> Optional[Piece]:
        """The next piece of text; None at the end."""
        if self._state == "ended":
            return None
        try:
            if self._state == "new":
                self._state = "running"
                await self._exchange.begin(*self._request)
            while (event := await self._exchange.event()) is not None:
                if (piece := self.answer.add(event)) is not None:
                    return piece
        except BaseException as error:
            closed = self._exchange.aborted
            self.close()
            if closed and isinstance(error, Error):
                return None  # a stream that was closed has ended
            raise
        self.close()
        return None

    def close(self) -> None:
        self._state = "ended"
        self._exchange.close()
