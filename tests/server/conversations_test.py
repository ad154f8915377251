"""Conversations of the official OpenAI client: items, pages, answers, tools, a restart."""

import json
import signal
import sys
import textwrap

import openai
import pytest

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


class Client:
    """OpenAI's client of a server with a tool."""

    def __init__(self, server):
        self.server = server
        self.connect()

    def connect(self):
        self.client = openai.OpenAI(base_url=self.server.v1, api_key="x", max_retries=0, timeout=300)
        self.conversations = self.client.conversations

    def ask(self, conversation, what, **more):
        fields = {"temperature": 0, "max_output_tokens": 40, "reasoning": {"effort": "none"}} | more
        return self.client.responses.create(model="default", input=what, conversation=conversation, **fields)

    def items(self, conversation):
        """All items, the first one first, which the client reads page by page."""
        return list(self.conversations.items.list(conversation, order="asc", limit=2))


@pytest.fixture(scope="module")
def client(serve_for_all, tmp_path_factory):
    folder = tmp_path_factory.mktemp("conversations")
    (folder / "weather.py").write_text(textwrap.dedent(WEATHER))
    config = folder / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"weather": {"command": sys.executable, "args": [str(folder / "weather.py")]}}}))
    return Client(serve_for_all("--mcp-config", config, "--sessions", folder / "sessions", "--cache-dir", folder / "states"))


def kinds(items):
    return [item.type for item in items]


def not_found(work):
    with pytest.raises(openai.NotFoundError) as error:
        work()
    return error.value.code


def test_made_changed_and_removed(client):
    made = client.conversations.create(metadata={"topic": "rivers"}, items=[{"role": "user", "content": "Hello."}])
    assert made.id.startswith("conv_") and made.object == "conversation" and made.metadata == {"topic": "rivers"}
    assert client.conversations.retrieve(made.id) == made
    assert client.conversations.update(made.id, metadata={"topic": "lakes"}).metadata == {"topic": "lakes"}
    gone = client.conversations.delete(made.id)
    assert gone.deleted and gone.object == "conversation.deleted" and gone.id == made.id
    assert not_found(lambda: client.conversations.retrieve(made.id)) == "conversation_not_found"
    assert not_found(lambda: client.ask(made.id, "Hello.")) == "conversation_not_found"


def test_items_come_in_pages_and_can_be_removed(client):
    id = client.conversations.create().id
    assert client.items(id) == []
    texts = ["one", "two", "three", "four", "five"]
    added = client.conversations.items.create(id, items=[{"type": "message", "role": "user", "content": text} for text in texts])
    assert [item.content[0].text for item in added.data] == texts and added.first_id == added.data[0].id
    assert client.items(id) == added.data
    last = client.conversations.items.list(id, limit=2)
    assert [item.content[0].text for item in last.data] == ["five", "four"] and last.has_more and last.last_id == added.data[3].id
    assert client.conversations.items.retrieve(added.data[1].id, conversation_id=id) == added.data[1]
    assert not_found(lambda: client.conversations.items.retrieve("msg_0", conversation_id=id)) == "item_not_found"
    assert client.conversations.items.delete(added.last_id, conversation_id=id).id == id
    assert client.items(id) == added.data[:-1]


def test_answers_go_on_from_what_is_kept(client):
    id = client.conversations.create(items=[{"role": "user", "content": "My name is Ann."}, {"role": "assistant", "content": "Hello, Ann."}]).id
    first = client.ask(id, "Name three rivers.")
    second = client.ask({"id": id}, "And three lakes.", stream=True)
    text = "".join(event.delta for event in second if event.type == "response.output_text.delta")
    items = client.items(id)
    said = [(item.role, item.content[0].text) for item in items]
    assert first.conversation.id == id
    assert said == [("user", "My name is Ann."), ("assistant", "Hello, Ann."), ("user", "Name three rivers."), ("assistant", first.output_text),
                    ("user", "And three lakes."), ("assistant", text)], said
    # The same answer as to a client that sends everything.
    kept = [item.model_dump(exclude_none=True) for item in items]
    whole = client.ask(None, kept[:-1])
    assert whole.output_text == text


def test_thoughts_are_kept(client):
    id = client.conversations.create().id
    answer = client.ask(id, "Why is the sky blue?", reasoning={"effort": "low"}, max_output_tokens=60)
    thought = next(item for item in answer.output if item.type == "reasoning")
    kept = next(item for item in client.items(id) if item.type == "reasoning")
    assert kept.content[0].text == thought.content[0].text


def test_calls_of_functions_and_their_results_are_kept(client):
    id = client.conversations.create().id
    answer = client.ask(id, "What is the weather in Paris?", tools=[TOOL], tool_choice="required")
    call = next(item for item in answer.output if item.type == "function_call")
    kept = client.items(id)[-1]
    assert (kept.type, kept.call_id, kept.name, json.loads(kept.arguments)) == ("function_call", call.call_id, call.name, json.loads(call.arguments))
    client.conversations.items.create(id, items=[{"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}])
    after = client.ask(id, [], tools=[TOOL])
    assert after.output_text and kinds(client.items(id))[-2:] == ["function_call_output", "message"]


def test_calls_of_mcp_tools_are_kept(client):
    id = client.conversations.create().id
    tool = {"type": "mcp", "server_label": "weather", "require_approval": "never"}
    answer = client.ask(id, "What is the weather in Rome?", tools=[tool], tool_choice="required", max_output_tokens=100)
    ran = next(item for item in answer.output if item.type == "mcp_call")
    call = next(item for item in client.items(id) if item.type == "mcp_call")
    assert (call.server_label, call.name, call.output, call.status) == ("weather", ran.name, ran.output, "completed")
    assert json.loads(call.arguments) == json.loads(ran.arguments)


def test_approvals_and_refusals_are_kept(client):
    id = client.conversations.create().id
    fields = {"tools": [{"type": "mcp", "server_label": "weather", "require_approval": "always"}], "max_output_tokens": 100}
    client.ask(id, "What is the weather in Oslo?", tool_choice="required", **fields)
    request = client.items(id)[-1]
    assert request.type == "mcp_approval_request" and request.server_label == "weather"
    decision = {"type": "mcp_approval_response", "approval_request_id": request.id}
    client.ask(id, [decision | {"approve": True}], **fields)
    call = next(item for item in client.items(id) if item.type == "mcp_call")
    assert call.approval_request_id == request.id and call.output == "It is sunny in Oslo."
    client.ask(id, "And in Bergen?", tool_choice="required", **fields)
    request = client.items(id)[-1]
    client.ask(id, [{"type": "mcp_approval_response", "approval_request_id": request.id, "approve": False, "reason": "not now"}], tool_choice="none",
               **fields)
    declined = [item for item in client.items(id) if item.type == "mcp_call"][-1]
    assert declined.approval_request_id == request.id and declined.status == "failed" and "not now" in str(declined.error)
    ids = [item.id for item in client.items(id)]
    assert len(set(ids)) == len(ids), ids


def test_everything_is_there_after_a_restart(client):
    id = client.conversations.create(items=[{"role": "user", "content": "Name three rivers."}], metadata={"a": "b"}).id
    client.ask(id, [])
    before = client.items(id)
    client.server.restart(signal.SIGTERM)
    client.connect()
    assert client.items(id) == before and client.conversations.retrieve(id).metadata == {"a": "b"}
    assert any(session["id"] == id for session in client.client.get("/sessions", cast_to=object)["data"])
