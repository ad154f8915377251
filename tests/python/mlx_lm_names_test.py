"""anabranch.mlx_lm: the names and results of mlx-lm."""

import inspect
import os
import re
import signal
import threading
import time

import lora_adapter
import pytest

from anabranch import Error, mlx_lm
from anabranch.mlx_lm import batch_generate, generate, load, make_logits_processors, make_sampler, stream_generate
from anabranch.mlx_lm.tokenizer_utils import Tokenizer
from harness import paths
from harness.waiting import wait_for

pytestmark = pytest.mark.any_model
PLAIN = {"temperature": 0, "presence_penalty": 0, "frequency_penalty": 0, "dry_multiplier": 0, "typical_p": 1}
MESSAGES = [{"role": "user", "content": "Hi"}]


@pytest.fixture(scope="module")
def loaded(program):
    model, tokenizer = load(paths.DRAFT, tokenizer_config={"trust_remote_code": True}, no_cache=True)
    with model:
        yield model, tokenizer


def test_the_signatures_are_those_of_mlx_lm():
    for function, names in (
        (load, "path_or_hf_repo tokenizer_config model_config adapter_path lazy return_config revision"),
        (generate, "model tokenizer prompt verbose"),
        (stream_generate, "model tokenizer prompt max_tokens draft_model"),
        (batch_generate, "model tokenizer prompts"),
        (make_sampler, "temp top_p min_p min_tokens_to_keep top_k xtc_probability xtc_threshold xtc_special_tokens"),
    ):
        assert list(inspect.signature(function).parameters)[: len(names.split())] == names.split()
    assert inspect.signature(stream_generate).parameters["max_tokens"].default == 256


def test_the_tokenizer(loaded):
    model, tokenizer = loaded
    ids = tokenizer.encode("The capital of")
    assert tokenizer.decode(ids) == "The capital of" and tokenizer.decode(ids[0]) == "The"
    assert tokenizer.eos_token == "<|im_end|>" and tokenizer.encode("<|im_end|>") == [tokenizer.eos_token_id] == list(
        tokenizer.eos_token_ids
    )
    assert (
        tokenizer.bos_token is None
        and tokenizer.bos_token_id is None
        and "add_generation_prompt" in tokenizer.chat_template
    )
    text = tokenizer.apply_chat_template(MESSAGES, add_generation_prompt=True, tokenize=False)
    assert text == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n"
    assert tokenizer.apply_chat_template(MESSAGES, add_generation_prompt=True) == tokenizer.encode(text)
    assert tokenizer.apply_chat_template(MESSAGES, tokenize=False) == "<|im_start|>user\nHi<|im_end|>\n"
    off = tokenizer.apply_chat_template(MESSAGES, add_generation_prompt=True, tokenize=False, enable_thinking=False)
    assert off == text + "\n</think>\n\n"
    turns = [*MESSAGES, {"role": "assistant", "content": "Yo"}]
    assert tokenizer.apply_chat_template(turns, tokenize=False).endswith("Yo<|im_end|>\n")
    assert tokenizer.apply_chat_template(turns, tokenize=False, continue_final_message=True).endswith("Yo")
    tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}]
    assert "weather" in tokenizer.apply_chat_template(MESSAGES, tools=tools, tokenize=False)
    with pytest.raises(TypeError, match="return_tensors"):
        tokenizer.apply_chat_template(MESSAGES, return_tensors="np")
    with pytest.raises(TypeError, match="skip_special_tokens"):
        tokenizer.decode(ids, skip_special_tokens=True)


def test_a_stream_has_a_response_for_each_token(loaded):
    model, tokenizer = loaded
    for prompt, length, reason in (
        (tokenizer.apply_chat_template(MESSAGES, add_generation_prompt=True, enable_thinking=False), 256, "stop"),
        ("The capital of", 4, "length"),
        (tokenizer.encode("1 2 3 1 2 3 1 2 3"), 30, "length"),
    ):
        ids = tokenizer.encode(prompt) if isinstance(prompt, str) else prompt
        told = model.request(
            "/completion", {"prompt": ids, "n_predict": length, "temperature": 0, "return_tokens": True}
        )
        responses = list(stream_generate(model, tokenizer, prompt, max_tokens=length))
        assert [one.token for one in responses] == told["tokens"] and "".join(one.text for one in responses) == told[
            "content"
        ]
        assert [one.generation_tokens for one in responses] == list(range(1, len(responses) + 1))
        assert [one.finish_reason for one in responses] == [None] * (len(responses) - 1) + [reason]
        assert (responses[-1].token == tokenizer.eos_token_id) == (reason == "stop")
        assert all(one.prompt_tokens == len(ids) and one.prompt_tps > 0 and one.generation_tps > 0 for one in responses)
        assert 0 < responses[0].peak_memory < 100
        assert generate(model, tokenizer, prompt, max_tokens=length) == told["content"]
    with pytest.raises(AttributeError, match="logprobs"):
        responses[0].logprobs


def test_a_stream_that_is_left_ends_its_request(loaded):
    model, tokenizer = loaded
    before = model.request("/health")["engine"]["cancelled"]
    responses = stream_generate(
        model, tokenizer, "Rivers", max_tokens=7000, logits_processors=make_logits_processors({2: -100})
    )
    next(responses)
    responses.close()
    wait_for(lambda: model.request("/health")["engine"]["cancelled"] == before + 1, "one cancelled", 10)


def test_verbose_prints_what_mlx_lm_prints(loaded, capsys):
    text = generate(*loaded, prompt="The capital of", max_tokens=4, verbose=True)
    assert re.fullmatch(
        r"={10}\n" + re.escape(text) + r"\n={10}\nPrompt: 3 tokens, [\d.]+ tokens-per-sec\n"
        r"Generation: 4 tokens, [\d.]+ tokens-per-sec\nPeak memory: [\d.]+ GB\n",
        capsys.readouterr().out,
    )


def test_samplers_are_settings_of_the_server(loaded):
    model, tokenizer = loaded
    fields = {
        "temperature": 0.9,
        "top_p": 0.8,
        "top_k": 40,
        "min_p": 0.01,
        "seed": 7,
        "max_tokens": 20,
        "repetition_penalty": 1.2,
        "repetition_context_size": 20,
        "logit_bias": {"28": -100},
    }
    expected = model.generate("The capital of", raw=True, **fields).text
    processors = make_logits_processors(logit_bias={28: -100}, repetition_penalty=1.2)
    assert (
        generate(
            model,
            tokenizer,
            "The capital of",
            max_tokens=20,
            seed=7,
            logits_processors=processors,
            sampler=make_sampler(0.9, 0.8, min_p=0.01, top_k=40),
        )
        == expected
    )
    greedy = generate(model, tokenizer, "The capital of", max_tokens=20)
    assert greedy != expected and greedy == generate(
        model, tokenizer, "The capital of", max_tokens=20, sampler=make_sampler()
    )
    assert (
        make_sampler(top_p=0.0).fields["top_p"]
        == make_sampler(top_p=1.5).fields["top_p"]
        == 1
        != make_sampler(top_p=0.5).fields["top_p"]
    )
    assert make_logits_processors() == [] == make_logits_processors(repetition_penalty=0)


def test_a_batch_answers_each_prompt(loaded):
    model, tokenizer = loaded
    prompts = [
        tokenizer.encode(text)
        for text in ("The capital of", "A river", "Once", "In", "The", "Of", "It", "We", "They", "1 2 3")
    ]
    limits = list(range(3, 3 + len(prompts)))
    batch = batch_generate(model, tokenizer, prompts, max_tokens=limits)
    assert batch.texts == [
        generate(model, tokenizer, prompt, max_tokens=limit) for prompt, limit in zip(prompts, limits)
    ]
    assert batch.stats.prompt_tokens == sum(map(len, prompts)) and batch.stats.generation_tokens <= sum(limits)
    assert batch_generate(model, tokenizer, prompts[:2], max_tokens=3).texts[0] == batch.texts[0]


def ends_in_time(model, prompts, error, **more):
    """A batch that fails ends the answers that run, and begins none that wait."""
    before, begin = model.request("/health")["engine"], time.monotonic()
    with pytest.raises(error):
        batch_generate(model, Tokenizer(model), prompts, 7000, **more)
    assert time.monotonic() - begin < 4
    wait_for(lambda: model.request("/health")["engine"]["running"] == 0, "all ended", 10)
    assert model.request("/health")["engine"]["cancelled"] > before["cancelled"]


def test_an_error_ends_the_batch(loaded):
    bias = make_logits_processors({2: -100})
    ends_in_time(loaded[0], [*["Rivers"] * 3, [10**9], *["Boats"] * 30], Error, logits_processors=bias)


def test_an_interrupt_ends_the_batch(loaded):
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    bias = make_logits_processors({2: -100})
    ends_in_time(loaded[0], ["Rivers"] * 30, KeyboardInterrupt, logits_processors=bias)


def test_what_is_not_supported_is_refused_by_name(loaded):
    def sampler(logits):
        return logits

    for words, more in (
        ("draft_model is not supported", {"draft_model": object()}),
        ("prompt_cache is", {"prompt_cache": []}),
        ("kv_bits", {"kv_bits": 4}),
        ("max_kv_size", {"max_kv_size": 512}),
        ("make_sampler", {"temp": 0.0}),
        ("sampler must come from make_sampler", {"sampler": sampler}),
        ("logits_processors must come from make_logits", {"logits_processors": [sampler]}),
        ("no argument 'sampl'; did you mean 'sampler'", {"sampl": 1}),
    ):
        for ask in (generate, batch_generate):
            with pytest.raises(TypeError, match=words):
                ask(*loaded, ["A"] if ask is batch_generate else "A", **more)
    with pytest.raises(TypeError, match="draft_model"):
        next(stream_generate(*loaded, "A", 5, object()))
    assert generate(*loaded, "A", max_tokens=1, draft_model=None, prompt_cache=None, prefill_step_size=512)
    for name, value in (("tokenizer_config", {"eos_token": "x"}), ("model_config", {"x": 1}), ("return_config", True)):
        with pytest.raises(TypeError, match=name):
            load(paths.DRAFT, **{name: value})
    for name, value in (("min_tokens_to_keep", 2), ("xtc_special_tokens", [1])):
        with pytest.raises(TypeError, match=name):
            make_sampler(**{name: value})
    assert not hasattr(mlx_lm, "convert")


def test_an_adapter_applies(loaded, tmp_path):
    lora_adapter.write(str(tmp_path / "poet"), 1)
    lora_adapter.write(str(tmp_path / "pirate"), 2)
    more = {"presence_penalty": 2.0, "frequency_penalty": 2.0, "dry_multiplier": 3.0, "typical_p": 0.2}  # no effect
    model, tokenizer = load(
        paths.DRAFT, adapter_path=str(tmp_path / "poet"), lora=f"other={tmp_path / 'pirate'}", no_cache=True, **more
    )
    with model:
        assert {one["name"] for one in model.request("/lora-adapters")} == {"adapter", "other"}
        adapted = generate(model, tokenizer, "The capital of", max_tokens=12)
        assert adapted == model.generate("The capital of", raw=True, model="adapter", max_tokens=12, **PLAIN).text
        plain = model.generate("The capital of", raw=True, lora=[], max_tokens=12, **PLAIN).text
    assert adapted != plain == generate(*loaded, "The capital of", max_tokens=12)
