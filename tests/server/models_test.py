"""Several models in one server, as clients see it: swaps under load, loads that fail, idle models, settings of each model."""

import concurrent.futures
import json
import os
import shutil

import pytest

from harness import clients, needs, paths
from harness.server import Server
from harness.waiting import wait_for

CONFIGURATION = """
[model.large]
path = "{large}"
[model.small]
path = "{small}"
[model.warm]
path = "{small}"
temp = 3.0
max-thinking-tokens = 7
[model.missing]
path = "{folder}/missing"
[model.broken]
path = "{folder}/broken"
"""
PROMPTS = ["Once upon a time", "The river", "A letter from the harbour said that", "In winter"]


def told(answer):
    """What must be the same whenever the same is asked."""
    status, body = answer
    assert status == 200, body
    choice = body["choices"][0]
    return body["model"], choice["text"], choice["finish_reason"], choice["logprobs"]["token_logprobs"]


def stream(server, model, prompt, tokens):
    """The text of a whole stream."""
    text, finish, done = "", None, False
    with server.server.open("/v1/completions", {
            "model": model, "prompt": prompt, "max_tokens": tokens, "stream": True, "temperature": 5.0, "top_k": 0, "seed": 3,
            "break_loops": False}) as response:
        assert response.status == 200, response.read()
        while (data := clients.next_event(response)) is not None:
            done = data == b"[DONE]"
            if done:
                continue
            event = json.loads(data)
            assert "error" not in event, event
            assert event["model"] == model, event
            if event["choices"]:
                text += event["choices"][0]["text"]
                finish = event["choices"][0]["finish_reason"] or finish
    assert done and finish == "length", (done, finish)
    return text


class Models:
    """A server with the models of the configuration."""

    def __init__(self, folder, *flags):
        environment = {"HF_HUB_CACHE": f"{folder}/hub", "OLLAMA_MODELS": str(folder), "HOME": str(folder)}
        self.server = Server("--context", "2048", "--threads", "2", *flags, model=None, environment=environment, temp=None,
                             before=["--config", f"{folder}/models.toml"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.end()

    def ask(self, path, body=None):
        return self.server.status(path, body)

    def complete(self, model, prompt=PROMPTS[0], **fields):
        return self.ask("/v1/completions", {"model": model, "prompt": prompt, "max_tokens": 24, "temperature": 0,
                                            "logprobs": 0} | fields)

    def metric(self, name):
        return self.server.metrics().get(name)

    def states(self):
        return {model["id"]: model["state"] for model in self.ask("/v1/models")[1]["data"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    (folder / "models.toml").write_text(CONFIGURATION.format(large=paths.MODEL, small=paths.DRAFT, folder=folder))
    shutil.copytree(paths.DRAFT, folder / "broken")
    weights = folder / "broken" / "model.safetensors"
    os.truncate(weights, weights.stat().st_size // 2)
    return folder


def test_swaps_under_load_lose_and_change_nothing(folder):
    """8 streams of one model run while others name another; there is room for one. None is lost, none is wrong."""
    with Models(folder, "--model", "large", "--model-memory", "100MB", "--no-cache") as server:
        alone = {(model, prompt): stream(server, model, prompt, 60) for model in ("large", "small") for prompt in PROMPTS}
        before = server.metric('anabranch_model_loads_total{model="large",result="loaded"}')
        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            first = [pool.submit(stream, server, "large", PROMPTS[i % 4], 60) for i in range(8)]
            wait_for(lambda: server.metric('anabranch_requests_running{model="large"}'), "the first ones run")
            others = [pool.submit(stream, server, ("small", "large")[i % 2], PROMPTS[i % 4], 60) for i in range(12)]
            for i, future in enumerate(first):
                assert future.result() == alone["large", PROMPTS[i % 4]], i
            for i, future in enumerate(others):
                assert future.result() == alone[("small", "large")[i % 2], PROMPTS[i % 4]], i
        assert server.metric('anabranch_model_loads_total{model="large",result="loaded"}') > before
        assert server.metric('anabranch_model_unloads_total{model="large",reason="room"}') >= 1
        assert server.metric('anabranch_model_unloads_total{model="small",reason="room"}') >= 1


def test_a_failing_swap_leaves_the_old_model(folder):
    """A model that is not there, and one with damaged weights: the old one serves on, its streams too."""
    with Models(folder, "--model", "large", "--model-memory", "100MB", "--no-cache") as server:
        expected = told(server.complete("large"))
        text = stream(server, "large", PROMPTS[1], 100)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            running = pool.submit(stream, server, "large", PROMPTS[1], 100)
            for name, code in (("missing", "model_not_found"), ("broken", "model_not_loaded")):
                status, body = server.complete(name)
                assert body["error"]["code"] == code and name in body["error"]["message"], (status, body)
            assert running.result() == text
        assert told(server.complete("large")) == expected
        states = server.states()
        assert states["large"] == "loaded" and states["broken"] == states["missing"] == "unloaded", states
        assert server.metric('anabranch_model_unloads_total{model="large",reason="room"}') == 0
        assert server.metric('anabranch_model_loads_total{model="broken",result="failed"}') == 1


def test_idle_models_go_and_their_states_stay(folder):
    """An idle model is unloaded; asked again, it is loaded and goes on from its cached prefix."""
    with Models(folder, "--unload-after", "0.3", "--cache-dir", f"{folder}/states", "--cache-disk-worth", "0") as server:
        assert set(server.states().values()) == {"unloaded"}
        status, body = server.complete("")
        assert status == 404 and body["error"]["code"] == "model_not_found", body
        prompt = "Once upon a time there was a river. " * 30
        first = server.complete("small", prompt)
        wait_for(lambda: server.states()["small"] == "unloaded", server.states)
        assert server.metric('anabranch_model_unloads_total{model="small",reason="idle"}') == 1
        second = server.complete("small", prompt)
        assert told(first) == told(second)
        assert second[1]["usage"]["prompt_tokens_details"]["cached_tokens"] > 200, second[1]["usage"]


def test_each_model_has_its_settings(folder):
    """[model.NAME]'s sampling and thinking count for requests that say nothing; the command line's over them."""
    question = {"messages": [{"role": "user", "content": "What do 23 + 48 and 19 * 3 make together?"}], "max_tokens": 30}
    with Models(folder, "--no-cache") as server:
        texts = set()
        for seed in range(4):
            status, body = server.ask("/v1/chat/completions", question | {
                "model": "warm", "seed": seed, "top_k": 0, "top_p": 1.0, "enable_thinking": False})
            assert status == 200 and body["model"] == "warm", body
            texts.add(body["choices"][0]["message"]["content"])
        assert len(texts) == 4, texts
        status, body = server.ask("/v1/chat/completions", question | {"model": "warm", "enable_thinking": True})
        assert body["usage"]["completion_tokens_details"]["reasoning_tokens"] <= 30, body
        assert body["anabranch"]["cut"] == "thinking_budget", body
    with Models(folder, "--no-cache", "--temp", "0") as server:
        same = {server.ask("/v1/chat/completions", question | {"model": "warm", "seed": seed, "enable_thinking": False})
                [1]["choices"][0]["message"]["content"] for seed in range(3)}
        assert len(same) == 1, same


def test_load_pin_and_unload(folder):
    """What clients ask for: a pinned model stays, an unloaded one gives its memory back."""
    with Models(folder, "--model", "large", "--model-memory", "100MB", "--no-cache") as server:
        def resident():
            return server.metric("process_resident_memory_bytes")

        assert server.ask("/v1/models/load", {"model": "large", "pin": True})[1]["pinned"]
        assert server.complete("small")[1]["error"]["code"] == "model_not_loaded"
        before = resident()
        assert server.ask("/v1/models/unload", {"model": "large"}) == (200, {"id": "large", "state": "unloaded"})
        assert needs.SANITIZED or resident() < before - 60e6, (before, resident())  # a sanitizer keeps what is freed
        assert server.complete("small")[0] == 200
        assert server.complete("any name")[1]["model"] == "large"  # it comes back for names that no model has


def test_models_come_and_go_without_leaks(folder):
    """30 swaps: memory does not grow, every answer is right. A sanitizer keeps what is freed, and sees leaks itself."""
    with Models(folder, "--model-memory", "100MB", "--no-cache") as server:
        expected = {model: told(server.complete(model)) for model in ("large", "small")}
        sizes = []
        for i in range(6 if needs.SANITIZED else 30):
            model = ("large", "small")[i % 2]
            assert told(server.complete(model)) == expected[model], i
            if model == "small":
                sizes.append(server.metric("process_resident_memory_bytes"))
        assert needs.SANITIZED or max(sizes[-5:]) < sizes[2] + 25e6, sizes


def test_clients_that_leave_while_a_model_loads(folder):
    """They are forgotten, and the model serves those who stay."""
    with Models(folder, "--no-cache") as server:
        for _ in range(10):
            connection = server.server.connect()
            connection.request("POST", "/v1/completions", json.dumps({"model": "large", "prompt": "A"}),
                               {"Content-Type": "application/json"})
            connection.close()
        assert server.complete("large")[0] == 200
        wait_for(lambda: not server.metric('anabranch_requests_running{model="large"}'), "none of them runs any more")
