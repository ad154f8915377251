"""Whether the streams that the tests of the web page replay are still those of the real server, and whether the scripted server
sends the same: the same events in the same order, with the same fields. Other words and numbers are no difference."""

import pytest

import web_recording
from harness import clients
from web_conversations import CONVERSATIONS, real_server
from web_fake_answer import FAIL, approval, call, ending, text, thought, unknown_call
from web_fake_server import Fake
from web_recording import Exchange, brief, fields, items_of

SERVER_OF_TOOLS = {"id": "time", "object": "mcp_server", "transport": "stdio", "state": "connected",
                   "tools": [{"name": "now", "description": "The time", "input_schema": {"type": "object"}}]}
OUTDATED = """the real server does not answer as tests/server/web_streams/{name}.jsonl says. If the new answer is meant, record it anew:
    {anew} -k {name} --program PROGRAM
and change web_fake_answer.py likewise. The difference:
{difference}"""
UNLIKE = """the scripted server does not answer as the real one, which tests/server/web_streams/{name}.jsonl has a recording of:
{difference}"""


# ---- The real server.

def other_texts(old, new, found):
    """found: what each text of the old JSON value is in the new one, where they differ; ids above all."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in old.keys() & new.keys():
            other_texts(old[name], new[name], found)
    elif isinstance(old, list) and isinstance(new, list):
        for one, other in zip(old, new, strict=False):
            other_texts(one, other, found)
    elif isinstance(old, str) and isinstance(new, str) and old != new:
        found[old] = new


def replaced(value, texts):
    if isinstance(value, dict):
        return {name: replaced(part, texts) for name, part in value.items()}
    if isinstance(value, list):
        return [replaced(part, texts) for part in value]
    return texts.get(value, value) if isinstance(value, str) else value


def answered(server, recorded, texts, pause):
    """The recorded request to a server, and its answer: as much of it as the recording has."""
    path = recorded.path
    for old, new in texts.items():
        path = path.replace(old, new)
    body = None if recorded.body is None else replaced(recorded.body, texts)
    with server.open(path, body, method=recorded.method) as response:
        now = Exchange(recorded.method, path, body, response.status, response.getheader("Content-Type"))
        if not now.is_stream:
            now.chunks.append(response.read())
            return now
        count = 0
        for line in response:
            now.chunks.append(line)
            count += line.startswith(b"data:")
            if not pause or line.strip() or count != pause.events:
                continue
            if pause.then != "stopped":
                break
            server.send_signal()
    return now


@pytest.fixture(scope="module")
def server_for(serve_for_all, tmp_path_factory):
    """server_for(conversation) -> the real server behind it, which those share that need the same one."""
    servers = {}

    def find(conversation):
        about = repr((conversation.mcp, conversation.model, conversation.flags))
        if about not in servers:
            servers[about] = real_server(serve_for_all, conversation, tmp_path_factory.mktemp("real"))
        return servers[about]
    return find


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_recordings_are_what_the_server_sends(server_for, name):
    conversation = CONVERSATIONS[name]
    server, texts, streams = server_for(conversation.in_short()), {}, 0
    for recorded in web_recording.load(name):
        now = answered(server, recorded, texts, conversation.pauses.get(streams) if recorded.is_stream else None)
        difference = web_recording.difference(web_recording.outline(recorded), web_recording.outline(now))
        assert not difference, OUTDATED.format(name=name, anew=web_recording.ANEW, difference=difference)
        streams += recorded.is_stream
        if recorded.is_stream and recorded.path == "/v1/responses":
            other_texts(items_of(recorded.events()), items_of(now.events()), texts)
            other_texts(recorded.events()[-1], now.events()[-1], texts)
        elif not recorded.is_stream:
            other_texts(recorded.json(), now.json(), texts)


def test_nothing_is_recorded_that_no_conversation_makes():
    assert web_recording.names() == sorted(CONVERSATIONS)


# ---- The scripted server.

def script_of(exchange):
    """The steps with which the scripted server says the same."""
    events, steps = exchange.events(), []
    for item in items_of(events):
        kind, *fields = brief(item)
        if kind == "mcp_call" and item["status"] == "incomplete":
            fields = fields[:3]
        if kind != "mcp_list_tools":
            make = {"message": text, "reasoning": thought, "mcp_call": call, "mcp_approval_request": approval, "function_call": unknown_call}
            steps.append(make[kind](*fields))
    last = events[-1]
    if last["type"] == "response.failed":
        return [*steps, FAIL]
    details = last["response"]["incomplete_details"]
    about = {key: value for key, value in last["response"].get("anabranch", {}).items() if key == "stopped" or (key == "cut" and value)}
    if details:
        return [*steps, ending("incomplete", details["reason"], **about)]
    return [*steps, ending(**about)] if about else steps


def tools_of(exchange):
    """The servers of tools that its answer lists."""
    return [{"id": item["server_label"], "tools": item["tools"]} | ({"error": item["error"]} if "error" in item else {})
            for item in items_of(exchange.events()) if item["type"] == "mcp_list_tools"]


def scripted(fake, recorded, texts):
    with clients.start(fake.url.rstrip("/") + recorded.path, replaced(recorded.body, texts)) as response:
        return Exchange(recorded.method, recorded.path, None, response.status, response.getheader("Content-Type"), [response.read()])


# A script cannot go on from a stream that was left, whose ids it does not know.
SCRIPTED = [name for name, one in CONVERSATIONS.items() if not (one.keep and one.pauses)]


@pytest.mark.parametrize("name", SCRIPTED)
def test_the_scripted_server_answers_like_the_real_one(name):
    streams = [one for one in web_recording.load(name) if one.is_stream and one.end == "complete"]
    texts, scripts = {}, []
    fake = Fake(lambda said, body: scripts.pop(0)).start()
    try:
        session = fake.new_session()
        for recorded in streams:
            completion = recorded.path == "/v1/completions"
            if not completion:
                fake.mcp = tools_of(recorded)
                scripts.append(script_of(recorded))
            if conversation := recorded.body.get("conversation"):
                texts[conversation["id"]] = session["id"]
            now = scripted(fake, recorded, texts)
            difference = web_recording.difference(web_recording.outline(recorded), web_recording.outline(now))
            assert not difference, UNLIKE.format(name=name, difference=difference)
            if not completion:
                other_texts(items_of(recorded.events()), items_of(now.events()), texts)
                other_texts(recorded.events()[-1], now.events()[-1], texts)
    finally:
        fake.stop()


def stored(session):
    """The fields of the stored messages, by who says them."""
    found = {}
    for message in session["messages"]:
        found.setdefault(message["role"] + " with a call" * ("tool_calls" in message), set()).update(fields(message))
    return found


@pytest.mark.parametrize("name", ["habit", "kept_question"])
def test_the_scripted_server_stores_what_the_real_one_does(name):
    exchanges, texts = web_recording.load(name), {}
    scripts = [script_of(one) for one in exchanges if one.is_stream]
    fake = Fake(lambda said, body: scripts.pop(0), tools_of(next(one for one in exchanges if one.is_stream))).start()
    try:
        session = fake.new_session()
        for recorded in exchanges:
            if recorded.is_stream:
                texts[recorded.body["conversation"]["id"]] = session["id"]
                now = scripted(fake, recorded, texts)
                other_texts(items_of(recorded.events()), items_of(now.events()), texts)
        now = clients.ask(f"{fake.url}v1/sessions/{session['id']}")
    finally:
        fake.stop()
    real = [one.json() for one in exchanges if one.method == "GET"][-1]
    assert stored(now) == stored(real)
    assert fields(now) - {"messages[]"} <= fields(real), sorted(fields(now) - fields(real))


PLACES = ("/health", "/v1/models", "/v1/mcp/servers", "/v1/sessions?limit=50", "/v1/responses", "/v1/nothing")


def test_the_scripted_server_makes_up_no_fields(server_for):
    """What it says of itself, and its refusals, is a part of what the real server says."""
    real = server_for(CONVERSATIONS["kept_question"])
    fake = Fake(lambda said, body: [text("Hello.")], [SERVER_OF_TOOLS]).start()
    try:
        fake.new_session("A conversation")
        real.ask("/v1/sessions", {"title": "A conversation"})
        real.ask("/v1/mcp/servers", {})
        for path in PLACES:
            body = {"input": "Hi", "conversation": {"id": "conv_none"}} if path == "/v1/responses" else None
            status, says = clients.status_of(fake.url.rstrip("/") + path, body)
            real_status, real_says = real.status(path, body)
            assert status == real_status, (path, says, real_says)
            made_up = {one for one in fields(says) - fields(real_says) if not one.endswith(" null")}
            assert not made_up, (path, sorted(made_up))
    finally:
        fake.stop()
