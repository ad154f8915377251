"""The options of a request: the server's own fields (docs/api.md, docs/sampling.md), typed for editors and checkers."""

from __future__ import annotations

import difflib
from typing import Any, Dict, Iterable, List, Mapping, TypedDict, Union


class Options(TypedDict, total=False):
    # How much.
    max_tokens: int
    max_completion_tokens: int
    min_tokens: int
    stop: Union[str, List[str]]
    stop_token_ids: List[int]
    include_stop_str_in_output: bool
    ignore_eos: bool
    timeout: float
    # Sampling.
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    seed: int
    repetition_penalty: float
    repetition_context_size: int
    repeat_last_n: int
    presence_penalty: float
    presence_context_size: int
    frequency_penalty: float
    frequency_context_size: int
    logit_bias: Mapping[str, float]
    xtc_probability: float
    xtc_threshold: float
    top_n_sigma: float
    typical_p: float
    dynatemp_range: float
    dynatemp_exponent: float
    mirostat: int
    mirostat_tau: float
    mirostat_eta: float
    dry_multiplier: float
    dry_base: float
    dry_allowed_length: int
    dry_penalty_last_n: int
    dry_sequence_breakers: List[str]
    # Thinking.
    enable_thinking: Union[bool, str]
    max_thinking_tokens: int
    reasoning_effort: str
    break_loops: Union[bool, str]
    # Tools and the format of the answer.
    tools: List[Dict[str, Any]]
    tool_choice: Union[str, Dict[str, Any]]
    parallel_tool_calls: bool
    response_format: Dict[str, Any]
    json_schema: Union[Dict[str, Any], bool]
    guided_json: Union[Dict[str, Any], bool]
    guided_choice: List[str]
    guided_regex: str
    grammar: str
    structured_outputs: Dict[str, Any]
    # The prompt.
    continue_final_message: bool
    add_generation_prompt: bool
    chat_template_kwargs: Dict[str, Any]
    # What comes with the answer.
    logprobs: Union[bool, int]
    top_logprobs: int
    # How it is computed.
    model: str
    lora: List[Dict[str, Any]]
    speculation: Union[str, Dict[str, Any]]
    num_draft_tokens: int
    cache: bool
    cache_salt: str
    priority: int
    kv_transfer_params: Dict[str, Any]
    # Without effect.
    user: str
    service_tier: str
    verbosity: str
    metadata: Dict[str, Any]
    store: bool


# Further fields that the server reads, or refuses by name: other names of those above, and fields for special uses.
OTHERS = """
    adapters allowed_token_ids audio bad_words best_of draft_model echo function_call functions grammar_lazy
    grammar_triggers guided_decoding_backend guided_grammar guided_whitespace_pattern id_slot logits_processors
    min_new_tokens mirostat_mode modalities moderation nsigma prediction prompt_cache_key prompt_cache_options
    prompt_cache_retention reasoning reasoning_budget repeat_penalty return_progress role_mapping safety_identifier
    stop_regex suffix tfs_z think thinking thinking_budget thinking_budget_tokens thinking_token_budget top_a typ_p
    use_beam_search web_search_options""".split()

# Fields that the methods of a Model set.
OWN = {
    "messages": "give the messages as the prompt",
    "prompt": "give it as the first argument",
    "stream": "call stream()",
    "stream_options": "the usage is part of each answer",
    "n": "call the method once for each answer, with different seeds",
}

KNOWN = {*Options.__annotations__, *OTHERS}


def nearest(name: str, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, sorted(names), 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def check(options: Mapping[str, Any]) -> None:
    """Raises TypeError for a name that the server would ignore."""
    for name in options:
        if name in OWN:
            raise TypeError(f"{name!r} is no option here: {OWN[name]}")
        if name not in KNOWN:
            raise TypeError(f"there is no option {name!r}{nearest(name, KNOWN)}")
