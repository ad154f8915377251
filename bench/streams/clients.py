"""Many clients at once in one asyncio loop: raw sockets, and no JSON read beside an event's few bytes, so that 128 streams
of 40 tokens a second take a tenth of a core."""

import asyncio
import json
import time

from programs import Failure

PATIENCE = 900  # seconds that every client's first token may take


class Reader(asyncio.Protocol):
    """Reads one streamed answer; notes when events with text came. A call of data_received gives all of its events one
    time: that is when they reached this machine's client."""

    def __init__(self, request, answer, done):
        self.request, self.answer, self.done, self.rest, self.status = request, answer, done, b"", None

    def connection_made(self, transport):
        self.transport = transport
        self.answer["sent"] = time.perf_counter()
        transport.write(self.request)

    def data_received(self, data):
        now = time.perf_counter()
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            if self.status is None:
                self.status = line
                if b" 200 " not in line:
                    self.end(f"the answer was {line.decode(errors='replace').strip()}")
            elif line.startswith(b"data: {") and b'"text":"' in line and b'"text":""' not in line:
                self.answer["events"].append(now)
            elif line.startswith(b"data: [DONE]"):
                self.answer["whole"] = True
                self.end(None)

    def connection_lost(self, error):
        self.end(str(error or "the connection was closed early"))

    def end(self, failure):
        if not self.done.done():
            self.done.set_result(failure)
        self.transport.close()


async def ask(port, body, answers):
    """One answer, which is in `answers` from the start: {"sent", "events", "whole"}."""
    text = json.dumps(body).encode()
    request = (f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
               f"Connection: close\r\nContent-Length: {len(text)}\r\n\r\n").encode() + text
    loop = asyncio.get_running_loop()
    answer, done = {"sent": 0.0, "events": [], "whole": False}, loop.create_future()
    answers.append(answer)
    transport, _ = await loop.create_connection(lambda: Reader(request, answer, done), "127.0.0.1", port)
    try:
        failure = await done
    finally:
        transport.close()
    if failure and not answer["whole"]:
        raise Failure(f"a stream failed: {failure}")


async def keep_asking(port, make_body, client, answers):
    turn = 0
    while True:
        await ask(port, make_body(client, turn), answers)
        turn += 1


async def load(port, make_body, clients, seconds):
    answers = [[] for _ in range(clients)]
    tasks = [asyncio.create_task(keep_asking(port, make_body, i, answers[i])) for i in range(clients)]

    async def watch(done, patience):
        end = time.perf_counter() + patience
        while not done() and time.perf_counter() < end:
            finished = [task for task in tasks if task.done()]
            if finished:
                finished[0].result()
            await asyncio.sleep(0.02)
        return done()

    try:
        if not await watch(lambda: all(a and a[0]["events"] for a in answers), PATIENCE):
            raise Failure(f"not every client had a token after {PATIENCE} s")
        begin = time.perf_counter()
        await watch(lambda: False, seconds)
        end = time.perf_counter()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return [answer for of_client in answers for answer in of_client], begin, end


def run(port, make_body, clients, seconds):
    """Each of the clients asks again as soon as it has an answer. When every client has had its first token, a window of
    so many seconds begins; at its end all connections are closed. -> (answers, the window's begin, its end)"""
    return asyncio.run(load(port, make_body, clients, seconds))
