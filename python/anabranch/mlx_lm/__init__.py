"""The names of mlx-lm, for programs that were written for it: `from anabranch.mlx_lm import load` (docs/python.md)."""

from __future__ import annotations

import os
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from ..connections import BlockingConnection, run_now
from ..exchange import Exchange
from ..model import Model
from ..options import nearest
from .sample_utils import Settings, make_logits_processors, make_sampler
from .tokenizer_utils import Tokenizer

__all__ = [
    "BatchResponse",
    "BatchStats",
    "GenerationResponse",
    "batch_generate",
    "generate",
    "load",
    "make_logits_processors",
    "make_sampler",
    "stream_generate",
]

Prompt = Union[str, Sequence[int]]

# Arguments of mlx-lm that mean nothing here, and what to do instead.
REFUSED = {
    "draft_model": "give it to load(): load(path, draft=PATH)",
    "prompt_cache": "the server caches the beginnings of prompts by itself",
    "prompt_caches": "the server caches the beginnings of prompts by itself",
    "return_prompt_caches": "the server caches the beginnings of prompts by itself",
    "max_kv_size": "load(path, context=N) limits the context",
    "kv_bits": "keys and values of running requests are not quantised",
    "input_embeddings": "give the prompt as text or token ids",
    "prompt_progress_callback": "the progress is not told",
    **dict.fromkeys(("temp", "temperature", "top_p", "min_p", "top_k"), "give sampler=make_sampler(...)"),
    **dict.fromkeys(
        ("logit_bias", "repetition_penalty", "repetition_context_size"),
        "give logits_processors=make_logits_processors(...)",
    ),
}
# Arguments that change at most the speed.
IDLE = (
    "prefill_step_size",
    "kv_group_size",
    "quantized_kv_start",
    "num_draft_tokens",
    "completion_batch_size",
    "prefill_batch_size",
)
TAKEN = ("sampler", "logits_processors", "seed")
# Fields that change the probabilities, without effect.
PLAIN = {
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "dry_multiplier": 0.0,
    "top_n_sigma": 0.0,
    "typical_p": 1.0,
    "mirostat": 0,
}


@dataclass
class GenerationResponse:
    """A token of an answer, and the text that became certain with it, which may be empty."""

    text: str
    token: int
    prompt_tokens: int
    prompt_tps: float
    generation_tokens: int
    generation_tps: float
    peak_memory: float  # GB that the server holds
    finish_reason: Optional[str] = None  # "stop" or "length" with the last token
    from_draft: bool = False  # the server does not tell

    @property
    def logprobs(self) -> Any:
        raise AttributeError(
            "logprobs of the whole vocabulary are not supported: Model.generate(..., logprobs=True) has the tokens'"
        )


@dataclass
class BatchStats:
    prompt_tokens: int = 0
    prompt_tps: float = 0
    prompt_time: float = 0
    generation_tokens: int = 0
    generation_tps: float = 0
    generation_time: float = 0
    peak_memory: float = 0


@dataclass
class BatchResponse:
    texts: List[str] = field(default_factory=list)
    stats: BatchStats = field(default_factory=BatchStats)


def load(
    path_or_hf_repo: "Union[str, os.PathLike[str]]",
    tokenizer_config: Optional[Mapping[str, Any]] = None,
    model_config: Optional[Mapping[str, Any]] = None,
    adapter_path: Optional[str] = None,
    lazy: bool = False,
    return_config: bool = False,
    revision: Optional[str] = None,
    **flags: Any,
) -> Tuple[Model, Tokenizer]:
    """flags: further ones of `anabranch serve`, as for Model."""
    if {name for name in tokenizer_config or {} if name != "trust_remote_code"}:  # no code of models is run at all
        raise TypeError("tokenizer_config is not supported: the model's own files say how it tokenises")
    if model_config or return_config:
        refused = "model_config" if model_config else "return_config"
        raise TypeError(f"{refused} is not supported: the server reads the model's config")
    name = os.fspath(path_or_hf_repo) + (f"@{revision}" if revision else "")
    if adapter_path:
        given = flags.get("lora") or []
        others = given if isinstance(given, (list, tuple)) else [given]
        flags["lora"] = [*others, f"adapter={adapter_path}"]
    model = Model(name, **flags)
    if adapter_path:
        adapters = model.request("/lora-adapters")
        model.request(
            "/lora-adapters", [{"id": one["id"], "scale": 1.0} for one in adapters if one["name"] == "adapter"]
        )
    return model, Tokenizer(model)


def fields_of(options: Mapping[str, Any]) -> Dict[str, Any]:
    """The fields of a request that mlx-lm's arguments ask for. Raises TypeError for those that it cannot follow."""
    for name, value in options.items():
        if name in REFUSED and value is not None and value is not False:
            raise TypeError(f"{name} is not supported: {REFUSED[name]}")
        if name not in REFUSED and name not in IDLE and name not in TAKEN:
            raise TypeError(f"there is no argument {name!r}{nearest(name, [*REFUSED, *IDLE, *TAKEN, 'max_tokens'])}")
    # mlx-lm takes no settings from the model's files.
    fields = {**make_sampler().fields, **PLAIN, "seed": options.get("seed")}
    for name, made in (("sampler", "make_sampler()"), ("logits_processors", "make_logits_processors()")):
        given = options.get(name)
        for one in given if isinstance(given, (list, tuple)) else [] if given is None else [given]:
            if not isinstance(one, Settings):
                raise TypeError(f"{name} must come from {made}: the server samples, and sees no functions of Python")
            fields.update(one.fields)
    return fields


def tokens_of(tokenizer: Tokenizer, prompt: Prompt) -> "list[int]":
    if isinstance(prompt, str):
        return tokenizer.encode(prompt, not (tokenizer.bos_token and prompt.startswith(tokenizer.bos_token)))
    return [int(token) for token in prompt]


def events(exchange: Exchange, body: Dict[str, Any]) -> Iterator[Dict[str, Any]]:
    try:
        run_now(exchange.begin("/completion", {**body, "stream": True, "return_tokens": True}))
        while (event := run_now(exchange.event())) is not None:
            yield event
            if event["stop"]:
                return
    finally:
        exchange.close()


def stream_generate(
    model: Model,
    tokenizer: Tokenizer,
    prompt: Prompt,
    max_tokens: int = 256,
    draft_model: Any = None,
    **options: Any,
) -> Iterator[GenerationResponse]:
    """Yields a response for each token; the last one has the finish_reason."""
    fields = fields_of({**options, "draft_model": draft_model})
    yield from responses(
        Exchange(model._server, BlockingConnection), model, tokenizer, prompt, {**fields, "n_predict": max_tokens}
    )


def responses(
    exchange: Exchange, model: Model, tokenizer: Tokenizer, prompt: Prompt, fields: Dict[str, Any]
) -> Iterator[GenerationResponse]:
    tokens = tokens_of(tokenizer, prompt)
    memory = model.request("/health")["memory"]["process"]["resident_bytes"] / 1e9
    begin = time.perf_counter()
    waiting: Optional[GenerationResponse] = None  # until it is known whether it is the last one
    count, prompt_tps = 0, 0.0
    for event in events(exchange, {**fields, "prompt": tokens}):
        if count == 0:
            prompt_tps, begin = len(tokens) / (time.perf_counter() - begin), time.perf_counter()
        for at, token in enumerate(event["tokens"]):
            count += 1
            if waiting:
                yield waiting
            waiting = GenerationResponse(
                event["content"] if at + 1 == len(event["tokens"]) else "",
                token,
                len(tokens),
                prompt_tps,
                count,
                count / max(time.perf_counter() - begin, 1e-9),
                memory,
            )
        if waiting and event["stop"]:
            waiting.finish_reason = "length" if event["stop_type"] == "limit" else "stop"
            waiting.text += event["content"] if not event["tokens"] else ""
            yield waiting


def generate(model: Model, tokenizer: Tokenizer, prompt: Prompt, verbose: bool = False, **options: Any) -> str:
    if verbose:
        print("=" * 10)
    text, last = "", None
    for last in stream_generate(model, tokenizer, prompt, **options):
        if verbose:
            print(last.text, end="", flush=True)
        text += last.text
    if verbose:
        print("\n" + "=" * 10)
        if last is None or not text:
            print("No text generated for this prompt")
        else:
            print(
                f"Prompt: {last.prompt_tokens} tokens, {last.prompt_tps:.3f} tokens-per-sec\n"
                f"Generation: {last.generation_tokens} tokens, {last.generation_tps:.3f} tokens-per-sec\n"
                f"Peak memory: {last.peak_memory:.3f} GB"
            )
    return text


def batch_generate(
    model: Model,
    tokenizer: Tokenizer,
    prompts: Sequence[Prompt],
    max_tokens: Union[int, Sequence[int]] = 128,
    verbose: bool = False,
    **options: Any,
) -> BatchResponse:
    """All prompts at a time, as far as the server's --parallel allows. Each text is the same as of its prompt alone."""
    limits = [max_tokens] * len(prompts) if isinstance(max_tokens, int) else list(max_tokens)
    fields = fields_of(options)
    begin = time.perf_counter()
    exchanges: List[Exchange] = []
    stopped = False

    def answer(prompt: Prompt, limit: int) -> List[GenerationResponse]:
        exchange = Exchange(model._server, BlockingConnection)
        exchanges.append(exchange)
        if stopped:  # only now: who stops closes those that are in the list
            exchange.close()
        return list(responses(exchange, model, tokenizer, prompt, {**fields, "n_predict": limit}))

    with ThreadPoolExecutor(model.request("/props")["total_slots"]) as pool:
        futures = [pool.submit(answer, *one) for one in zip(prompts, limits)]
        try:
            for done in wait(futures, return_when=FIRST_EXCEPTION).done:
                done.result()
        except BaseException:
            stopped = True
            for future in futures:
                future.cancel()
            for exchange in exchanges:
                exchange.close()
            raise
    answers = [future.result() for future in futures]
    stats = BatchStats(generation_time=time.perf_counter() - begin)
    for last in [answer[-1] for answer in answers if answer]:
        stats.prompt_tokens += last.prompt_tokens
        stats.prompt_time += last.prompt_tokens / last.prompt_tps
        stats.generation_tokens += last.generation_tokens
        stats.peak_memory = max(stats.peak_memory, last.peak_memory)
    stats.prompt_tps = stats.prompt_tokens / max(stats.prompt_time, 1e-9)
    stats.generation_tps = stats.generation_tokens / max(stats.generation_time, 1e-9)
    if verbose:
        print(
            f"[batch_generate] {len(prompts)} answers, {stats.generation_tokens} tokens, "
            f"{stats.generation_tps:.3f} tokens-per-sec"
        )
    return BatchResponse(["".join(one.text for one in answer) for answer in answers], stats)
