"""When requests and servers of the Python package end: with streams, tasks, models and processes."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import warnings

import pytest
from python_models import LONG, engine, is_gone, start

import anabranch
from harness import paths
from harness.waiting import stays, wait_for

pytestmark = pytest.mark.any_model


@pytest.fixture(scope="module")
def model(program):
    with start() as one:
        yield one


def is_cancelled(model, before):
    wait_for(
        lambda: engine(model)["running"] == 0 and engine(model)["cancelled"] == before + 1,
        lambda: f"one cancelled: {engine(model)}",
        10,
    )


def group_of(model):
    return model._server._process.pid


# --- Requests.


def leave(stream):
    for _ in stream:
        break


def close(stream):
    next(stream)
    stream.close()
    assert list(stream) == [] and stream.answer.finish_reason is None and stream.answer.text


def leave_block(stream):
    with stream:
        next(stream)


@pytest.mark.parametrize("end", [leave, close, leave_block])
def test_a_stream_that_is_left_ends_its_request(model, end):
    before = engine(model)["cancelled"]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        end(model.stream("Rivers", **LONG))
        gc.collect()
    assert not seen  # of sockets that were not closed
    is_cancelled(model, before)


def test_a_stream_goes_on_while_it_is_used(model):
    before = engine(model)["cancelled"]
    stream = model.stream("Rivers", **LONG)
    leave(stream)
    stays(lambda: engine(model)["running"] == 1, "the request runs", 0.2)
    assert next(stream)
    stream.close()
    is_cancelled(model, before)


def test_another_thread_may_close_a_stream(model):
    before = engine(model)["cancelled"]
    stream = model.stream("Rivers", **LONG)
    next(stream)
    reader = threading.Thread(target=lambda: list(stream))
    reader.start()
    stream.close()
    reader.join(10)
    assert not reader.is_alive()
    is_cancelled(model, before)


@pytest.mark.parametrize("streams", [False, True])
def test_an_interrupt_ends_the_request_and_not_the_server(model, streams):
    before = engine(model)["cancelled"]
    stream = model.stream("Rivers", **LONG)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt) as caught:
        if streams:
            list(stream)
        else:
            model.generate("Rivers", **LONG)
    is_cancelled(model, before)
    assert caught and list(stream if streams else []) == []  # what refers to the request is still there


# --- Servers.


def test_models_end_with_the_block_and_with_their_last_use():
    with start() as one:
        other = start()
        assert one.url != other.url and one.key != other.key
        assert one.generate("x", max_tokens=1).prompt_tokens == other.generate("x", max_tokens=1).prompt_tokens
        stream = other.stream("Rivers", **LONG)
        next(stream)
        groups = group_of(one), group_of(other)
        del other  # the stream still uses the server
        assert next(stream) and not is_gone(groups[1])
        del stream
        gc.collect()
        assert is_gone(groups[1]) and not is_gone(groups[0])
        stream = one.stream("Rivers", **LONG)
        next(stream)
    assert is_gone(groups[0])
    with pytest.raises(anabranch.Error, match="The server is shutting down|the Model is closed"):
        list(stream)
    one.close()
    with pytest.raises(anabranch.Error, match="closed") as caught:
        one.generate("x")
    assert caught.value.code == "closed"


SCRIPT = """
import anabranch, os, signal, sys, time
model = anabranch.Model(sys.argv[1], no_cache=True)
if sys.argv[2:] and os.fork() == 0: time.sleep(600)
print(model._server._process.pid, flush=True)
"""
ENDS = {
    "the last line": ("", None),
    "an exception in a loop": (f"for piece in model.stream('x', **{LONG}): raise SystemExit(3)", None),
    "os._exit": ("os._exit(0)", None),
    "SIGKILL": ("time.sleep(600)", signal.SIGKILL),
    "SIGTERM": ("time.sleep(600)", signal.SIGTERM),
    "Ctrl-C": ("time.sleep(600)", signal.SIGINT),
    "SIGKILL in a stream": (f"list(model.stream('x', **{LONG}))", signal.SIGKILL),
    "SIGKILL with a child that lives": ("time.sleep(600)", signal.SIGKILL),
}


def python(script, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize("way", ENDS)
def test_the_server_ends_with_python(way):
    rest, number = ENDS[way]
    forks = way.endswith("lives")
    process = python(SCRIPT + rest, paths.DRAFT, *["fork"] * forks)
    try:
        group = int(process.stdout.readline())
        if number:
            assert not is_gone(group)
            process.send_signal(number)
        process.wait(30)
        wait_for(lambda: is_gone(group), "the server's end", 15)
    finally:
        if forks:
            os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close(), process.stderr.close()


def test_the_server_ends_with_python_while_it_loads(tmp_path):
    """A program in the place of the server that is never ready."""
    slow = tmp_path / "anabranch"
    slow.write_text("#!/bin/sh\nexec sleep 600\n")
    slow.chmod(0o755)
    script = (
        "import anabranch, anabranch.server as server, os, subprocess\nplain = subprocess.Popen\n"
        "def popen(*words, **more):\n  process = plain(*words, **more)\n  print(process.pid, flush=True)\n"
        "  return process\n"
        "server.subprocess.Popen = popen\nanabranch.Model('x')\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, env=os.environ | {"ANABRANCH_BINARY": str(slow)}
    )
    group = int(process.stdout.readline())
    process.kill()
    process.wait()
    process.stdout.close()
    wait_for(lambda: is_gone(group), "the server's end", 15)


def test_a_server_that_does_not_end_is_killed(tmp_path, monkeypatch):
    stubborn = tmp_path / "anabranch"
    stubborn.write_text("#!/bin/sh\ntrap '' TERM\necho x on http://127.0.0.1:1/v1\nwhile :; do sleep 1; done\n")
    stubborn.chmod(0o755)
    monkeypatch.setenv("ANABRANCH_BINARY", str(stubborn))
    monkeypatch.setattr("anabranch.server.SECONDS_TO_END", 0.5)
    model = anabranch.Model("x")
    with pytest.raises(anabranch.Error) as caught:
        model.generate("x")
    assert caught.value.code == "connection_lost"
    model.close()
    wait_for(lambda: is_gone(group_of(model)), "the server's end", 10)


def test_a_forked_child_asks_and_leaves_the_server_alone():
    with start() as model:
        streams = [model.stream("Rivers", **LONG) for _ in range(2)]
        for stream in streams:
            next(stream)
        expected = model.generate("The capital of", raw=True, max_tokens=5, temperature=0).text
        (texts, text_end), (end, parent_end) = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:  # pragma: no cover
            try:
                streams[0].close()
                text = model.generate("The capital of", raw=True, max_tokens=5, temperature=0).text
                model.close()
                os.write(text_end, text.encode())
                os.close(parent_end)
                os.read(end, 1)
            finally:
                os._exit(0)
        assert os.read(texts, 1000).decode() == expected
        assert next(streams[0]) and engine(model)["running"] == 2
        before = engine(model)["cancelled"]
        for stream in streams:
            stream.close()  # although the child has copies of their sockets
        wait_for(lambda: engine(model)["cancelled"] == before + 2, "two cancelled", 10)
        for one in (parent_end, texts, text_end, end):
            os.close(one)
        os.waitpid(child, 0)
        assert model.generate("The capital of", raw=True, max_tokens=5, temperature=0).text == expected


def test_a_server_that_dies_is_reported():
    with start() as model:
        stream = model.stream("Rivers", **LONG)
        next(stream)
        server = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and is_server(pid, group_of(model))]
        os.kill(server[0], signal.SIGKILL)
        with pytest.raises(anabranch.Error) as caught:
            list(stream)
        assert caught.value.code == "server_ended"
        with pytest.raises(anabranch.Error) as caught:
            model.generate("x")
        assert caught.value.code == "server_ended" and "ended with status 137" in caught.value.message


def is_server(pid, group):
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            return os.getpgid(int(pid)) == group and file.read().startswith(paths.PROGRAM)
    except OSError:
        return False


# --- asyncio.


def test_tasks_that_are_cancelled_end_their_requests():
    async def cancelled(twin, count):
        for _ in range(500):
            found = (await twin.request("/health"))["engine"]
            if found["running"] == 0 and found["cancelled"] == count:
                return
            await asyncio.sleep(0.02)
        raise AssertionError(found)

    async def ask():
        twin = anabranch.AsyncModel(paths.DRAFT, no_cache=True, context=8192)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            async for _ in twin.stream("Rivers", **LONG):
                break
            gc.collect()
        assert not seen  # of sockets that were not closed
        await cancelled(twin, 1)
        task = asyncio.create_task(twin.generate("Rivers", **LONG))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        await cancelled(twin, 2)
        assert caught  # what refers to the request is still there
        stream = twin.stream("Rivers", **LONG)

        async def read():
            return [piece async for piece in stream]

        task = asyncio.create_task(read())
        await asyncio.sleep(0.2)
        await stream.aclose()
        assert len(await task) > 1
        await cancelled(twin, 3)
        async with twin.stream("Rivers", **LONG) as stream:
            await stream.__anext__()
        await cancelled(twin, 4)
        closed = anabranch.AsyncModel(paths.DRAFT)
        await closed.aclose()
        with pytest.raises(anabranch.Error, match="closed"):
            await closed.generate("x")
        group = group_of(twin)
        await twin.aclose()
        assert is_gone(group)
        with pytest.raises(anabranch.Error, match="closed"):
            await twin.generate("x")

    asyncio.run(asyncio.wait_for(ask(), 60))
