"""Runs language models with the server of Anabranch, which starts and ends with a Model (docs/python.md)."""

from .answers import Answer, Piece
from .asynchronous import AsyncModel, AsyncStream
from .errors import Error
from .model import Model, Stream

__version__ = "0.2.0"
__all__ = ["Answer", "AsyncModel", "AsyncStream", "Error", "Model", "Piece", "Stream"]
