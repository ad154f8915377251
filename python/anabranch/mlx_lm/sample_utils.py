"""mlx-lm's samplers and logits processors, as settings of the server's sampler."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence


@dataclass(frozen=True)
class Settings:
    """Fields of a request. It takes the place of a function over logits, which stay in the server."""

    fields: Dict[str, Any] = field(default_factory=dict)


def make_sampler(
    temp: float = 0.0,
    top_p: float = 0.0,
    min_p: float = 0.0,
    min_tokens_to_keep: int = 1,
    top_k: int = 0,
    xtc_probability: float = 0.0,
    xtc_threshold: float = 0.0,
    xtc_special_tokens: Optional[Sequence[int]] = None,
) -> Settings:
    if min_tokens_to_keep != 1:
        raise TypeError("min_tokens_to_keep is not supported: the server keeps one token")
    if xtc_special_tokens:
        raise TypeError("xtc_special_tokens is not supported: XTC may leave out any token but the last")
    return Settings(
        {
            "temperature": temp,
            "top_p": top_p if 0 < top_p < 1 else 1,
            "min_p": min_p,
            "top_k": max(top_k, 0),
            "xtc_probability": xtc_probability,
            "xtc_threshold": xtc_threshold,
        }
    )


def make_logits_processors(
    logit_bias: Optional[Mapping[int, float]] = None,
    repetition_penalty: Optional[float] = None,
    repetition_context_size: Optional[int] = 20,
    presence_penalty: Optional[float] = None,
    presence_context_size: Optional[int] = 20,
    frequency_penalty: Optional[float] = None,
    frequency_context_size: Optional[int] = 20,
) -> List[Settings]:
    out: Dict[str, Any] = {}
    if logit_bias:
        out["logit_bias"] = {str(token): bias for token, bias in logit_bias.items()}
    for name, penalty, size in (
        ("repetition", repetition_penalty, repetition_context_size),
        ("presence", presence_penalty, presence_context_size),
        ("frequency", frequency_penalty, frequency_context_size),
    ):
        if penalty:
            out[name + "_penalty"], out[name + "_context_size"] = penalty, size or 0
    return [Settings(out)] if out else []
