"""The server's routes, and what their bodies look like."""

from __future__ import annotations

import operator
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import options

Message = Mapping[str, Any]
Prompt = Union[str, Sequence[int], Sequence[Message]]
Request = Tuple[str, Dict[str, Any]]


def messages_of(prompt: Union[str, Sequence[Message]], system: Optional[str] = None) -> "list[Message]":
    turns: List[Message] = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
    return turns if system is None else [{"role": "system", "content": system}, *turns]


def answer(prompt: Prompt, system: Optional[str], raw: bool, more: Mapping[str, Any]) -> Request:
    """A text is a user's message, or with raw what the model continues, as it does token ids."""
    options.check(more)
    if isinstance(prompt, Mapping):
        raise TypeError("the prompt is one message: give a list of messages")
    turns = not isinstance(prompt, str) and len(prompt) > 0 and isinstance(prompt[0], Mapping)
    ids = not isinstance(prompt, str) and not turns
    if not raw and not ids:
        return "/v1/chat/completions", {"messages": messages_of(prompt, system), **more}  # type: ignore[arg-type]
    if turns or system is not None:
        raise TypeError(
            "messages and a system prompt need the chat template: leave out raw, and give text instead of token ids"
        )
    text_or_ids = [operator.index(one) for one in prompt] if ids else prompt  # type: ignore[arg-type]
    return "/v1/completions", {"prompt": text_or_ids, **more}


def chat(messages: Sequence[Message], more: Mapping[str, Any]) -> Request:
    if isinstance(messages, (str, Mapping)):
        raise TypeError("chat() takes a list of messages; generate() takes a text")
    options.check(more)
    return "/v1/chat/completions", {"messages": list(messages), **more}


def streamed(request: Request) -> Request:
    path, body = request
    return path, {**body, "stream": True, "stream_options": {"include_usage": True}}


def embeddings(texts: Union[str, Sequence[str]], dimensions: Optional[int]) -> Request:
    return "/v1/embeddings", {"input": texts if isinstance(texts, str) else list(texts), "dimensions": dimensions}


def vectors(texts: Union[str, Sequence[str]], reply: Any) -> Any:
    """One for a text, a list for a list."""
    found = [one["embedding"] for one in sorted(reply["data"], key=lambda one: one["index"])]
    return found[0] if isinstance(texts, str) else found


def tokenize(text: str, special: bool, parse_special: bool) -> Request:
    return "/tokenize", {"content": text, "add_special": special, "parse_special": parse_special}


def detokenize(tokens: Sequence[int]) -> Request:
    return "/detokenize", {"tokens": [operator.index(one) for one in tokens]}


def template(prompt: Union[str, Sequence[Message]], system: Optional[str], more: Mapping[str, Any]) -> Request:
    options.check(more)
    return "/apply-template", {"messages": messages_of(prompt, system), **more}


def count(prompt: Union[str, Sequence[Message]], system: Optional[str], more: Mapping[str, Any]) -> Request:
    options.check(more)
    return "/v1/chat/completions/input_tokens", {"messages": messages_of(prompt, system), **more}
