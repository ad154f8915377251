"""Conversations that hold what another program has stored: files that this model cannot read, halves of characters, references, old turns."""

import pytest

from harness import clients

PDF = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQK"}}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABh6FO1AAAAABJRU5ErkJggg=="
HI = {"role": "user", "content": "Hi"}
SEEN = {"role": "assistant", "content": "I see."}


@pytest.fixture(scope="module")
def server(serve_for_all):
    return serve_for_all("--context", "2048", "--threads", "2", "--thinking", "off", "--pooling", "last")


def prompt(server, messages, **more):
    return server.ask("/apply-template", {"messages": messages} | more)["prompt"]


def statuses(server, path, *bodies):
    return [server.status(path, body)[0] for body in bodies]


def test_anthropic_files(server):
    use = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "a.pdf"}}]}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "PDF file read: a.pdf (2.7MB)"}
    beside = [PDF, {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}}, {"type": "document", "source": {"type": "file", "file_id": "f"}},
              {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}, {"type": "image", "source": {"type": "file", "file_id": "f"}},
              {"type": "container_upload", "file_id": "f"}, {"type": "no_type_of_today"}]
    def body(*messages):
        return {"max_tokens": 2, "messages": list(messages)}
    for block in beside:
        turn = {"role": "user", "content": [result, block]}
        separate = [{"role": "user", "content": [result]}, {"role": "user", "content": [block]}]
        alone = {"role": "user", "content": [block]}
        assert statuses(server, "/v1/messages", body(HI, use, turn), body(HI, use, turn, SEEN, HI), body(HI, use, *separate),
                        body(alone, SEEN, HI)) == [200] * 4, block
        assert statuses(server, "/v1/messages/count_tokens", body(HI, use, turn)) == [200]
        assert statuses(server, "/v1/messages", body(alone), body(HI, SEEN, alone), body(alone, SEEN)) == [400] * 3, block


def test_kept_messages_of_other_forms(server):
    """Answers as other clients keep them; asked about now, a user's message without content is an error."""
    kept = [{"role": "assistant", "audio": {"id": "audio_1"}, "content": None}, {"role": "assistant", "content": {"answer": 4}},
            {"role": "assistant", "content": [{"type": "output_text", "text": "Paris it is"}]}]
    for message in kept:
        assert statuses(server, "/v1/chat/completions", {"max_tokens": 2, "messages": [HI, message, HI]}) == [200], message
    assert "Paris it is" in prompt(server, [HI, kept[2], HI]) and '{"answer":4}' in prompt(server, [HI, kept[1], HI]).replace(" ", "")
    assert statuses(server, "/v1/chat/completions", {"max_tokens": 2, "messages": [{"role": "user", "content": None}, SEEN, HI]},
                    {"max_tokens": 2, "messages": [HI, SEEN, {"role": "user", "content": None}]}) == [200, 400]


def test_files_of_other_apis(server):
    call = {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}
    result = {"role": "tool", "tool_call_id": "c", "content": "done"}
    for part in ({"type": "file", "file": {"file_id": "f"}}, {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}},
                 {"type": "image_url", "image_url": {"url": "data:image/png;base64," + PNG}}, {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}):
        user = {"role": "user", "content": [{"type": "text", "text": "See"}, part]}
        chats = [[user, SEEN, HI], [HI, call, result, user]]
        assert statuses(server, "/v1/chat/completions", *({"max_tokens": 2, "messages": chat} for chat in chats)) == [200, 200], part
        assert statuses(server, "/v1/chat/completions", {"max_tokens": 2, "messages": [user]}, {"max_tokens": 2, "messages": [HI, SEEN, user]}) == [400, 400]
        assert "not shown" in prompt(server, chats[0])
    for part in ({"type": "input_file", "file_id": "f"}, {"type": "input_audio", "data": ""}, {"type": "input_image", "file_id": "f"},
                 {"type": "input_image", "image_url": "data:image/png;base64," + PNG}):
        user = {"role": "user", "content": [{"type": "input_text", "text": "See"}, part]}
        done = [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}, {"type": "function_call_output", "call_id": "c", "output": "done"}]
        inputs = [[user, SEEN, HI], [HI, *done, user], [user], [HI, SEEN, user]]
        assert statuses(server, "/v1/responses", *({"max_output_tokens": 2, "input": one} for one in inputs)) == [200, 200, 400, 400], part
    picture = {"role": "user", "content": "See", "images": [PNG]}
    chats = [[picture, SEEN, HI], [HI, call, {"role": "tool", "tool_name": "f", "content": "done", "images": [PNG]}], [picture]]
    assert statuses(server, "/api/chat", *({"stream": False, "options": {"num_predict": 2}, "messages": chat} for chat in chats)) == [200, 200, 400]


def test_stored_images_for_a_model_of_text(server):
    """A conversation that another model has begun goes on."""
    items = [{"role": "user", "content": [{"type": "input_text", "text": "See "}, {"type": "input_image", "image_url": "data:image/png;base64," + PNG}]}, SEEN]
    conversation = server.ask("/v1/conversations", {"items": items})["id"]
    status, answer = server.status("/v1/responses", {"max_output_tokens": 2, "conversation": conversation, "input": "Hi"})
    assert status == 200, answer
    kept = server.ask(f"/v1/conversations/{conversation}/items?order=asc")["data"]
    assert kept[0]["content"][1]["type"] == "input_image", "it is kept for models that read images"
    assert server.status("/v1/responses", {"max_output_tokens": 2, "input": items[:1]})[0] == 400


def test_halves_of_characters(server):
    half, meant = rb"cut \ud83d here", "cut \ufffd here"
    bodies = {"/v1/chat/completions": rb'{"max_tokens":2,"messages":[{"role":"user","content":"%s"}]}',
              "/v1/completions": rb'{"max_tokens":2,"prompt":"%s"}', "/v1/messages": rb'{"max_tokens":2,"messages":[{"role":"user","content":"%s"}]}',
              "/v1/messages/count_tokens": rb'{"messages":[{"role":"user","content":"%s"}]}', "/v1/responses": rb'{"max_output_tokens":2,"input":"%s"}',
              "/api/chat": rb'{"stream":false,"options":{"num_predict":2},"messages":[{"role":"user","content":"%s"}]}',
              "/api/generate": rb'{"stream":false,"options":{"num_predict":2},"prompt":"%s"}', "/api/embed": rb'{"input":"%s"}',
              "/completion": rb'{"n_predict":2,"prompt":"%s"}', "/tokenize": rb'{"content":"%s"}', "/v1/conversations": rb'{"metadata":{"a":"%s"}}'}
    for path, body in bodies.items():
        assert statuses(server, path, body % half, body % rb"\ude00", body % rb"\ud83d\ude00") == [200] * 3, path
        assert statuses(server, path, body % b"\xed\xa0\xbd", body % rb"\ud83") == [400] * 2, path
    assert server.ask("/tokenize", bodies["/tokenize"] % half) == server.ask("/tokenize", {"content": meant})
    arguments = server.ask("/apply-template", rb'{"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"c","type":"function",'
                           rb'"function":{"name":"f","arguments":"{\"a\":\"\\ud83d\"}"}}]},{"role":"tool","tool_call_id":"c","content":"b"}]}')
    assert "\ufffd" in arguments["prompt"]


def test_references_to_items(server):
    def ask(*items, **more):
        return server.status("/v1/responses", {"max_output_tokens": 5, "input": list(items)} | more)
    first = ask({"role": "user", "content": "Say hi", "id": "mine"})[1]
    item = first["output"][-1]
    reference = {"type": "item_reference", "id": item["id"]}
    again = {"role": "user", "content": "Again"}
    status, whole = ask({"role": "user", "content": "Say hi"}, item, again)
    assert status == 200, whole
    for kind in (reference, {"id": item["id"]}, reference | {"type": None}):
        status, answer = ask({"type": "item_reference", "id": "mine"}, kind, again)
        assert status == 200 and answer["usage"]["input_tokens"] == whole["usage"]["input_tokens"], (kind, answer)
    kept = server.ask(f"/v1/responses/{answer['id']}/input_items")["data"]
    assert [one["type"] for one in kept] == ["message"] * 3 and kept[1] == item
    for unknown in ("msg_nosuch", item["id"][:-1], item["id"] + "x", "", "%"):
        status, error = ask({"type": "item_reference", "id": unknown}, again)
        assert status == 400 and error["error"]["param"] == "input[0].id", (unknown, error)
    unstored = ask({"role": "user", "content": "Say hi"}, store=False)[1]["output"][-1]
    assert ask({"type": "item_reference", "id": unstored["id"]}, again)[0] == 400


def test_references_are_those_of_the_key(serve, tmp_path):
    (tmp_path / "keys").write_text("ann first-key\nbob second-key\n")
    (tmp_path / "keys").chmod(0o600)
    server = serve("--context", "512", "--thinking", "off", "--api-key-file", tmp_path / "keys")
    body = {"max_output_tokens": 5, "input": "Hi"}
    item = server.ask("/v1/responses", body, key="first-key")["output"][-1]["id"]
    again = body | {"input": [{"type": "item_reference", "id": item}, HI]}
    assert server.status("/v1/responses", again, key="first-key")[0] == 200
    assert server.status("/v1/responses", again, key="second-key")[0] == 400


def test_a_stored_response_as_a_stream(server):
    tool = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}
    for more in ({}, {"tools": [tool], "tool_choice": "required"}):
        sent = server.events("/v1/responses", {"max_output_tokens": 100, "temperature": 0, "input": "Call f with 3.", "include": ["message.output_text.logprobs"]} | more)
        def told(events):
            """The events without the pieces of texts, which may be cut elsewhere."""
            return [(event["type"], event.get("item"), event.get("text"), event.get("arguments"), event.get("response", {}).get("output"))
                    for event in events if not event["type"].endswith(".delta")]
        path = f"/v1/responses/{sent[-1]['response']['id']}?stream=true"
        def stored(query=""):
            with server.open(path + query) as response:
                assert response.getheader("Content-Type").startswith("text/event-stream"), response.read()
                return list(clients.events(response))
        events = stored()
        assert told(events) == told(sent)
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        assert events[-1]["response"] == sent[-1]["response"]
        assert stored("&starting_after=3") == events[4:]
        assert server.status(path + "&starting_after=x")[0] == 400
        assert server.ask(path.replace("=true", "=false")) == server.ask(path.partition("?")[0])


def test_long_conversations_of_ollama(server):
    words = "word " * 1200
    system = {"role": "system", "content": "Be brief."}
    long = {"role": "user", "content": words}, {"role": "assistant", "content": words}
    def ask(*messages, **more):
        return server.status("/api/chat", {"stream": False, "options": {"num_predict": 2}, "messages": [system, *messages]} | more)
    for more, status in (({}, 200), ({"truncate": True}, 200), ({"truncate": None}, 200), ({"truncate": False}, 400)):
        assert ask(*long, HI, **more)[0] == status, more
    alone, shortened = ask(HI)[1], ask(*long, *long, HI)[1]
    assert shortened["prompt_eval_count"] == alone["prompt_eval_count"], "the system message and the last one stay"
    assert ask({"role": "user", "content": "word " * 3000})[0] == 400, "the last message cannot be left out"
    call = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}
    result = {"role": "tool", "tool_name": "f", "content": words}
    small = result | {"content": "done"}
    status, last = ask(HI, call, small)
    status, answer = ask(HI, *[call, result] * 3, call, small)
    assert status == 200 and answer["prompt_eval_count"] < 2048, answer
    status, response = server.status("/v1/responses", {"max_output_tokens": 2, "truncation": "auto", "input": [*long, HI]})
    assert status == 200, response


def test_embeddings_of_nothing(server):
    for given in ("", [], None):
        answer = server.ask("/api/embed", {"model": "default", "input": given})
        assert answer["embeddings"] == [], given
        assert server.ask("/api/embeddings", {"model": "default", "prompt": given or ""}) == {"embedding": []}
        assert server.status("/v1/embeddings", {"input": given})[0] == 400, given


def test_tokens_as_vllm_tells_them(server):
    text = "Hello world"
    plain = server.ask("/tokenize", {"content": text})["tokens"]
    answer = server.ask("/tokenize", {"prompt": text, "return_token_strs": True})
    assert answer["tokens"] == plain and answer["count"] == len(plain) and answer["max_model_len"] == 2048
    assert "".join(answer["token_strs"]) == text
    assert server.ask("/tokenize", {"prompt": ""})["tokens"] == server.ask("/tokenize", {"content": ""})["tokens"] == []
    chat = server.ask("/tokenize", {"messages": [HI]})
    assert server.ask("/detokenize", {"tokens": chat["tokens"]})["prompt"] == prompt(server, [HI])
    assert server.ask("/detokenize", {"tokens": plain}) == {"content": text, "prompt": text}
    shorter = server.ask("/tokenize", {"messages": [HI], "add_generation_prompt": False})
    assert shorter["count"] < chat["count"]
    info = server.ask("/tokenizer_info")
    assert info["eos_token"] == server.ask("/props")["eos_token"] and "messages" in info["chat_template"]
    for wrong in ({}, {"prompt": 3}, {"content": None}, {"messages": []}):
        assert server.status("/tokenize", wrong)[0] == 400, wrong


def test_allowed_and_custom_tools(server):
    def function(name):
        return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}}
    shell = {"type": "custom", "custom": {"name": "sh", "description": "runs a command", "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: WORD"}}}}
    tools = [function("f"), function("g"), shell]
    messages = [{"role": "user", "content": "Call f with 3."}]
    body = {"messages": messages, "max_tokens": 60, "temperature": 0, "tools": tools}
    def allowed(mode, *names):
        return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [{"type": "function", "function": {"name": name}} for name in names]}}
    call = server.ask("/v1/chat/completions", body | {"tool_choice": allowed("required", "g")})["choices"][0]["message"]["tool_calls"][0]
    assert call["function"]["name"] == "g"
    assert prompt(server, messages, tools=tools, tool_choice=allowed("auto", "f")) == prompt(server, messages, tools=tools[:1])
    for wrong in (allowed("required", "h"), allowed("some", "f"), {"type": "allowed_tools"}, {"type": "custom", "custom": {"name": "h"}}):
        assert server.status("/v1/chat/completions", body | {"tool_choice": wrong})[0] == 400, wrong
    chosen = body | {"tool_choice": {"type": "custom", "custom": {"name": "sh"}}}
    whole = server.ask("/v1/chat/completions", chosen)["choices"][0]["message"]["tool_calls"][0]
    assert whole["type"] == "custom" and whole["custom"]["name"] == "sh" and isinstance(whole["custom"]["input"], str) and "function" not in whole
    parts = [event["choices"][0]["delta"]["tool_calls"][0] for event in server.events("/v1/chat/completions", chosen) if event["choices"][0]["delta"].get("tool_calls")]
    assert parts[0]["type"] == "custom" and parts[0]["custom"] == {"name": "sh", "input": ""} and parts[0]["id"]
    assert "".join(part["custom"]["input"] for part in parts) == whole["custom"]["input"]
    text = prompt(server, [*messages, {"role": "assistant", "tool_calls": [whole | {"custom": {"name": "sh", "input": "ls -l"}}]},
                           {"role": "tool", "tool_call_id": whole["id"], "content": "a.txt"}], tools=tools)
    assert "ls -l" in text and "lark" in text
    assert server.status("/v1/chat/completions", body | {"tools": [{"type": "custom", "custom": {}}]})[0] == 400


def test_formats_that_say_the_same(server):
    grammar, schema = 'root ::= "yes" | "no"', {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    def ask(**fields):
        return server.status("/v1/chat/completions", {"messages": [HI], "max_tokens": 20, "temperature": 0} | fields)
    status, answer = ask(guided_grammar=grammar, structured_outputs={"grammar": grammar})
    assert status == 200 and answer["choices"][0]["message"]["content"] in ("yes", "no"), answer
    for same in ({"guided_json": schema, "structured_outputs": {"json": schema}}, {"guided_choice": ["a", "b"], "structured_outputs": {"choice": ["a", "b"]}},
                 {"guided_regex": "a+", "structured_outputs": {"regex": "a+"}}, {"response_format": {"type": "json_object"}, "structured_outputs": {"json_object": True}}):
        assert ask(**same)[0] == 200, same
    for other in ({"guided_grammar": grammar, "structured_outputs": {"grammar": 'root ::= "no"'}}, {"guided_json": schema, "structured_outputs": {"json": {}}},
                  {"guided_regex": "a+", "guided_grammar": "a+"}, {"response_format": {"type": "json_object"}, "guided_json": schema}):
        assert ask(**other)[0] == 400, other


def test_max_tokens_0_caches_the_prompt(server):
    body = {"max_tokens": 0, "system": "You are a careful helper. " * 40, "messages": [HI]}
    for thinking in ({}, {"thinking": {"type": "enabled", "budget_tokens": 1024}}):
        answer = server.ask("/v1/messages", body | thinking)
        assert answer["content"] == [] and answer["usage"]["output_tokens"] == 0 and answer["stop_reason"] == "max_tokens"
    assert server.ask("/v1/messages", body | {"max_tokens": 2})["usage"]["cache_read_input_tokens"] > 100
    events = server.events("/v1/messages", body)
    assert [event["type"] for event in events] == ["message_start", "message_delta", "message_stop"]
    assert server.status("/v1/messages", body | {"max_tokens": -1})[0] == 400
