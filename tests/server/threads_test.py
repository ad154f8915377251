"""The threads of a server: few while it is idle, and each with a name."""

import os

import pytest

from harness import needs, paths
from harness.waiting import settled

IDLE = {"anabranch", "signals", "connections", "engine", "disk writer", "grammar watch", "model loader"}


def names(server):
    folder = f"/proc/{server.process.pid}/task"
    found = []
    for task in os.listdir(folder):
        try:
            with open(f"{folder}/{task}/comm") as file:
                found.append(file.read().strip())
        except FileNotFoundError:
            pass  # it has just ended
    return sorted(name for name in found if not name.startswith("kernels "))


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="there is no /proc")
def test_threads_are_started_when_they_are_needed_and_have_names(serve):
    server = serve("--context", "1024", model=paths.DRAFT)
    idle = settled(lambda: names(server))
    assert set(idle) <= IDLE and len(idle) <= len(IDLE), idle
    server.ask("/v1/responses", {"input": "Hi", "max_output_tokens": 2})
    server.ask("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4, "response_format": {"type": "json_object"}})
    busy = settled(lambda: names(server))
    assert busy.count("anabranch") == 1 + (needs.SANITIZED == "tsan"), busy  # ThreadSanitizer has one of its own
    assert {"requests", "stored requests", "grammar", "grammar texts"} <= set(busy), busy
