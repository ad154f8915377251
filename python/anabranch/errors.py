"""The one exception of this package."""

from __future__ import annotations

from typing import Any, Optional


class Error(Exception):
    """What the server refused or could not do, or why there is no server.

    message: in words. status: of HTTP; None if the answer had begun or there was none. code: a fixed word, such as
    "invalid_value". param: the field that is wrong, if it is one."""

    def __init__(
        self, message: str, status: Optional[int] = None, code: Optional[str] = None, param: Optional[str] = None
    ) -> None:
        super().__init__(message)
        self.message, self.status, self.code, self.param = message, status, code, param

    def __reduce__(self) -> Any:
        return type(self), (self.message, self.status, self.code, self.param)


def error_in(answer: Any, status: Optional[int] = None) -> Error:
    """The error that the server's JSON describes."""
    told = answer.get("error") if isinstance(answer, dict) else None
    if not isinstance(told, dict):
        return Error(f"the server answered with status {status}: {answer!r:.500}", status)
    return Error(str(told.get("message")), status, told.get("code"), told.get("param"))
