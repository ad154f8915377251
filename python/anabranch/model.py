"""Model: one model in a server of its own, for plain Python."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Iterator, List, Optional, Sequence, Union

from . import requests
from .answers import Answer, Piece
from .client import Client, Running
from .connections import BlockingConnection, run_now
from .requests import Message, Prompt
from .server import Server

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import Options


class Stream:
    """The pieces of an answer, as they come. The request ends when the stream is closed or no longer used."""

    def __init__(self, running: Running) -> None:
        self._running = running

    @property
    def answer(self) -> Answer:
        """What has come so far; at the end the whole answer, with its counts."""
        return self._running.answer

    def __iter__(self) -> Iterator[Piece]:
        return self

    def __next__(self) -> Piece:
        piece = run_now(self._running.next())
        if piece is None:
            raise StopIteration
        return piece

    def close(self) -> None:
        self._running.close()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


class Model:
    """Starts `anabranch serve` with this model and waits until it is loaded. close() or the end of a with block ends
    it, and so does the end of Python.

    model: a directory, a file, or a name on the hub.
    verbose: the server's log and the progress of a download go to stderr.
    flags: those of `anabranch serve`, such as context=4096 for --context 4096, or no_cache=True for --no-cache.

    Several threads may use a Model at a time, and so may forked processes while the process lives that started it."""

    def __init__(self, model: "Union[str, os.PathLike[str]]", *, verbose: bool = False, **flags: Any) -> None:
        self._server = Server(os.fspath(model), flags, verbose)
        self._client = Client(self._server, BlockingConnection)
        try:
            self._server.wait_until_ready()
        except BaseException:
            self.close()
            raise

    def generate(
        self, prompt: Prompt, *, system: Optional[str] = None, raw: bool = False, **options: "Unpack[Options]"
    ) -> Answer:
        """The whole answer to a text, to messages in OpenAI's format, or to token ids. raw: the text is continued as it
        is, without the model's chat template, as token ids always are."""
        return run_now(self._client.answer(requests.answer(prompt, system, raw, options)))

    def stream(
        self, prompt: Prompt, *, system: Optional[str] = None, raw: bool = False, **options: "Unpack[Options]"
    ) -> Stream:
        """The same piece by piece."""
        return Stream(self._client.stream(requests.answer(prompt, system, raw, options)))

    def chat(self, messages: Sequence[Message], **options: "Unpack[Options]") -> Answer:
        """The next turn of a conversation; append its `message` to go on. Tools and the response_format are
        dictionaries in OpenAI's format."""
        return run_now(self._client.answer(requests.chat(messages, options)))

    def embed(self, texts: Union[str, Sequence[str]], *, dimensions: Optional[int] = None) -> Any:
        """The embedding of a text, or a list of them. Models whose files do not say how they make embeddings need
        Model(..., pooling="last")."""
        return requests.vectors(texts, self.request(*requests.embeddings(texts, dimensions)))

    def tokenize(self, text: str, *, add_special: bool = False, parse_special: bool = True) -> List[int]:
        """add_special: with the tokens that the model wants at the beginning. parse_special: "<|im_end|>" is one
        token and not plain text."""
        return list(self.request(*requests.tokenize(text, add_special, parse_special))["tokens"])

    def detokenize(self, tokens: Sequence[int]) -> str:
        return str(self.request(*requests.detokenize(tokens))["content"])

    def apply_template(
        self, prompt: Union[str, Sequence[Message]], *, system: Optional[str] = None, **options: "Unpack[Options]"
    ) -> str:
        """The text that the model's chat template makes of the messages."""
        return str(self.request(*requests.template(prompt, system, options))["prompt"])

    def count_tokens(
        self, prompt: Union[str, Sequence[Message]], *, system: Optional[str] = None, **options: "Unpack[Options]"
    ) -> int:
        """How many tokens the prompt has of which generate() would answer."""
        return int(self.request(*requests.count(prompt, system, options))["input_tokens"])

    def request(self, path: str, body: Any = None) -> Any:
        """The JSON of any route of the server (docs/api.md): a GET, or with a body a POST."""
        return run_now(self._client.ask(path, body))

    @property
    def url(self) -> str:
        """The server's address; other clients need its `key`, too."""
        return f"http://127.0.0.1:{self._server.port}"

    @property
    def key(self) -> str:
        return self._server.key

    def close(self) -> None:
        """Ends the server, and with it all requests."""
        self._server.close()

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
