"""`anabranch mcp` and the official SDK's client."""

import asyncio
import json
import subprocess
import tempfile
import time

from mcp import Client, ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError
import anyio

from agent_setup import scripted_model
from harness import paths

WORDS = ["mcp", "-m", paths.MODEL, "--temp", "0", "--no-cache", "--thinking", "off"]
LONG = {"prompt": "List all integers from 1 to 2000.", "max_tokens": 20000}  # takes ten seconds and more


def with_session(body, words=None):
    async def go():
        async with stdio_client(StdioServerParameters(command=paths.PROGRAM, args=words or WORDS)) as (read, write):
            async with ClientSession(read, write) as session:
                await session.initialize()
                await body(session)

    asyncio.run(go())


def generated(prompt, *more):
    return subprocess.run([paths.PROGRAM, "generate", "-m", paths.MODEL, "--temp", "0", "--no-cache", "--thinking", "off", "-p", prompt, *more],
                          capture_output=True, text=True, check=True).stdout.strip()


def test_ask():
    async def body(session):
        tools = (await session.list_tools()).tools
        assert [t.name for t in tools] == ["ask"] and tools[0].annotations.read_only_hint and tools[0].input_schema["required"] == ["prompt"]
        await session.send_ping()
        seen = []

        async def progress(done, total, message):
            seen.append((done, message))

        answer = await session.call_tool("ask", {"prompt": "Name three rivers.", "max_tokens": 30}, progress_callback=progress)
        assert answer.content[0].text.strip() == generated("Name three rivers.", "-n", "30") and not answer.is_error
        assert seen and all(message == f"{done:.0f} tokens" for done, message in seen), seen
        with_system = await session.call_tool("ask", {"prompt": "Who are you?", "system": "You are a pirate.", "max_tokens": 20})
        assert with_system.content[0].text.strip() == generated("Who are you?", "-n", "20", "-s", "You are a pirate.")
        thought = await session.call_tool("ask", {"prompt": "What is 17 times 23?", "thinking": "on", "max_tokens": 20})
        assert not thought.is_error and "<think>" not in thought.content[0].text

    with_session(body)


def test_the_newest_client():
    """It asks for the newest protocol first, which this server does not speak, and then agrees on the one before."""
    async def body():
        async with Client(StdioServerParameters(command=paths.PROGRAM, args=WORDS)) as client:
            answer = await client.call_tool("ask", {"prompt": "Say hello.", "max_tokens": 5})
            assert answer.content[0].text

    asyncio.run(body())


def test_sessions():
    """With --sessions the client can list, search and read kept conversations."""
    with tempfile.TemporaryDirectory() as folder:
        place = ["--sessions", folder]
        subprocess.run([paths.PROGRAM, "chat", *WORDS[1:], *place], input="What is the capital of France?\n", text=True, capture_output=True, check=True)

        async def body(session):
            assert [t.name for t in (await session.list_tools()).tools] == ["ask", "sessions"]

            async def call(**arguments):
                answer = await session.call_tool("sessions", arguments)
                return answer.is_error, answer.content[0].text

            assert "What is the capital of France?" in (await call(action="list"))[1]
            assert "Paris" in (await call(action="search", query="paris"))[1]
            assert (await call(action="search", query="xyzzy"))[1] == "There are none"
            assert "## Assistant" in (await call(action="read", session="capital"))[1]
            for wrong in ({"action": "remove"}, {"action": "read"}, {"action": "search"}, {"action": "list", "limit": 0}, {"action": "read", "session": "xyzzy"}, {}):
                assert (await call(**wrong))[0], wrong

        with_session(body, WORDS + place)


def test_wrong_calls():
    async def body(session):
        for arguments, part in (({}, "'prompt' is missing"), ({"prompt": 1}, "must be a string"), ({"prompt": "x", "max_tokens": 0}, "'max_tokens'"),
                                ({"prompt": "x", "thinking": "hard"}, "auto, on or off"), ({"prompt": "x", "temperature": 1}, "no argument 'temperature'")):
            answer = await session.call_tool("ask", arguments)
            assert answer.is_error and part in answer.content[0].text, answer
        try:
            await session.call_tool("none", {})
            raise AssertionError("it was taken")
        except MCPError as error:
            assert "no tool 'none'" in str(error)

    with_session(body)


def test_calls_at_the_same_time():
    async def body(session):
        answers = {}

        async def one(prompt):
            answers[prompt] = (await session.call_tool("ask", {"prompt": prompt, "max_tokens": 12})).content[0].text

        prompts = [f"Name a city in {country}." for country in ("France", "Italy", "Spain", "Japan", "Peru", "Kenya")]
        async with anyio.create_task_group() as group:
            for prompt in prompts:
                group.start_soon(one, prompt)
        assert answers[prompts[0]].strip() == generated(prompts[0], "-n", "12") and len(answers) == 6

    with_session(body)


def test_cancelled():
    async def body(session):
        began = time.monotonic()
        await session.call_tool("ask", {"prompt": "Say hello.", "max_tokens": 5})
        alone = time.monotonic() - began
        with anyio.move_on_after(1.5) as scope:  # as many as run at a time
            async with anyio.create_task_group() as group:
                for _ in range(4):
                    group.start_soon(session.call_tool, "ask", LONG)
        assert scope.cancelled_caught
        began = time.monotonic()
        answer = await session.call_tool("ask", {"prompt": "Say hello.", "max_tokens": 5})
        assert answer.content[0].text and time.monotonic() - began < 4 + 10 * alone  # it waits for none of the others

    with_session(body)


def test_bytes_on_the_wire():
    """Nothing but messages on stdout, whatever comes in; the end of the input ends a running answer and the program."""
    lines = [b"not json", b"\xff\xfe", b"[]", b"{}", b'{"jsonrpc":"2.0","id":1,"method":"server/discover"}',
             b'{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"2024-11-05"}}',
             b'{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2099-01-01"}}', b'{"jsonrpc":"2.0","id":3,"result":{}}',
             b'{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"ask","arguments":[1]}}',
             json.dumps({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "ask", "arguments": LONG}}).encode()]
    began = time.monotonic()
    subprocess.run([paths.PROGRAM, "-v", *WORDS], input=b"", capture_output=True, check=True)
    alone, began = time.monotonic() - began, time.monotonic()
    done = subprocess.run([paths.PROGRAM, "-v", *WORDS], input=b"\n".join(lines) + b"\n", capture_output=True, timeout=300)
    assert done.returncode == 0 and time.monotonic() - began < 5 + 10 * alone, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [a["id"] for a in answers] == [None, None, None, 1, "a", 2, 4], answers
    assert answers[3]["error"]["code"] == -32601 and answers[4]["result"]["protocolVersion"] == "2024-11-05"
    assert answers[5]["result"]["protocolVersion"] == "2025-11-25" and answers[6]["error"]["code"] == -32602
    long = subprocess.run([paths.PROGRAM, *WORDS], input=b"x" * (5 << 20), capture_output=True, timeout=300)
    assert long.returncode == 1 and b"longer than 4194304 bytes" in long.stderr and not long.stdout


def test_over_a_server():
    async def body(session):
        answer = await session.call_tool("ask", {"prompt": "x"})
        assert answer.content[0].text == "from afar"

    with scripted_model("from afar") as (model, url):
        with_session(body, ["mcp", "--url", url, "-s", "Be kind."])
        assert model.requests[0]["messages"] == [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "x"}]
