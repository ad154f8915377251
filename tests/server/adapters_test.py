"""LoRA adapters with the real engine: they change answers, each request has its own, states are not mixed, and `generate` says
what the server says."""

import json
import os
import subprocess
import threading

import lora_adapter
import pytest
from harness import paths
from harness.clients import Refused

pytestmark = pytest.mark.any_model

FLAGS = ("--context", "2048", "--threads", "2", "--cache-ram", "128MB")
PROMPT = "Here is what we know of rivers and the sea. " * 50 + "The river"
NAMES = ("base", "poet", "pirate")


@pytest.fixture(scope="module")
def adapters(tmp_path_factory):
    folder = tmp_path_factory.mktemp("adapters")
    return {name: lora_adapter.write(folder / name, seed) for seed, name in enumerate(NAMES[1:])} | {"folder": str(folder)}


def flags_of(adapters):
    return [word for name in NAMES[1:] for word in ("--lora", f"{name}={adapters[name]}")]


@pytest.fixture
def server(serve, adapters):
    return serve(*FLAGS, "--cache-disk", "0", "--served-model-name", "base", *flags_of(adapters))


def complete(server, name, prompt=PROMPT, tokens=24, **more):
    """The answer's tokens, and how many of the prompt's were cached."""
    answer = server.ask("/completion", {"model": name, "prompt": prompt, "n_predict": tokens, "temperature": 0, "ignore_eos": True,
                                        "return_tokens": True} | more)
    return answer["tokens"], answer["timings"]["cache_n"]


def test_each_adapter_gives_its_own_answer(server):
    answers = {name: complete(server, name)[0] for name in NAMES}
    assert len({str(tokens) for tokens in answers.values()}) == 3, answers
    assert complete(server, "poet", cache_prompt=False)[0] == answers["poet"]
    whole = {"lora": [{"id": 0, "scale": 1}]}
    assert complete(server, "base", **whole)[0] == answers["poet"], "however it is chosen"
    assert complete(server, "base", lora=[{"id": 0, "scale": 0}])[0] == answers["base"]
    both = complete(server, "base", lora=[{"id": 0, "scale": 0.5}, {"id": 1, "scale": 0.5}])[0]
    assert both not in answers.values()
    listed = server.ask("/v1/models")["data"]
    assert [(one["id"], one.get("parent")) for one in listed[:3]] == [("base", None), ("poet", "base"), ("pirate", "base")]


def test_side_by_side_as_alone(server):
    alone = {name: complete(server, name, cache_prompt=False, tokens=48)[0] for name in NAMES}
    together, threads = {}, []

    def run(name, place):
        together[name, place] = complete(server, name, cache_prompt=False, tokens=48)[0]

    for place in range(2):
        threads += [threading.Thread(target=run, args=(name, place)) for name in NAMES]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == {(name, place): alone[name] for name in NAMES for place in range(2)}


def test_states_are_not_mixed(serve, adapters, tmp_path):
    server = serve(*FLAGS, "--cache-dir", tmp_path, "--cache-disk-worth", "0", "--served-model-name", "base", *flags_of(adapters))
    first = {}
    for name in NAMES:
        first[name], cached = complete(server, name)
        assert cached == 0, f"{name} took the states of another"
    for name in NAMES:
        again, cached = complete(server, name)
        assert again == first[name] and cached > 0, (name, cached)
    assert complete(server, "base", lora=[{"id": 0, "scale": 0.5}])[1] == 0, "another scale is another adapter"
    server.restart(15)
    for name in NAMES:
        again, cached = complete(server, name)
        assert again == first[name] and cached > 0, (name, cached)


def test_a_conversation_goes_on_with_its_adapter(server):
    ask = {"temperature": 0, "max_tokens": 40, "enable_thinking": False}
    said = {}
    for name in NAMES:
        messages = [{"role": "user", "content": "Tell me about rivers. " * 60}]
        first = server.ask("/v1/chat/completions", ask | {"model": name, "messages": messages})
        assert first["model"] == name
        text = first["choices"][0]["message"]["content"]
        said[name] = messages + [{"role": "assistant", "content": text}, {"role": "user", "content": "And the sea?"}]
    for name in NAMES:
        second = server.ask("/v1/chat/completions", ask | {"model": name, "messages": said[name]})
        plain = server.ask("/v1/chat/completions", ask | {"model": name, "messages": said[name], "cache": False})
        assert second["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
        assert second["choices"][0]["message"] == plain["choices"][0]["message"], name


def test_generate_says_the_same(server, adapters):
    ask = {"messages": [{"role": "user", "content": "What is a river?"}], "temperature": 0, "max_tokens": 30, "enable_thinking": False}
    flags = ["--temp", "0", "--max-tokens", "30", "--thinking", "off", "--context", "2048", "--threads", "2", "--no-cache", "--json"]
    for name in NAMES:
        lora = ["--lora", adapters[name]] if name in adapters else []
        done = subprocess.run([paths.PROGRAM, "generate", "-m", paths.MODEL, *lora, *flags, "What is a river?"], capture_output=True,
                              text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        told = server.ask("/v1/chat/completions", ask | {"model": name})["choices"][0]["message"]["content"]
        assert json.loads(done.stdout)["text"] == told, name


def test_loaded_and_unloaded_while_it_runs(serve, adapters):
    server = serve(*FLAGS, "--cache-disk", "0", "--served-model-name", "base", "--lora-dir", adapters["folder"])
    base = complete(server, "base")[0]
    server.ask("/v1/load_lora_adapter", {"lora_name": "p", "lora_path": "poet"})
    poet = complete(server, "p")[0]
    assert poet != base
    with pytest.raises(Refused, match="load_inplace"):
        server.ask("/v1/load_lora_adapter", {"lora_name": "p", "lora_path": "pirate"})
    server.ask("/v1/load_lora_adapter", {"lora_name": "p", "lora_path": "pirate", "load_inplace": True})
    assert complete(server, "p")[0] not in (poet, base)
    assert server.status("/v1/load_lora_adapter", {"lora_name": "x", "lora_path": "/etc"})[0] == 403
    server.ask("/lora-adapters", [{"id": 0, "scale": 1}])
    assert complete(server, "base")[0] == complete(server, "p")[0]
    server.ask("/lora-adapters", [])
    assert complete(server, "base")[0] == base
    server.ask("/v1/unload_lora_adapter", {"lora_name": "p"})
    assert complete(server, "p")[0] == base, "an unknown name means the model"
    assert [one["id"] for one in server.ask("/v1/models")["data"] if one.get("parent")] == []


def test_adapters_of_the_configuration(serve, adapters, tmp_path):
    file = tmp_path / "x.toml"
    file.write_text(f"[model.base]\npath = '{paths.MODEL}'\nlora = ['poet={adapters['poet']}']\n")
    server = serve(*FLAGS, "--cache-disk", "0", model=None, before=("--config", str(file)))
    listed = {one["id"]: one.get("parent") for one in server.ask("/v1/models")["data"]}
    assert listed["poet"] == "base", "before the model is loaded"
    poet, base = complete(server, "poet")[0], complete(server, "base")[0]
    assert poet != base
    server.ask("/v1/models/unload", {"model": "base"})
    assert complete(server, "poet")[0] == poet


def test_what_does_not_start(adapters, tmp_path):
    for flag, says in ((str(adapters["poet"]), "NAME=PATH"), ("x=" + str(tmp_path / "nothing"), "nothing"), ("=y", "empty")):
        done = subprocess.run([paths.PROGRAM, "serve", "-m", paths.MODEL, "--port", "0", "--lora", flag], capture_output=True, text=True,
                              timeout=600)
        assert done.returncode == 1 and says in done.stderr, (flag, done.stderr)
    done = subprocess.run([paths.PROGRAM, "generate", "-m", paths.MODEL, "--lora", str(tmp_path / "nothing"), "x"], capture_output=True,
                          text=True, timeout=600)
    assert done.returncode == 1 and "no such" in done.stderr, done.stderr


def test_the_name_of_a_stored_model_is_taken(adapters, tmp_path):
    """Requests would get that model."""
    stored = tmp_path / ".lmstudio/models/org"
    stored.mkdir(parents=True)
    (stored / "poet").symlink_to(paths.MODEL)
    for name, path, says in (("org/poet", adapters["poet"], "a model has this name"), ("org/pirate", tmp_path / "nothing", "no adapter at")):
        done = subprocess.run([paths.PROGRAM, "serve", "-m", paths.MODEL, "--port", "0", "--lora", f"{name}={path}"], capture_output=True,
                              text=True, timeout=600, env=os.environ | {"HOME": str(tmp_path)})
        assert done.returncode == 1 and name in done.stderr and says in done.stderr, (name, done.stderr)
