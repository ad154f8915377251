#!/usr/bin/env python3
"""Conversations of the official OpenAI client: items, pages, answers, tools, a restart. conversations_test.py BINARY MODEL_DIR
The last line is "N passed, N failed"."""
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import time
import traceback

import openai

BINARY, MODEL = sys.argv[1:3]
TOOL = {"type": "function", "name": "get_weather", "description": "The weather of a city", "strict": True,
        "parameters": {"type": "object", "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}}, "required": ["city"],
                       "additionalProperties": False}}
WEATHER = """
    from mcp.server.mcpserver import MCPServer
    app = MCPServer("weather")
    @app.tool()
    def get_weather(city: str) -> str:
        "The weather of a city"
        return f"It is sunny in {city}."
    app.run()
"""


class Server:
    def __init__(self, folder):
        script, config = os.path.join(folder, "weather.py"), os.path.join(folder, "mcp.json")
        with open(script, "w") as file:
            file.write(textwrap.dedent(WEATHER))
        with open(config, "w") as file:
            json.dump({"mcpServers": {"weather": {"command": sys.executable, "args": [script]}}}, file)
        self.command = [BINARY, "serve", "--model", MODEL, "--port", "0", "--mcp-config", config,
                        "--sessions", os.path.join(folder, "sessions"), "--cache-dir", os.path.join(folder, "states")]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        base = self.process.stdout.readline().split(" on ")[-1].strip()
        self.client = openai.OpenAI(base_url=base, api_key="x", max_retries=0, timeout=60)
        self.conversations = self.client.conversations

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def ask(self, conversation, what, **more):
        fields = {"temperature": 0, "max_output_tokens": 40, "reasoning": {"effort": "none"}} | more
        return self.client.responses.create(model="default", input=what, conversation=conversation, **fields)

    def items(self, conversation):
        """All items, the first one first, which the client reads page by page."""
        return list(self.conversations.items.list(conversation, order="asc", limit=2))


def kinds(items):
    return [item.type for item in items]


def not_found(work):
    try:
        work()
    except openai.NotFoundError as error:
        return error.code
    raise AssertionError("it was found")


def test_made_changed_and_removed(server):
    made = server.conversations.create(metadata={"topic": "rivers"}, items=[{"role": "user", "content": "Hello."}])
    assert made.id.startswith("conv_") and made.object == "conversation" and made.metadata == {"topic": "rivers"}
    assert server.conversations.retrieve(made.id) == made
    assert server.conversations.update(made.id, metadata={"topic": "lakes"}).metadata == {"topic": "lakes"}
    gone = server.conversations.delete(made.id)
    assert gone.deleted and gone.object == "conversation.deleted" and gone.id == made.id
    assert not_found(lambda: server.conversations.retrieve(made.id)) == "conversation_not_found"
    assert not_found(lambda: server.ask(made.id, "Hello.")) == "conversation_not_found"


def test_items(server):
    id = server.conversations.create().id
    assert server.items(id) == []
    texts = ["one", "two", "three", "four", "five"]
    added = server.conversations.items.create(id, items=[{"type": "message", "role": "user", "content": text} for text in texts])
    assert [item.content[0].text for item in added.data] == texts and added.first_id == added.data[0].id
    assert server.items(id) == added.data
    last = server.conversations.items.list(id, limit=2)
    assert [item.content[0].text for item in last.data] == ["five", "four"] and last.has_more and last.last_id == added.data[3].id
    assert server.conversations.items.retrieve(added.data[1].id, conversation_id=id) == added.data[1]
    assert not_found(lambda: server.conversations.items.retrieve("msg_0", conversation_id=id)) == "item_not_found"
    assert server.conversations.items.delete(added.last_id, conversation_id=id).id == id
    assert server.items(id) == added.data[:-1]


def test_answers_go_on(server):
    id = server.conversations.create(items=[{"role": "user", "content": "My name is Ann."}, {"role": "assistant", "content": "Hello, Ann."}]).id
    first = server.ask(id, "Name three rivers.")
    second = server.ask({"id": id}, "And three lakes.", stream=True)
    text = "".join(event.delta for event in second if event.type == "response.output_text.delta")
    items = server.items(id)
    said = [(item.role, item.content[0].text) for item in items]
    assert first.conversation.id == id
    assert said == [("user", "My name is Ann."), ("assistant", "Hello, Ann."), ("user", "Name three rivers."), ("assistant", first.output_text),
                    ("user", "And three lakes."), ("assistant", text)], said
    # The same answer as to a client that sends everything.
    kept = [item.model_dump(exclude_none=True) for item in items]
    whole = server.ask(None, kept[:-1])
    assert whole.output_text == text


def test_thoughts(server):
    id = server.conversations.create().id
    answer = server.ask(id, "Why is the sky blue?", reasoning={"effort": "low"}, max_output_tokens=60)
    thought = next(item for item in answer.output if item.type == "reasoning")
    kept = next(item for item in server.items(id) if item.type == "reasoning")
    assert kept.content[0].text == thought.content[0].text


def test_functions(server):
    id = server.conversations.create().id
    answer = server.ask(id, "What is the weather in Paris?", tools=[TOOL], tool_choice="required")
    call = next(item for item in answer.output if item.type == "function_call")
    kept = server.items(id)[-1]
    assert (kept.type, kept.call_id, kept.name, json.loads(kept.arguments)) == ("function_call", call.call_id, call.name, json.loads(call.arguments))
    server.conversations.items.create(id, items=[{"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}])
    after = server.ask(id, [], tools=[TOOL])
    assert after.output_text and kinds(server.items(id))[-2:] == ["function_call_output", "message"]


def test_mcp(server):
    id = server.conversations.create().id
    tool = {"type": "mcp", "server_label": "weather", "require_approval": "never"}
    answer = server.ask(id, "What is the weather in Rome?", tools=[tool], tool_choice="required", max_output_tokens=100)
    ran = next(item for item in answer.output if item.type == "mcp_call")
    call = next(item for item in server.items(id) if item.type == "mcp_call")
    assert (call.server_label, call.name, call.output, call.status) == ("weather", ran.name, ran.output, "completed")
    assert json.loads(call.arguments) == json.loads(ran.arguments)


def test_approvals(server):
    id = server.conversations.create().id
    fields = {"tools": [{"type": "mcp", "server_label": "weather", "require_approval": "always"}], "max_output_tokens": 100}
    server.ask(id, "What is the weather in Oslo?", tool_choice="required", **fields)
    request = server.items(id)[-1]
    assert request.type == "mcp_approval_request" and request.server_label == "weather"
    decision = {"type": "mcp_approval_response", "approval_request_id": request.id}
    server.ask(id, [decision | {"approve": True}], **fields)
    call = next(item for item in server.items(id) if item.type == "mcp_call")
    assert call.approval_request_id == request.id and call.output == "It is sunny in Oslo."
    server.ask(id, "And in Bergen?", tool_choice="required", **fields)
    request = server.items(id)[-1]
    server.ask(id, [{"type": "mcp_approval_response", "approval_request_id": request.id, "approve": False, "reason": "not now"}], tool_choice="none",
               **fields)
    declined = [item for item in server.items(id) if item.type == "mcp_call"][-1]
    assert declined.approval_request_id == request.id and declined.status == "failed" and "not now" in str(declined.error)
    ids = [item.id for item in server.items(id)]
    assert len(set(ids)) == len(ids), ids


def test_restart(server):
    id = server.conversations.create(items=[{"role": "user", "content": "Name three rivers."}], metadata={"a": "b"}).id
    server.ask(id, [])
    before = server.items(id)
    server.stop()
    server.start()
    assert server.items(id) == before and server.conversations.retrieve(id).metadata == {"a": "b"}
    assert any(session["id"] == id for session in server.client.get("/sessions", cast_to=object)["data"])


def main():
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder)
        for name, test in list(globals().items()):
            if not name.startswith("test_"):
                continue
            begin = time.time()
            try:
                test(server)
                passed += 1
                print(f"ok     {name} ({time.time() - begin:.1f} s)")
            except Exception:
                failed += 1
                print(f"FAILED {name}")
                traceback.print_exc(file=sys.stdout)
        server.stop()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
