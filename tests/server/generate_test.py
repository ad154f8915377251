"""/v1/generate of a real model: its tokens are those of /v1/completions, streamed or not, cold or cached; a request is
cancelled while it runs and while it waits."""

import json
import threading

import pytest

from harness import clients

pytestmark = pytest.mark.any_model

LONG = {"max_tokens": -1, "temperature": 5.0, "top_p": 1.0, "top_k": 0, "min_p": 0, "break_loops": False, "ignore_eos": True}
PROMPT = "In the year 1923 the town council of Millbrook voted, after long talks, to build a library. " * 20
PLAIN = {"temperature": 0, "repetition_penalty": 1}
ASKED = {"greedy": PLAIN | {"max_tokens": 40, "ignore_eos": True},
         "seeded": {"max_tokens": 40, "temperature": 0.9, "top_p": 0.95, "top_k": 50, "min_p": 0.01, "seed": 7, "ignore_eos": True},
         "penalties": PLAIN | {"max_tokens": 40, "repetition_penalty": 1.2, "presence_penalty": 0.5, "frequency_penalty": 0.3},
         "to its end": {"temperature": 1.2, "seed": 11, "max_tokens": 300}}


@pytest.fixture(scope="module")
def server(serve_for_all, tmp_path_factory):
    return serve_for_all("--context", "4096", "--parallel", "2", "--cache-disk", "0", "--cache-dir", tmp_path_factory.mktemp("cache"))


def streamed(server, body):
    """What a stream says, as a whole answer, and the number of its chunks."""
    ids, logprobs, chunks, end = [], [], 0, None
    response = server.open("/v1/generate", body | {"stream": True})
    while (data := clients.next_event(response)) != b"[DONE]":
        assert data is not None, "the stream has no end"
        assert end is None, "a chunk came after the end"
        chunk = json.loads(data)
        ids += chunk["token_ids"]
        logprobs += chunk["logprobs"] or []
        chunks += 1
        end = chunk if chunk["finish_reason"] else None
    return end | {"token_ids": ids, "logprobs": logprobs}, chunks


def same(ours, theirs, server):
    """Whether ids and log probabilities of /v1/generate are those of a text completion."""
    choice = theirs["choices"][0]
    text = server.ask("/detokenize", {"tokens": ours["token_ids"]})["content"]
    return (text.startswith(choice["text"]) and ours["finish_reason"] == choice["finish_reason"]
            and [entry["logprob"] for entry in ours["logprobs"]] == choice["logprobs"]["token_logprobs"]
            and len(ours["token_ids"]) == ours["usage"]["completion_tokens"] == theirs["usage"]["completion_tokens"])


@pytest.mark.parametrize("name", ASKED)
def test_tokens_are_those_of_the_other_apis(server, name):
    fields = ASKED[name]
    ids = server.ask("/tokenize", {"content": PROMPT})["tokens"]
    body = fields | {"prompt_token_ids": ids, "logprobs": True, "top_logprobs": 2, "speculation": "off", "cache": False}
    cold = server.ask("/v1/generate", body)
    theirs = server.ask("/v1/completions", fields | {"prompt": ids, "logprobs": 2, "speculation": "off", "cache": False})
    assert same(cold, theirs, server), (cold, theirs)
    llama = server.ask("/completion", {"n_predict": fields["max_tokens"], "prompt": ids, "return_tokens": True,
                                       "cache_prompt": False} | {k: v for k, v in fields.items() if k != "max_tokens"} |
                       {"repeat_penalty": fields.get("repetition_penalty")})
    assert llama["tokens"] == cold["token_ids"]


@pytest.mark.parametrize("name", ASKED)
def test_streamed_and_cached_answers_are_those_of_cold_ones(server, name):
    ids = server.ask("/tokenize", {"content": PROMPT})["tokens"]
    body = ASKED[name] | {"prompt_token_ids": ids, "logprobs": True, "top_logprobs": 2}
    cold = server.ask("/v1/generate", body | {"speculation": "off", "cache": False})
    warm = body | {"cache": True, "speculation": "auto", "cache_salt": name}
    server.ask("/v1/generate", warm)
    whole, chunks = streamed(server, warm)
    cached = server.ask("/v1/generate", warm)
    for answer in (whole, cached):
        for key in ("token_ids", "logprobs", "finish_reason", "stop_reason"):
            assert answer[key] == cold[key], key
    assert cached["usage"]["prompt_tokens_details"]["cached_tokens"] == len(ids) - 1
    assert chunks > 2


def test_a_stop_token_ends_the_answer(server):
    ids = server.ask("/tokenize", {"content": PROMPT})["tokens"]
    body = {"prompt_token_ids": ids, **ASKED["to its end"]}
    whole = server.ask("/v1/generate", body | {"speculation": "off", "cache": False})["token_ids"]
    stop = whole[10]
    cut = server.ask("/v1/generate", body | {"stop_token_ids": [stop], "ignore_eos": True})
    assert cut["token_ids"] == whole[:whole.index(stop) + 1]
    assert (cut["stop_reason"], cut["finish_reason"]) == (stop, "stop")


def test_requests_are_cancelled_while_they_run_and_while_they_wait(server):
    def start(name, stream=False):
        body = LONG | {"prompt_token_ids": [1, 2, 3], "request_id": name}
        thread = threading.Thread(target=lambda: ends.update(
            {name: streamed(server, body)[0] if stream else server.ask("/v1/generate", body)}))
        thread.start()
        return thread

    ends = {}
    threads = [start("one"), start("two", stream=True)]
    server.wait_for_requests(2)
    threads.append(start("three"))
    server.wait_for_requests(2, queued=1)
    for name in ("three", "two", "one"):
        assert server.ask(f"/v1/generate/{name}/cancel", {}) == {"id": name, "cancelled": True}
    for thread in threads:
        thread.join()
    for name in ("one", "two", "three"):
        assert ends[name]["finish_reason"] == "cancelled", ends[name]
    assert len(ends["one"]["token_ids"]) == ends["one"]["usage"]["completion_tokens"] > 0, ends["one"]["usage"]
    assert ends["three"]["token_ids"] == []
    status, answer = server.status("/v1/generate/one/cancel", {})
    assert (status, answer["error"]["code"]) == (404, "request_not_found"), answer
    server.wait_for_requests(0)
