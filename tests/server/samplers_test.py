"""Samplers' fields with the default model: each API obeys them, and the answers are the same alone, together, with drafts,
with cached states and after a restart."""

import json
import subprocess
import threading

import pytest

from harness import paths
from harness.server import Server

TEXT = "Monday: bread, milk, eggs. Tuesday: bread, milk, cheese. Wednesday: bread, milk, apples.\nOnce more:\nMonday: bread,"
QUESTION = [{"role": "user", "content": "Tell me about the the the sea"}]
# Each changes what the model says.
FIELDS = {
    "repetition": {"repeat_penalty": 1.5},
    "DRY": {"dry_multiplier": 20, "dry_allowed_length": 1},
    "Mirostat 1": {"mirostat": 1, "mirostat_tau": 0.1, "temperature": 1.5, "seed": 7},
    "Mirostat 2": {"mirostat": 2, "mirostat_tau": 0.1, "temperature": 1.5, "seed": 7},
    "typical": {"typical_p": 0.2, "temperature": 1.5, "seed": 7},
    "sigma": {"top_n_sigma": 0.5, "temperature": 4, "top_p": 1, "min_p": 0, "seed": 7},
    "dynamic": {"dynatemp_range": 1, "temperature": 1, "seed": 7, "min_tokens": 12},
    "XTC": {"xtc_probability": 1, "xtc_threshold": 0.05, "temperature": 1, "seed": 7},
}
NEUTRAL = {"repeat_penalty": 1, "dry_multiplier": 0, "mirostat": 0, "typical_p": 1, "top_n_sigma": 0, "dynatemp_range": 0,
           "xtc_probability": 0}


@pytest.fixture(scope="module")
def server(serve_for_all):
    return serve_for_all("--cache-disk", "0")


def chat(server, path, fields, tokens):
    body = {"messages": QUESTION, "max_tokens": tokens, "enable_thinking": False, "temperature": 0} | fields
    answer = server.ask(path, body)
    return "".join(part["text"] for part in answer["content"]) if path == "/v1/messages" else answer["choices"][0]["message"]["content"]


def respond(server, path, fields, tokens):
    answer = server.ask(path, {"input": QUESTION, "max_output_tokens": tokens, "enable_thinking": False, "store": False, "temperature": 0} | fields)
    return "".join(part["text"] for item in answer["output"] for part in item.get("content", []))


def complete(server, path, fields, tokens):
    answer = server.ask(path, {"prompt": TEXT, "max_tokens": tokens, "temperature": 0} | fields)
    return answer["content"] if path == "/completion" else answer["choices"][0]["text"]


def generate(server, path, fields, tokens):
    ids = server.ask("/tokenize", {"content": TEXT})["tokens"]
    return server.ask(path, {"prompt_token_ids": ids, "max_tokens": tokens, "temperature": 0} | fields)["token_ids"]


def ollama(server, path, fields, tokens):
    body = {"model": "default", "messages": QUESTION, "prompt": QUESTION[0]["content"], "stream": False, "think": False}
    answer = server.ask(path, body | {"options": {"num_predict": tokens, "temperature": 0} | fields})
    return answer["message"]["content"] if path == "/api/chat" else answer["response"]


WAYS = {"/v1/chat/completions": chat, "/v1/messages": chat, "/v1/responses": respond, "/v1/completions": complete, "/completion": complete,
        "/v1/generate": generate, "/api/chat": ollama, "/api/generate": ollama}


@pytest.mark.parametrize("path", WAYS)
def test_every_api_obeys_every_field(server, path):
    ask = WAYS[path]
    for name, fields in FIELDS.items():
        off = {key: NEUTRAL.get(key, value) for key, value in fields.items()}
        tokens = 60 if name == "DRY" else 16  # it needs a repetition
        assert ask(server, path, fields, tokens) != ask(server, path, off, tokens), name
        assert ask(server, path, off, 16) == ask(server, path, {key: value for key, value in off.items() if key not in NEUTRAL}, 16), name


def test_no_line_repeats_with_dry(server):
    plain = complete(server, "/v1/completions", {"ignore_eos": True}, 120)
    dry = complete(server, "/v1/completions", {"ignore_eos": True, "dry_multiplier": 5, "dry_sequence_breakers": []}, 120)

    def longest(text):
        whole = (TEXT + text).split()
        return max(n for n in range(len(whole)) if n == 0 or any(
            whole[i:i + n] == whole[j:j + n] for j in range(len(TEXT.split()), len(whole) - n) for i in range(j)))
    assert longest(dry) < longest(plain)


ASKED = FIELDS | {"all": {"repeat_penalty": 1.1, "dry_multiplier": 0.5, "typical_p": 0.9, "top_n_sigma": 2, "dynatemp_range": 0.3, "temperature": 0.8,
                          "seed": 3, "min_tokens": 20, "stop_token_ids": [30, 28]}}


def answers(server, **more):
    body = {"prompt": TEXT, "max_tokens": 48, "temperature": 0, "logprobs": 1}
    return {name: server.ask("/v1/completions", body | fields | more)["choices"] for name, fields in ASKED.items()}


def test_answers_depend_on_nothing_else(tmp_path):
    kept = ["--cache-dir", str(tmp_path), "--cache-disk", "1GB", "--cache-disk-worth", "0"]
    with Server("--threads", "1", "--no-cache", "--spec", "off") as plain:
        want = answers(plain)
    with Server(*kept) as server:
        for source in ("ngram", "mtp"):
            assert answers(server, speculation={"source": source, "depth": 4}) == want, source
        assert answers(server) == want, "with cached states"
        got = {}
        threads = [threading.Thread(target=lambda name=name: got.update({name: answers_of(server, name)})) for name in ASKED]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert got == want, "together"
    with Server(*kept) as again:
        assert answers(again) == want, "after a restart"


def answers_of(server, name):
    body = {"prompt": TEXT, "max_tokens": 48, "temperature": 0, "logprobs": 1}
    return server.ask("/v1/completions", body | ASKED[name])["choices"]


def test_an_answer_has_its_least_tokens(server):
    body = {"messages": [{"role": "user", "content": "Say yes."}], "enable_thinking": False, "temperature": 0, "max_tokens": 60, "break_loops": False}

    def ask(**more):
        answer = server.ask("/v1/chat/completions", body | more)
        return answer["choices"][0]["message"]["content"], answer["choices"][0]["finish_reason"], answer["usage"]["completion_tokens"]
    text, reason, count = ask()
    assert reason == "stop" and count < 40
    for more in ({}, {"speculation": "ngram"}, {"enable_thinking": True, "max_thinking_tokens": 10}):
        assert ask(min_tokens=50, **more)[2] >= 50
    longer = ask(min_tokens=50)[0]
    assert longer.startswith(text.rstrip())
    # A stop string does not count before, and does afterwards.
    word = text.split()[0][:2]
    assert ask(stop=[word])[0] == ""
    assert ask(stop=[word], include_stop_str_in_output=True)[0] == word
    assert ask(stop=[word], min_tokens=count)[0].startswith(word)


def test_a_stop_token_ends_an_answer(server):
    body = {"messages": QUESTION, "enable_thinking": False, "temperature": 0, "max_tokens": 40, "logprobs": True}

    def ask(**more):
        choice = server.ask("/v1/chat/completions", body | more)["choices"][0]
        return choice["message"]["content"], choice["finish_reason"], [one["token"] for one in choice["logprobs"]["content"]]
    pieces = ask()[2]
    word = next(piece for piece in pieces[4:] if piece.strip().isalpha())
    stop, = server.ask("/tokenize", {"content": word})["tokens"]
    before = "".join(pieces[:pieces.index(word)])
    assert ask(stop_token_ids=[stop])[:2] == (before, "stop")
    assert ask(stop_token_ids=[stop], include_stop_str_in_output=True)[:2] == (before + word, "stop")
    assert ask(stop_token_ids=[stop], min_tokens=20)[2][:pieces.index(word)] == pieces[:pieces.index(word)]
    assert word not in ask(stop_token_ids=[stop], min_tokens=20)[2][:20]


def test_flags_are_the_fields(server):
    flags = ["--temp", "0.9", "--seed", "5", "-n", "24", "--raw", "--json", "--no-cache"]
    fields = {"temperature": 0.9, "seed": 5}
    for extra, more in ((["--mirostat", "2", "--mirostat-tau", "2"], {"mirostat": 2, "mirostat_tau": 2}),
                        (["--dry-multiplier", "2", "--dry-allowed-length", "1", "--dry-sequence-breaker", "milk"],
                         {"dry_multiplier": 2, "dry_allowed_length": 1, "dry_sequence_breakers": ["milk"]}),
                        (["--typical-p", "0.3", "--top-n-sigma", "1.5"], {"typical_p": 0.3, "top_n_sigma": 1.5}),
                        (["--dynatemp-range", "0.8", "--dynatemp-exponent", "2", "--xtc-probability", "0.5", "--xtc-threshold", "0.1"],
                         {"dynatemp_range": 0.8, "dynatemp_exponent": 2, "xtc_probability": 0.5, "xtc_threshold": 0.1})):
        done = subprocess.run([paths.PROGRAM, "generate", "-m", paths.MODEL, *flags, *extra, "-p", TEXT], capture_output=True, text=True, check=True)
        said = json.loads(done.stdout)
        assert said["text"] == complete(server, "/v1/completions", fields | more, 24), extra
