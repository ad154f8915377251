"""AsyncModel: the twin of Model for asyncio."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, AsyncIterator, List, Optional, Sequence, Union

from . import requests
from .answers import Answer, Piece
from .client import Client, Running
from .connections import LoopConnection, close, wait_until_ready
from .requests import Message, Prompt
from .server import Server

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import Options


class AsyncStream:
    """The pieces of an answer, as they come. The request ends when the stream is closed or no longer used, and when
    its task is cancelled."""

    def __init__(self, running: Running) -> None:
        self._running = running

    @property
    def answer(self) -> Answer:
        """What has come so far; at the end the whole answer, with its counts."""
        return self._running.answer

    def __aiter__(self) -> AsyncIterator[Piece]:
        return self

    async def __anext__(self) -> Piece:
        piece = await self._running.next()
        if piece is None:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        self._running.close()

    async def __aenter__(self) -> "AsyncStream":
        return self

    async def __aexit__(self, *_: object) -> None:
        self._running.close()

    def __del__(self) -> None:
        self._running.close()


class AsyncModel:
    """As Model, whose methods say more. The constructor returns at once; `async with` or the first request waits until
    the model is loaded."""

    def __init__(self, model: "Union[str, os.PathLike[str]]", *, verbose: bool = False, **flags: Any) -> None:
        self._server = Server(os.fspath(model), flags, verbose)
        self._client = Client(self._server, LoopConnection)

    async def generate(
        self, prompt: Prompt, *, system: Optional[str] = None, raw: bool = False, **options: "Unpack[Options]"
    ) -> Answer:
        return await self._client.answer(requests.answer(prompt, system, raw, options))

    def stream(
        self, prompt: Prompt, *, system: Optional[str] = None, raw: bool = False, **options: "Unpack[Options]"
    ) -> AsyncStream:
        return AsyncStream(self._client.stream(requests.answer(prompt, system, raw, options)))

    async def chat(self, messages: Sequence[Message], **options: "Unpack[Options]") -> Answer:
        return await self._client.answer(requests.chat(messages, options))

    async def embed(self, texts: Union[str, Sequence[str]], *, dimensions: Optional[int] = None) -> Any:
        return requests.vectors(texts, await self.request(*requests.embeddings(texts, dimensions)))

    async def tokenize(self, text: str, *, add_special: bool = False, parse_special: bool = True) -> List[int]:
        return list((await self.request(*requests.tokenize(text, add_special, parse_special)))["tokens"])

    async def detokenize(self, tokens: Sequence[int]) -> str:
        return str((await self.request(*requests.detokenize(tokens)))["content"])

    async def apply_template(
        self, prompt: Union[str, Sequence[Message]], *, system: Optional[str] = None, **options: "Unpack[Options]"
    ) -> str:
        return str((await self.request(*requests.template(prompt, system, options)))["prompt"])

    async def count_tokens(
        self, prompt: Union[str, Sequence[Message]], *, system: Optional[str] = None, **options: "Unpack[Options]"
    ) -> int:
        return int((await self.request(*requests.count(prompt, system, options)))["input_tokens"])

    async def request(self, path: str, body: Any = None) -> Any:
        return await self._client.ask(path, body)

    @property
    def url(self) -> str:
        """The server's address, once the model is loaded."""
        return f"http://127.0.0.1:{self._server.port}"

    @property
    def key(self) -> str:
        return self._server.key

    async def aclose(self) -> None:
        """Ends the server, and with it all requests."""
        await close(self._server)

    async def __aenter__(self) -> "AsyncModel":
        try:
            await wait_until_ready(self._server)
        except BaseException:
            await close(self._server)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
