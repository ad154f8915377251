"""What the Python package does when the server does not: it loads for ever, is gone, or answers nonsense."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from python_models import LONG, is_gone, start

import anabranch
from anabranch.connections import run_now
from anabranch.exchange import Exchange
from harness import paths
from harness.waiting import wait_for

pytestmark = pytest.mark.any_model


@pytest.fixture
def stub(tmp_path, monkeypatch):
    """Puts a shell script in the place of the program."""

    def put(script):
        path = tmp_path / "anabranch"
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(0o755)
        monkeypatch.setenv("ANABRANCH_BINARY", str(path))

    return put


def ended_child(act):
    """Whether act() returned in a forked child, in time."""
    child = os.fork()
    if child == 0:  # pragma: no cover
        try:
            act()
            os._exit(0)
        finally:
            os._exit(1)
    for _ in range(500):
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status == 0
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


# --- Models that load.


def test_a_task_that_waits_for_a_model_can_be_cancelled(stub):
    stub("exec sleep 600\n")
    twins = []

    async def enter():
        twins.append(anabranch.AsyncModel("x"))
        async with twins[0]:
            pass

    begin = time.monotonic()
    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(asyncio.wait_for(enter(), 0.3))
    assert time.monotonic() - begin < 5 and is_gone(twins[0]._server._process.pid)


def test_ctrl_c_ends_python_while_requests_wait_for_a_model(stub):
    stub("exec sleep 600\n")
    script = (
        "import anabranch, asyncio\nasync def main():\n  twin = anabranch.AsyncModel('x')\n"
        "  print(twin._server._process.pid, flush=True)\n"
        "  await asyncio.gather(*[twin.generate('x') for _ in range(9)])\nasyncio.run(main())\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    group = int(process.stdout.readline())
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    try:
        _, said = process.communicate(timeout=8)
    finally:
        process.kill()
    assert b"KeyboardInterrupt" in said
    wait_for(lambda: is_gone(group), "the server's end", 10)


def test_early_requests_share_a_thread_and_end_with_the_model(stub):
    stub("exec sleep 600\n")
    before = threading.active_count()

    async def ask():
        twin = anabranch.AsyncModel("x")
        tasks = [asyncio.create_task(twin.generate("x")) for _ in range(60)]
        await asyncio.sleep(0.1)
        assert threading.active_count() == before + 1
        await asyncio.wait_for(twin.aclose(), 5)
        return await asyncio.gather(*tasks, return_exceptions=True)

    assert {error.code for error in asyncio.run(asyncio.wait_for(ask(), 20))} == {"closed"}


def test_early_requests_are_answered():
    async def ask():
        twin = anabranch.AsyncModel(paths.DRAFT, no_cache=True)
        try:
            return await asyncio.gather(*[twin.tokenize("The capital of") for _ in range(40)])
        finally:
            await twin.aclose()

    answers = asyncio.run(asyncio.wait_for(ask(), 60))
    assert len(answers) == 40 and all(len(one) == 3 for one in answers)


def test_a_stream_that_is_closed_before_it_began_is_at_its_end(stub):
    with socket.create_server(("127.0.0.1", 0)) as other:
        stub(f"sleep 0.3; echo x on http://127.0.0.1:{other.getsockname()[1]}/v1; exec sleep 600\n")

        async def ask():
            async def read():
                return [piece async for piece in stream]

            twin = anabranch.AsyncModel("x")
            stream = twin.stream("x")
            task = asyncio.create_task(read())
            await asyncio.sleep(0.1)
            await stream.aclose()
            pieces = await task
            await twin.aclose()
            return pieces

        assert asyncio.run(asyncio.wait_for(ask(), 20)) == []
        other.settimeout(0)
        with pytest.raises(BlockingIOError):
            other.accept()


def test_a_fork_while_a_thread_waits_does_not_hang(stub):
    with start() as model, model._server._lock:
        model._server.port, port = None, model._server.port
        threading.Thread(target=model._server.wait_until_ready, daemon=True).start()
        model._server.port = port
        assert ended_child(lambda: model.generate("x", max_tokens=1))
    stub("exec sleep 600\n")
    twin = anabranch.AsyncModel("x")
    server = twin._server
    server.call_when_ready(lambda: None)

    def fails():
        with pytest.raises(anabranch.Error, match="forked") as caught:
            server.wait_until_ready()
        assert caught.value.code == "not_started"

    assert ended_child(fails)
    asyncio.run(twin.aclose())


# --- Servers that are gone.


def taken(port):
    """A socket that listens at the port, once nobody else has it: others' connections may begin there meanwhile."""

    def listen():
        with contextlib.suppress(OSError):
            return socket.create_server(("127.0.0.1", port))

    return wait_for(listen, "the port is in use")


def test_the_key_is_not_for_who_has_the_port_next():
    with start() as model:
        group, port = model._server._process.pid, model._server.port
        os.killpg(group, signal.SIGKILL)
        wait_for(model._server.has_ended, "the server's end", 10)
        with taken(port) as other:
            heard = []

            def listen():
                while True:
                    try:
                        one, _ = other.accept()
                    except OSError:
                        return
                    with one:
                        one.settimeout(5)
                        heard.append(one.recv(1000))

            listener = threading.Thread(target=listen)
            listener.start()
            for code in ("server_ended", "closed"):
                with pytest.raises(anabranch.Error) as caught:
                    model.generate("my secret")
                assert caught.value.code == code
                model.close()
            other.shutdown(socket.SHUT_RDWR)
            listener.join(10)
        assert not b"".join(heard)


def test_the_loop_goes_on_while_a_broken_connection_is_explained(stub):
    stub("echo x on http://127.0.0.1:1/v1; exec sleep 600\n")

    async def ask():
        gaps, twin = [], anabranch.AsyncModel("x")
        task = asyncio.create_task(twin.generate("x"))
        while not task.done():
            begin = time.monotonic()
            await asyncio.sleep(0.01)
            gaps.append(time.monotonic() - begin)
        await twin.aclose()
        return max(gaps), task.exception()

    gap, error = asyncio.run(asyncio.wait_for(ask(), 20))
    assert error.code == "connection_lost" and gap < 0.6


def test_a_server_that_ignores_its_end_is_killed_after_python(stub):
    stub("trap '' TERM\necho x on http://127.0.0.1:1/v1\nwhile :; do sleep 0.2; done\n")
    script = (
        "import anabranch, anabranch.server as server, time\nserver.SECONDS_TO_END = 0.5\n"
        "model = anabranch.Model('x')\nprint(model._server._process.pid, flush=True)\ntime.sleep(600)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    group = int(process.stdout.readline())
    process.kill()
    process.wait()
    process.stdout.close()
    wait_for(lambda: is_gone(group), "the server's end", 10)


# --- Requests and answers that are not HTTP.


class Replay:
    """A connection over which pieces of an answer come."""

    def __init__(self, pieces):
        self.pieces, self.aborted = iter(pieces), False

    async def receive(self):
        return next(self.pieces)


def exchange_of(pieces):
    return Exchange(None, lambda: Replay(pieces))


def test_large_answers_take_time_by_their_size():
    line = b'data: {"x": "' + b"y" * 8_000_000 + b'"}\n\n'
    data = line + b'data: {"x": 1}\n\n' * 40_000 + b"data: [DONE]\n\n"
    one = exchange_of(data[at : at + 1000] for at in range(0, len(data), 1000))
    begin = time.process_time()
    events = []
    while (event := run_now(one.event())) is not None:
        events.append(event["x"])
    assert events == ["y" * 8_000_000] + [1] * 40_000
    assert time.process_time() - begin < 2


@pytest.fixture(scope="module")
def model(program):
    with start() as one:
        yield one


def test_a_path_has_no_room_for_headers(model):
    for path in ("/health\r\nX: y", "/health HTTP/1.1", "health", "", "/h\u00e9", "/x\n", "/\x7f"):
        with pytest.raises(ValueError, match="is no path"):
            model.request(path)
    assert model.request("/health?x=%20y")["status"] == "ok"


def test_answers_that_are_no_json_are_errors(model):
    with pytest.raises(anabranch.Error, match="not JSON") as caught:
        model.request("/metrics")
    assert caught.value.code == "not_json"
    for head in (b"nonsense\r\n\r\n", b"\r\n\r\n", b"HTTP/1.0 200 OK\r\nContent-Length: x\r\n\r\n"):
        one = exchange_of([])
        one._data += head
        with pytest.raises(anabranch.Error, match="not HTTP"):
            one._read_head()


def test_a_stream_that_was_closed_first_sends_nothing(model):
    before = model.request("/health")["engine"]
    stream = model.stream("Rivers", **LONG)
    stream.close()
    assert list(stream) == [] and model.request("/health")["engine"]["cancelled"] == before["cancelled"]
