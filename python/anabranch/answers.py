"""What comes back: an Answer, and the Pieces of one that is streamed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional


class Piece(str):
    """Some text of an answer. thoughts: some text of its thoughts; one of the two is empty."""

    thoughts: str

    def __new__(cls, text: str, thoughts: str = "") -> "Piece":
        piece = super().__new__(cls, text)
        piece.thoughts = thoughts
        return piece

    def __getnewargs__(self) -> Any:
        return str(self), self.thoughts


@dataclass
class Answer:
    """A whole answer, or what has come of it. str() is its text."""

    text: str = ""
    thoughts: str = ""
    tool_calls: List[Dict[str, Any]] = field(default_factory=list)  # as OpenAI writes them
    finish_reason: Optional[str] = (
        None  # "stop", "length" or "tool_calls"; None while it goes on, and if it was cancelled
    )
    logprobs: Dict[str, Any] = field(default_factory=dict)  # as OpenAI writes them, if they were asked for
    usage: Dict[str, Any] = field(default_factory=dict)  # as the server counts; empty until the answer is whole

    def __str__(self) -> str:
        return self.text

    @property
    def prompt_tokens(self) -> int:
        return int(self.usage.get("prompt_tokens", 0))

    @property
    def completion_tokens(self) -> int:
        """Of the answer and its thoughts."""
        return int(self.usage.get("completion_tokens", 0))

    @property
    def thinking_tokens(self) -> int:
        return int(self.usage.get("completion_tokens_details", {}).get("reasoning_tokens", 0))

    @property
    def cached_tokens(self) -> int:
        """Of the prompt: those that were found in the prefix cache."""
        return int(self.usage.get("prompt_tokens_details", {}).get("cached_tokens", 0))

    @property
    def message(self) -> Dict[str, Any]:
        """The turn to append to the messages of the conversation."""
        message: Dict[str, Any] = {"role": "assistant", "content": self.text or None}
        if self.thoughts:
            message["reasoning_content"] = self.thoughts
        if self.tool_calls:
            message["tool_calls"] = self.tool_calls
        elif not self.text:
            message["content"] = ""
        return message

    def add(self, event: Dict[str, Any]) -> Optional[Piece]:
        """Adds a chunk of a stream, or a whole answer, in OpenAI's format. The text that came with it, if any."""
        self.usage = event.get("usage") or self.usage
        piece = None
        for choice in event["choices"]:
            part = choice.get("delta") or choice.get("message") or {"content": choice.get("text")}
            piece = Piece(part.get("content") or "", part.get("reasoning_content") or "")
            self.text += piece
            self.thoughts += piece.thoughts
            for call in part.get("tool_calls") or []:
                self._add_call(call)
            for name, values in (choice.get("logprobs") or {}).items():
                if values is not None:
                    self.logprobs.setdefault(name, []).extend(values)
            self.finish_reason = choice["finish_reason"] or self.finish_reason
        return piece if piece or (piece is not None and piece.thoughts) else None

    def _add_call(self, call: Dict[str, Any]) -> None:
        """A stream begins a call with its id and name; pieces of its arguments follow under its index."""
        at = call.get("index", len(self.tool_calls))
        if at == len(self.tool_calls):
            self.tool_calls.append({name: value for name, value in call.items() if name != "index"})
            self.tool_calls[at]["function"] = {"arguments": "", **call["function"]}
        else:
            self.tool_calls[at]["function"]["arguments"] += call["function"].get("arguments", "")
