"""What operators and the programs of other servers' clients see of models: lists, unloading, keep_alive, contexts, who may ask."""

import json
import os
import shutil
import urllib.request

import pytest

from harness import paths
from harness.waiting import wait_for

CHAT = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
ANTHROPIC = {"anthropic-version": "2023-06-01"}
NAME = os.path.basename(paths.MODEL)


def model_of(server, name=NAME):
    return server.ask(f"/v1/models/{name}")


def unloaded(server):
    wait_for(lambda: model_of(server)["state"] == "unloaded", lambda: f"an unloaded model: {model_of(server)}")


def loads(server, name=NAME):
    return server.metrics()[f'anabranch_model_loads_total{{model="{name}",result="loaded"}}']


def names_in_lists(server):
    return [[model["id"] for model in server.ask("/v1/models")["data"]],
            [model["id"] for model in server.ask("/v1/models", headers=ANTHROPIC)["data"]],
            [model["name"].removesuffix(":latest") for model in server.ask("/api/tags")["models"]]]


@pytest.mark.parametrize("how", ["keep_alive", "--unload-after", "/v1/models/unload", "nobody asked"])
def test_an_unloaded_model_stays_known(serve, how):
    """A model given by its path is told in the same way, loaded or not, and comes back when it is asked."""
    server = serve("--context", "512", *(["--unload-after", "0.5"] if how in ("--unload-after", "nobody asked") else []))
    if how != "nobody asked":
        before, props = model_of(server), server.ask("/props")
        server.ask("/v1/chat/completions", CHAT)
    if how == "keep_alive":
        server.ask("/api/generate", {"model": NAME, "keep_alive": 0})
    if how == "/v1/models/unload":
        server.ask("/v1/models/unload", {"model": NAME})
    unloaded(server)
    assert names_in_lists(server) == [[NAME]] * 3
    assert server.ask("/v1/models")["data"][0] == model_of(server)
    if how != "nobody asked":
        assert model_of(server) == before | {"state": "unloaded"}
        assert server.ask("/props") == props | {"is_sleeping": True} != props
    assert server.ask("/api/ps")["models"] == []
    shown = server.ask("/api/show", {"model": paths.MODEL})
    assert shown["model_info"]["qwen3_5.context_length"] == 512
    assert server.ask("/v1/completions", {"model": paths.MODEL, "prompt": "a", "max_tokens": 1})["model"] == NAME
    assert loads(server) == 2


def test_keep_alive_is_of_one_request(serve):
    server = serve("--context", "512", "--pooling", "last")
    server.ask("/api/generate", {"model": NAME, "keep_alive": 0})
    unloaded(server)
    for _ in range(3):
        server.ask("/v1/chat/completions", CHAT)
    assert model_of(server)["state"] == "loaded" and loads(server) == 2
    for path, body in (("/api/chat", CHAT | {"stream": False, "options": {"num_predict": 2}}), ("/api/embed", {"input": "a"}),
                       ("/api/embeddings", {"prompt": "a"}), ("/api/embed", {"input": []}), ("/api/generate", {})):
        server.ask(path, {"model": NAME, "keep_alive": "20m"} | body)
        assert model_of(server)["unload_after_s"] == 1200, path
        server.ask("/v1/chat/completions", CHAT)
        assert model_of(server)["unload_after_s"] is None, path
    server.ask("/v1/models/load", {"model": NAME, "unload_after_s": 600})
    server.ask("/api/embed", {"model": NAME, "input": "a", "keep_alive": -1})
    assert model_of(server)["unload_after_s"] is None
    server.ask("/api/embed", {"model": NAME, "input": "a"})
    assert model_of(server)["unload_after_s"] == 600, "what the operator said counts again"
    status, body = server.status("/api/embed", {"model": NAME, "input": "a", "keep_alive": "soon"})
    assert status == 400 and "keep_alive" in body["error"]


def test_a_short_keep_alive_ends_a_long_wait(serve):
    """The timer of a request that may wait for long does not hide one that may not."""
    server = serve("--context", "512", "--unload-after", "3600")
    server.ask("/v1/chat/completions", CHAT)
    server.ask("/api/generate", {"model": NAME, "prompt": "Hi", "stream": False, "think": False, "keep_alive": 0.2, "options": {"num_predict": 2}})
    unloaded(server)


def test_names_have_a_tag(serve):
    """Home Assistant makes NAME:latest of NAME, looks for it in the list, and pulls it if it is not there."""
    server = serve("--context", "512", "--offline")
    name = f"{NAME}:latest"
    server.ask("/v1/chat/completions", CHAT)
    assert [model["name"] for model in server.ask("/api/tags")["models"]] == [name]
    assert [model["model"] for model in server.ask("/api/ps")["models"]] == [name]
    for asked in (NAME, name):
        assert server.ask("/api/pull", {"model": asked, "stream": False}) == {"status": "success"}
        assert server.ask("/api/chat", CHAT | {"model": asked, "stream": False, "options": {"num_predict": 1}})["done"]
    assert server.status("/api/pull", {"model": "no-such-model:latest", "stream": False})[0] >= 400


def test_the_context_is_the_one_that_is_served(serve, tmp_path):
    """Programs size their prompts by what /api/show tells, of configured models before they are loaded, too."""
    (tmp_path / "models.toml").write_text(f'[model.small]\npath = "{paths.DRAFT}"\ncontext = 768\n')
    server = serve("--context", "1024", before=["--config", f"{tmp_path}/models.toml"])
    def context(name):
        info = server.ask("/api/show", {"model": name})["model_info"]
        return next(value for key, value in info.items() if key.endswith(".context_length"))
    assert context(NAME) == model_of(server)["context_length"] == server.ask("/api/ps")["models"][0]["context_length"] == 1024
    assert context("small") == 768 and model_of(server, "small")["state"] == "unloaded"
    server.ask("/v1/models/load", {"model": "small"})
    assert context("small") == model_of(server, "small")["context_length"] == 768


def test_capabilities_of_embedding_models(serve, tmp_path):
    made = tmp_path / "embedder"
    shutil.copytree(paths.MODEL, made, symlinks=True)
    (made / "1_Pooling").mkdir()
    (made / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 576, "pooling_mode_lasttoken": True}))
    template = tmp_path / "plain.jinja"
    template.write_text("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:")
    def capabilities(*flags, model=paths.MODEL):
        server = serve("--context", "512", *flags, model=str(model))
        return server.ask("/api/show", {"model": "default"})["capabilities"]
    chat = ["completion", "tools", "thinking"]
    assert capabilities() == chat
    assert capabilities("--pooling", "last") == [*chat, "embedding"]
    assert capabilities(model=made) == ["embedding"]
    assert capabilities("--chat-template-file", template) == ["completion", "tools"]


def test_ollama_s_routes_embed_with_any_model(serve):
    """As Ollama does; OpenAI's route says how to allow it."""
    server = serve("--context", "512")
    vector = server.ask("/api/embed", {"model": "default", "input": "a"})["embeddings"][0]
    assert abs(sum(value * value for value in vector) - 1) < 1e-3
    status, error = server.status("/v1/embeddings", {"input": "a"})
    assert status == 400 and "--pooling" in error["error"]["message"]


def test_one_model_for_anthropic_s_clients(serve):
    server = serve("--context", "512", "--strict-model-names")
    listed = server.ask("/v1/models", headers=ANTHROPIC)["data"]
    assert [server.ask(f"/v1/models/{NAME}", headers=ANTHROPIC)] == listed
    assert listed[0]["type"] == "model" and "object" not in listed[0] and "type" not in model_of(server)
    status, error = server.status("/v1/models/nosuch", headers=ANTHROPIC)
    assert status == 404 and error["type"] == "error" and error["error"]["type"] == "not_found_error"
    assert server.status("/v1/models/nosuch")[1]["error"]["code"] == "model_not_found"
    assert server.status("/v1/models/unload", {}, headers=ANTHROPIC)[0] == 400


def preflight(server, path, origin, method):
    with server.open(path, method="OPTIONS", headers={"Origin": origin, "Access-Control-Request-Method": method,
                                                      "Access-Control-Request-Headers": "content-type,authorization"}) as response:
        response.read()
        return response.status, dict(response.getheaders())


def test_pages_may_use_each_route_s_methods(serve):
    """The preflight tells what the route takes, for every route of the description."""
    origin = "http://localhost:3000"
    server = serve("--context", "512", "--cors-origin", origin)
    for path, operations in server.ask("/openapi.json")["paths"].items():
        status, headers = preflight(server, path.replace("{id}", "x").replace("{item}", "y").replace("{item_id}", "y"), origin, "DELETE")
        allowed = headers["Access-Control-Allow-Methods"].split(", ")
        assert status == 204 and {method.upper() for method in operations} <= set(allowed), (path, allowed)
    assert "DELETE" not in preflight(server, "/v1/chat/completions", origin, "DELETE")[1]["Access-Control-Allow-Methods"]


def test_applications_may_read_answers(serve):
    server = serve("--context", "512")
    for origin in ("app://obsidian.md", "tauri://localhost", "vscode-webview://abc", "capacitor://localhost"):
        status, headers = preflight(server, "/v1/chat/completions", origin, "POST")
        assert status == 204 and headers["Access-Control-Allow-Origin"] == origin and "content-type" in headers["Access-Control-Allow-Headers"]
        with server.open("/v1/models", headers={"Origin": origin}) as response:
            assert response.status == 200 and response.getheader("Access-Control-Allow-Origin") == origin
            assert "Origin" in response.getheader("Vary")
    for origin in ("https://evil.example", "null", "file://", "blob:https://evil.example/1"):
        status, headers = preflight(server, "/v1/chat/completions", origin, "POST")
        assert status == 403 and "Access-Control-Allow-Origin" not in headers, origin


def test_types_of_bodies(serve):
    server = serve("--context", "512")
    body = json.dumps(CHAT | {"stream": False}).encode()
    def status(kind, **more):
        request = urllib.request.Request(server.root + "/api/chat", body, ({"Content-Type": kind} if kind else {}) | more)
        try:
            with urllib.request.urlopen(request) as response:
                return response.status
        except urllib.error.HTTPError as error:
            return error.code
    for kind in ("application/json", "application/octet-stream", "Application/Octet-Stream; charset=x", "application/x-www-form-urlencoded"):
        assert status(kind) == 200, kind
    for kind in ("text/plain", "text/plain;charset=UTF-8", "multipart/form-data"):
        assert status(kind) == 415, kind
    assert status("application/octet-stream", Origin="https://evil.example") == 403


MINIMA = {"codex --oss": (0, 13, 4), "programs of the Messages API": (0, 14, 0), "GitHub Copilot": (0, 6, 4), "Home Assistant": (0, 9, 0)}


def test_the_version_is_what_programs_ask_for(serve):
    version = tuple(map(int, serve("--context", "512").ask("/api/version")["version"].split(".")))
    assert not [program for program, least in MINIMA.items() if version < least], version


def test_connections_follow_the_requests(serve):
    """As many clients as may run or wait get in at once."""
    server = serve("--context", "512", "--parallel", "300", "--no-cache")
    sockets = [server.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n") for _ in range(360)]
    answers = [one.recv(12) for one in sockets]
    assert answers == [b"HTTP/1.1 200"] * len(sockets)
    for one in sockets:
        one.close()
