"""What programs with a user interface send while they are set up and used, step by step, and what they read of the answers:
Home Assistant, Open WebUI, Obsidian's Copilot and Smart Connections, GitHub Copilot in VS Code. The bodies and headers are those
that their sources make (2026)."""

import asyncio
import datetime
import http.client
import json
import os

import ollama
import pytest

from harness import clients, paths
from harness.waiting import wait_for

NAME = os.path.basename(paths.MODEL)
TAGGED = f"{NAME}:latest"
CAPITAL = "What is the capital of France?"
WEATHER = "What is the weather in Paris?"
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "The weather in a city", "parameters": PARAMETERS}}
OBSIDIAN = {"Origin": "app://obsidian.md"}


@pytest.fixture(scope="module")
def server(serve_for_all):
    return serve_for_all("--context", "4096", "--pooling", "last", "--offline")


def lines(server, path, body, headers=None):
    """The objects of a stream of lines. body: JSON, or bytes as they are."""
    with server.open(path, body, headers=headers) as response:
        assert response.status == 200 and response.getheader("Content-Type") == "application/x-ndjson", response.read()
        return [json.loads(line) for line in response if line.strip()]


def content(parts):
    return "".join(part["message"]["content"] for part in parts)


# --- Home Assistant, its integration "Ollama": the ollama package, asynchronously.

ENTITIES = {"type": "function", "function": {"name": "HassTurnOn", "description": "Turns on a device", "parameters": {
    "type": "object", "required": [], "properties": {
        "name": {"type": "string"}, "domain": {"type": "array", "items": {"type": "string"}},
        "device_class": {"type": "array", "items": {"type": "string", "enum": ["outlet", "switch"]}}}}}}


async def home_assistant_turn(client, messages, **more):
    """One request as the integration makes it; the message that it adds to its history."""
    message = {"role": "assistant", "content": "", "thinking": None, "tool_calls": None}
    done = False
    async for part in await client.chat(model=TAGGED, messages=list(messages), stream=True, keep_alive=-1, options={"num_ctx": 8192},
                                        **({"think": False, "format": None, "tools": None} | more)):
        assert not done, "something after the end"
        told, done = part["message"], part["done"]
        message["content"] += told.get("content") or ""
        if told.get("tool_calls"):
            message["tool_calls"] = [*(message["tool_calls"] or []), *told["tool_calls"]]
    assert done
    messages.append(ollama.Message(**message))
    return messages[-1]


def test_home_assistant(server):
    async def sequence():
        client = ollama.AsyncClient(host=server.root)
        listed = {model["model"] for model in (await client.list())["models"]}  # the form of a new entry
        assert TAGGED in listed, "it would be downloaded"
        system = ollama.Message(role="system", content="You are a voice assistant for Home Assistant.\nAnswer in plain text.")
        messages = [system, ollama.Message(role="user", content=WEATHER)]
        asked = await home_assistant_turn(client, messages, tools=[TOOL, ENTITIES])
        call = asked.tool_calls[0].function
        assert call.name == "get_weather" and call.arguments == {"city": "Paris"}
        messages.append(ollama.Message(role="tool", content=json.dumps({"data": {"weather": "sunny"}, "error": None})))
        assert (await home_assistant_turn(client, messages, tools=[TOOL, ENTITIES])).content
        messages.append(ollama.Message(role="user", content=CAPITAL))
        assert "Paris" in (await home_assistant_turn(client, messages)).content
        # Its history is cut without regard to what belongs together: a result whose call is gone comes first.
        cut = [system, messages[3], messages[4], ollama.Message(role="user", content=CAPITAL)]
        assert cut[1].role == "tool"
        assert (await home_assistant_turn(client, cut)).content
        # A task with a form ("ai_task.generate_data").
        form = {"type": "object", "properties": {"city": {"type": "string"}, "sunny": {"type": "boolean"}}, "required": ["city", "sunny"]}
        data = await home_assistant_turn(client, [ollama.Message(role="user", content="It is sunny in Paris.")], format=form)
        assert set(json.loads(data.content)) == {"city", "sunny"}
    asyncio.run(sequence())


# --- Open WebUI, with a connection of each kind.

def test_open_webui_with_ollama_s_api(serve):
    server = serve("--context", "4096", "--pooling", "last", "--offline")
    json_type = {"Content-Type": "application/json"}
    assert server.ask("/api/version")["version"]  # "Verify connection"
    models = {model["model"]: model for model in server.ask("/api/tags", headers=json_type)["models"]}
    assert TAGGED in models and models[TAGGED]["name"] == TAGGED and models[TAGGED]["details"]["family"]
    loaded = server.ask("/api/ps", headers=json_type)["models"]
    assert loaded[0]["name"] in models and datetime.datetime.fromisoformat(loaded[0]["expires_at"]).timestamp() > 0
    history = [{"role": "user", "content": CAPITAL}]
    parts = lines(server, "/api/chat", {"model": TAGGED, "messages": history, "stream": True, "options": {"temperature": 0}})
    assert "Paris" in content(parts) and [part["done"] for part in parts] == [False] * (len(parts) - 1) + [True]
    end = parts[-1]
    assert end["done_reason"] == "stop" and end["total_duration"] >= end["eval_duration"] > 0 < end["prompt_eval_count"] and end["eval_count"] > 0
    assert end["load_duration"] >= 0 and end["prompt_eval_duration"] >= 0
    # The title, follow-ups and tags: a whole answer to a prompt that holds the conversation.
    title = server.ask("/api/chat", {"model": TAGGED, "stream": False, "options": {"num_predict": 50, "temperature": 0},
                                     "messages": [{"role": "user", "content": f"### Task:\nGenerate a title as JSON.\nUSER: {CAPITAL}"}]})
    assert title["done"] and title["message"]["role"] == "assistant" and isinstance(title["message"]["content"], str)
    called = lines(server, "/api/chat", {"model": TAGGED, "stream": True, "tools": [TOOL], "messages": [{"role": "user", "content": WEATHER}]})
    calls = [call for part in called for call in part["message"].get("tool_calls", [])]
    assert [call["function"] | {"index": 0} for call in calls] == [{"name": "get_weather", "arguments": {"city": "Paris"}, "index": 0}]
    vectors = server.ask("/api/embed", {"input": ["A river", "A boat"], "model": TAGGED})["embeddings"]
    assert len(vectors) == 2 and vectors[0] != vectors[1]
    details = server.ask("/api/show", {"model": TAGGED})
    assert details["details"] and details["model_info"] and "completion" in details["capabilities"]
    # The button that unloads a model.
    assert server.ask("/api/generate", {"model": TAGGED, "keep_alive": 0, "prompt": ""})["done"]
    wait_for(lambda: server.ask("/api/ps")["models"] == [], "no loaded model")
    assert TAGGED in {model["model"] for model in server.ask("/api/tags")["models"]}


def test_open_webui_with_openai_s_api(serve):
    server = serve("--context", "4096", "--pooling", "last", "--api-key", "secret")
    bearer = {"Authorization": "Bearer secret", "X-OpenWebUI-User-Name": "Ada"}
    status, error = server.status("/v1/models", headers={"Authorization": "Bearer wrong"})  # "Verify connection"
    assert status == 401 and error["error"]["message"]
    assert NAME in [model["id"] for model in server.ask("/v1/models", headers=bearer)["data"]]
    body = {"model": NAME, "stream": True, "messages": [{"role": "user", "content": CAPITAL}], "stream_options": {"include_usage": True}}
    events = server.events("/v1/chat/completions", body, headers=bearer)
    text = "".join(event["choices"][0]["delta"].get("content") or "" for event in events if event["choices"])
    assert "Paris" in text and events[-1]["usage"]["completion_tokens"] > 0
    followed = body["messages"] + [{"role": "assistant", "content": text}, {"role": "user", "content": WEATHER}]
    events = server.events("/v1/chat/completions", body | {"messages": followed, "tools": [TOOL]}, headers=bearer)
    calls = [call for event in events for choice in event["choices"] for call in choice["delta"].get("tool_calls", [])]
    assert calls[0]["index"] == 0 and calls[0]["id"] and calls[0]["function"]["name"] == "get_weather"
    assert json.loads("".join(call["function"].get("arguments", "") for call in calls)) == {"city": "Paris"}
    assert events[-2]["choices"][0]["finish_reason"] == "tool_calls"
    title = server.ask("/v1/chat/completions", body | {"stream": False, "max_completion_tokens": 60} | {"stream_options": None}, headers=bearer)
    assert title["choices"][0]["message"]["content"]
    vectors = server.ask("/v1/embeddings", {"input": ["A river", "A boat"], "model": NAME}, headers=bearer)["data"]
    assert [one["index"] for one in vectors] == [0, 1] and len(vectors[0]["embedding"]) == len(vectors[1]["embedding"]) > 100
    # The user stops an answer: the connection is closed.
    connection = server.connect()
    with server.open("/v1/chat/completions", body | {"messages": [{"role": "user", "content": "Count to 1000."}], "ignore_eos": True},
                     headers=bearer, connection=connection) as response:
        assert clients.next_event(response)
    connection.close()
    wait_for(lambda: server.health(key="secret")["engine"]["running"] == 0, "the answer that was left to end")


# --- Obsidian: plugins are pages of app://obsidian.md. Obsidian's own requestUrl() sends no Origin.

def preflight(server, path, headers):
    with server.open(path, method="OPTIONS", headers=OBSIDIAN | {
            "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": headers}) as response:
        response.read()
        allowed = {name.strip() for name in response.getheader("Access-Control-Allow-Headers").lower().split(",")}
        return response.status == 204 and response.getheader("Access-Control-Allow-Origin") == OBSIDIAN["Origin"] and \
            allowed >= set(headers.split(","))


def test_obsidian_copilot(server):
    # "Verify" and the chat, through the openai package for browsers.
    assert preflight(server, "/v1/chat/completions", "authorization,content-type,x-stainless-arch,x-stainless-lang,x-stainless-os,"
                     "x-stainless-package-version,x-stainless-retry-count,x-stainless-runtime,x-stainless-runtime-version,x-stainless-timeout")
    headers = OBSIDIAN | {"Authorization": "Bearer default-key", "x-stainless-lang": "js"}
    ping = server.ask("/v1/chat/completions", {"model": NAME, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 10,
                                               "temperature": 0.1, "seed": 1, "stream": False}, headers=headers)
    assert ping["choices"][0]["message"]["role"] == "assistant"
    body = {"model": NAME, "temperature": 0.1, "seed": 1, "max_tokens": 1000, "stream": True, "stream_options": {"include_usage": True},
            "messages": [{"role": "system", "content": "You are Obsidian Copilot."}, {"role": "user", "content": CAPITAL}]}
    with server.open("/v1/chat/completions", body, headers=headers) as response:
        assert response.getheader("Access-Control-Allow-Origin") == OBSIDIAN["Origin"]
        text = "".join(event["choices"][0]["delta"].get("content") or "" for event in clients.events(response) if event["choices"])
    assert "Paris" in text
    # The index of the vault.
    data = server.ask("/v1/embeddings", {"model": NAME, "input": ["A note", "Another one"], "encoding_format": "float"}, headers=headers)["data"]
    assert [len(one["embedding"]) > 100 for one in data] == [True, True]
    # The provider "Ollama" asks for the lines itself.
    assert preflight(server, "/api/chat", "authorization,content-type")
    parts = lines(server, "/api/chat", {"model": NAME, "stream": True, "options": {"temperature": 0.1, "seed": 1, "num_predict": 1000},
                                        "messages": body["messages"]}, OBSIDIAN | {"Authorization": "Bearer default-key"})
    assert "Paris" in content(parts) and parts[-1]["done"] and parts[-1]["eval_count"] > 0


def request(server, path, body, headers):
    """Sends exactly these headers; the answer's status and JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=clients.TIMEOUT)
    connection.request("POST", path, json.dumps(body), headers)
    response = connection.getresponse()
    return response.status, json.loads(response.read())


def test_obsidian_smart_connections(server):
    models = server.ask("/api/tags", headers={"Authorization": "Bearer na"})["models"]
    status, shown = request(server, "/api/show", {"model": models[0]["name"]}, {})  # requestUrl() names no type
    assert status == 200
    assert next(value for key, value in shown["model_info"].items() if ".context_length" in key) == 4096
    assert next(value for key, value in shown["model_info"].items() if "embedding_length" in key) > 100
    # A chat comes from the page, as a text without a type: the browser calls it text/plain and asks nothing before.
    chat = {"model": models[0]["name"], "stream": True, "options": {"num_predict": 3000},
            "messages": [{"role": "user", "content": CAPITAL}]}
    typed = OBSIDIAN | {"Content-Type": "text/plain;charset=UTF-8"}
    parts = lines(server, "/api/chat", chat, typed)
    assert "Paris" in content(parts)
    assert ["done_reason" in part for part in parts] == [False] * (len(parts) - 1) + [True], "the field ends the stream"
    status, whole = request(server, "/api/chat", chat | {"stream": False}, {})
    assert status == 200 and whole["message"]["content"] == content(parts)
    for origin, refused in (("https://evil.example", 403), ("null", 403), ("file://", 403)):
        assert server.status("/api/chat", chat, headers=typed | {"Origin": origin})[0] == refused, origin
    vectors = server.ask("/api/embed", {"model": models[0]["name"], "input": ["A note", "Another one", "A third"]}, headers=OBSIDIAN)
    assert len(vectors["embeddings"]) == 3 and vectors["prompt_eval_count"] > 0
    # Its adapter for LM Studio.
    listed = server.ask("/v1/models", headers=OBSIDIAN)
    assert listed["object"] == "list" and listed["data"][0]["id"] == NAME
    answer = server.ask("/v1/chat/completions", {"model": NAME, "max_tokens": 3000, "stream": False, "tools": [TOOL], "tool_choice": "required",
                                                 "messages": [{"role": "user", "content": [{"type": "text", "text": WEATHER}]}]},
                        headers=OBSIDIAN | {"Authorization": "Bearer no api key required"})
    assert answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "get_weather"


# --- GitHub Copilot in VS Code with models of one's own.

COPILOT = {"Authorization": "Bearer undefined", "X-Request-Id": "5a4d4d9c-0000-4000-8000-000000000000", "X-Interaction-Type": "conversation-panel",
           "OpenAI-Intent": "conversation-panel", "X-GitHub-Api-Version": "2025-05-01", "User-Agent": "GitHubCopilotChat/0.33"}


def copilot_chat(server, messages, **more):
    """The message of a stream as Copilot puts it together, with its calls."""
    body = {"messages": messages, "model": TAGGED, "temperature": 0.1, "seed": 1, "top_p": 1, "n": 1, "stream": True, "stream_options": {"include_usage": True}}
    events = server.events("/v1/chat/completions", body | more, headers=COPILOT)
    assert events[-1]["choices"] == [] and events[-1]["usage"]["prompt_tokens"] > 0
    assert all(event["id"] == events[0]["id"] and event["model"] for event in events)
    text, calls, finish = "", {}, None
    for choice in (event["choices"][0] for event in events if event["choices"]):
        text += choice["delta"].get("content") or ""
        for call in choice["delta"].get("tool_calls", []):
            known = calls.setdefault(call["index"], {"id": call.get("id"), "type": "function", "function": {"name": "", "arguments": ""}})
            for key in known["function"]:
                known["function"][key] += call["function"].get(key, "")
        finish = choice["finish_reason"] or finish
    return {"role": "assistant", "content": text, "tool_calls": [calls[index] for index in sorted(calls)]}, finish


def test_github_copilot_with_ollama(server):
    assert tuple(map(int, server.ask("/api/version")["version"].split("."))) >= (0, 6, 4)
    model = server.ask("/api/tags")["models"][0]["model"]
    info = server.ask("/api/show", {"model": model})
    assert info["model_info"]["general.basename"] == NAME, "what people see"
    assert info["model_info"][info["model_info"]["general.architecture"] + ".context_length"] == 4096
    assert "tools" in info["capabilities"] and "vision" not in info["capabilities"]
    breakpoint_ = {"copilot_cache_control": {"type": "ephemeral"}}
    messages = [{"role": "system", "content": "You are an expert AI programming assistant."} | breakpoint_,
                {"role": "user", "content": [{"type": "text", "text": "<attachments>none</attachments>"}, {"type": "text", "text": WEATHER}]} | breakpoint_]
    tools = [TOOL, {"type": "function", "function": {"name": "list_terminals", "description": "Lists terminals", "parameters": {
        "type": "object", "properties": {}}}}]
    asked, finish = copilot_chat(server, messages, tools=tools)
    assert finish == "tool_calls" and asked["tool_calls"][0]["id"]
    assert json.loads(asked["tool_calls"][0]["function"]["arguments"]) == {"city": "Paris"}
    messages += [asked | {"cot_id": "cot_1", "cot_summary": "It wants the weather."},
                 {"role": "tool", "tool_call_id": asked["tool_calls"][0]["id"], "content": [{"type": "text", "text": "Sunny."}]} | breakpoint_]
    answered, finish = copilot_chat(server, messages, tools=tools)
    assert finish == "stop" and answered["content"] and not answered["tool_calls"]
    # The title of the conversation, and a stream without tools.
    told, _ = copilot_chat(server, [{"role": "user", "content": CAPITAL}])
    assert "Paris" in told["content"]


def copilot_response(server, items, **more):
    """The last event of a stream. Copilot reads the data of every event as JSON, so there is no [DONE]."""
    body = {"model": NAME, "input": items, "stream": True, "store": True, "truncation": "disabled", "include": ["reasoning.encrypted_content"],
            "tools": [{"name": "get_weather", "description": "The weather in a city", "parameters": PARAMETERS, "type": "function", "strict": False}],
            "reasoning": {"effort": "medium", "summary": "auto"}, "text": {"verbosity": "medium"}, "max_output_tokens": 400} | more
    with server.open("/v1/responses", body, headers=COPILOT) as response:
        assert response.status == 200, response.read()
        told = response.read().decode()
    assert "[DONE]" not in told
    events = [json.loads(line[6:]) for line in told.splitlines() if line.startswith("data: ")]
    assert events[-1]["type"] == "response.completed" and events[-1]["response"]["id"].startswith("resp_")
    return events[-1]["response"]


def said(text):
    return {"role": "user", "content": [{"type": "input_text", "text": text}]}


def test_github_copilot_with_a_custom_endpoint(server):
    told, _ = copilot_chat(server, [{"role": "user", "content": CAPITAL}], model=NAME, temperature=None, max_completion_tokens=800)
    assert "Paris" in told["content"]
    first = copilot_response(server, [{"role": "system", "content": [{"type": "input_text", "text": "You help."}]}, said(WEATHER)])
    call = next(item for item in first["output"] if item["type"] == "function_call")
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "Sunny."}
    second = copilot_response(server, [result], previous_response_id=first["id"])
    assert any(item["type"] == "message" for item in second["output"]) and second["usage"]["output_tokens"] > 0
    # Without the earlier answers, the whole conversation; each assistant's message has the same id.
    status, error = server.status("/v1/responses", {"model": NAME, "input": [result], "previous_response_id": "resp_none"}, headers=COPILOT)
    assert status in (400, 404) and error["error"]["code"] == "previous_response_not_found"
    old = {"role": "assistant", "content": [{"type": "output_text", "text": "Hello!", "annotations": []}], "id": "msg_123", "status": "completed",
           "type": "message"}
    thought = [item | {"summary": []} for item in first["output"] if item["type"] == "reasoning"]
    copilot_response(server, [said("Hi"), old, said(WEATHER), *thought, {key: call[key] for key in ("type", "name", "arguments", "call_id")},
                              result, old, said(CAPITAL)])
