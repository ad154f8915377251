#!/usr/bin/env python3
"""`serve --kv-events` as a router sees it: messages decoded with structures as vLLM defines them.

usage: kv_events_test.py PROGRAM MODEL_DIR

What the events say must be what the server does: a prompt of a told prefix is resumed there, and blocks that went are
not. Prints one line for each check and "N passed, N failed"; the exit status is 1 when one failed.
"""

import http.client
import json
import subprocess
import sys
import tempfile
import time

import msgspec
import zmq

from conclude import conclude
from soak_test import free_port

BLOCK = 256
STARTED = time.time()


class BlockStored(msgspec.Struct, array_like=True, tag=True, omit_defaults=True):
    block_hashes: list[int]
    parent_block_hash: int | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str | None = None
    lora_name: str | None = None


class BlockRemoved(msgspec.Struct, array_like=True, tag=True, omit_defaults=True):
    block_hashes: list[int]
    medium: str | None = None


class AllBlocksCleared(msgspec.Struct, array_like=True, tag=True, omit_defaults=True):
    pass


class Batch(msgspec.Struct, array_like=True, omit_defaults=True):
    ts: float
    events: list[BlockStored | BlockRemoved | AllBlocksCleared]
    data_parallel_rank: int | None = None


class Subscriber:
    """What a router knows: {hash: (parent, tokens)}."""

    def __init__(self, endpoint):
        self.socket = zmq.Context.instance().socket(zmq.SUB)
        self.socket.connect(endpoint)
        self.socket.subscribe(b"")
        self.blocks, self.numbers, self.kinds, self.faults = {}, [], set(), []

    def read(self, seconds=0.5):
        """Takes in what comes until nothing has come for so long."""
        while self.socket.poll(int(1000 * seconds)):
            topic, number, payload = self.socket.recv_multipart()
            batch = msgspec.msgpack.decode(payload, type=Batch)
            self.check(topic == b"" and len(number) == 8, "frames")
            # A batch may have waited in the socket for as long as the test has run, on a slow machine for minutes.
            self.check(STARTED - 1 <= batch.ts <= time.time() + 1, f"a batch's time {batch.ts}")
            self.check(batch.data_parallel_rank == 0, "a batch's rank")
            self.numbers.append(int.from_bytes(number, "big"))
            for event in batch.events:
                self.kinds.add(type(event).__name__)
                self.take(event)

    def check(self, good, what):
        if not good:
            self.faults.append(what)

    def take(self, event):
        if isinstance(event, AllBlocksCleared):
            self.blocks.clear()
        elif isinstance(event, BlockRemoved):
            for one in event.block_hashes:
                self.check(self.blocks.pop(one, None), "an unknown block was removed")
        else:
            parent = event.parent_block_hash
            self.check(parent is None or parent in self.blocks, "a parent is unknown")
            self.check(event.block_size == BLOCK and len(event.token_ids) == BLOCK * len(event.block_hashes), "sizes")
            self.check(event.lora_id is None, "an adapter")
            for i, one in enumerate(event.block_hashes):
                self.check(one not in self.blocks, "a block was stored twice")
                self.blocks[one] = parent, event.token_ids[BLOCK * i:BLOCK * (i + 1)]
                parent = one

    def known(self, tokens):
        """How many of the tokens, in whole blocks, the server has a state for."""
        children = {}
        for one, (parent, block) in self.blocks.items():
            children[parent, tuple(block)] = one
        parent, length = None, 0
        while length + BLOCK <= len(tokens):
            one = children.get((parent, tuple(tokens[length:length + BLOCK])))
            if one is None:
                break
            parent, length = one, length + BLOCK
        return length


class Server:
    def __init__(self, program, model, endpoint, *flags):
        self.port = free_port()
        self.process = subprocess.Popen(
            [program, "serve", "--model", model, "--port", str(self.port), "--context", "4096", "--kv-events", endpoint, *flags],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert " on http" in self.process.stdout.readline(), "the server did not start"

    def generate(self, tokens, **more):
        """The prompt's tokens that were cached."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("POST", "/v1/generate", json.dumps({"prompt_token_ids": tokens, "max_tokens": 2, "temperature": 0} | more),
                           {"Content-Type": "application/json"})
        return json.load(connection.getresponse())["usage"]["prompt_tokens_details"]["cached_tokens"]

    def stop(self):
        self.process.terminate()
        self.process.communicate(timeout=60)


def tokens_of(seed, count):
    return [(seed * 7919 + i * i * 31 + i) % 20000 + 300 for i in range(count)]


def check_events(program, model, cache, checks):
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    flags = ["--cache-dir", cache, "--cache-ram", "64MB", "--cache-disk", "0"]
    server = Server(program, model, endpoint, *flags)
    try:
        router = Subscriber(endpoint)
        router.read()
        first = tokens_of(1, 600)
        server.generate(first)
        router.read()
        checks["a prompt's whole blocks are stored"] = router.known(first + [5]) == 512, router.blocks.keys()
        longer = first[:512] + tokens_of(2, 600)
        server.generate(longer)
        router.read()
        checks["a prompt that parts later adds its own"] = (router.known(longer) == 1024 and len(router.blocks) == 4,
                                                            router.blocks.keys())
        cached = server.generate(longer)
        checks["what is told can be resumed"] = cached >= 1024, cached
        server.generate(tokens_of(3, 600), cache_salt="tenant")
        server.generate(tokens_of(4, 600), cache=False)
        server.generate(tokens_of(5, 200))
        router.read()
        checks["no salts, no uncached prompts, no short ones"] = len(router.blocks) == 4, router.blocks.keys()
        late = Subscriber(endpoint)
        late.read()
        checks["one that comes late hears of all"] = late.blocks == router.blocks != {}, (late.blocks.keys(), router.blocks.keys())
        for i in range(10, 60):
            server.generate(tokens_of(i, 600))
        router.read()
        late.read()
        checks["evicted blocks are removed"] = ("BlockRemoved" in router.kinds and router.known(longer) == 0
                                                and router.blocks == late.blocks, (router.kinds, len(router.blocks)))
        told = {i: router.known(tokens_of(i, 600)) for i in range(10, 60)}
        kept = [i for i in told if told[i]]
        cached = server.generate(tokens_of(kept[-1], 600))
        checks["kept ones are still told"] = told[kept[-1]] == 512 <= cached, (told, cached)
        lost = next(i for i in told if not told[i])
        cached = server.generate(tokens_of(lost, 600))
        checks["and evicted ones are gone"] = cached < 256, cached
        router.read()
        refused = subprocess.run([program, "serve", "--model", model, "--port", "0", "--kv-events", endpoint, *flags],
                                 stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        checks["an endpoint in use"] = refused.returncode != 0 and "--kv-events" in refused.stderr, refused.stderr
        server.stop()
        router.read()
        checks["the end"] = router.blocks == {} and "AllBlocksCleared" in router.kinds, router.blocks.keys()
        numbers = router.numbers
        checks["numbers follow each other"] = numbers == list(range(numbers[0], numbers[0] + len(numbers))), numbers
        checks["every event was well formed"] = not router.faults + late.faults, router.faults + late.faults
    finally:
        server.process.kill()
        server.process.communicate()


def check_restart(program, model, cache, checks):
    """States on disk are told of at the next start; a subscriber that does not read holds nobody up."""
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    prompt = tokens_of(1, 600)
    for start in range(2):
        server = Server(program, model, endpoint, "--cache-dir", cache, "--cache-disk", "1GB", "--cache-disk-worth", "0")
        try:
            router = Subscriber(endpoint)
            router.read()
            if start:
                checks["states on disk are told of"] = router.known(prompt) == 512, router.blocks.keys()
                cached = server.generate(prompt)
                checks["and can be resumed"] = cached >= 512, cached
            idle = Subscriber(endpoint)  # never reads
            idle.socket.setsockopt(zmq.RCVHWM, 1)
            begun = time.monotonic()
            for i in range(1, 4):
                server.generate(tokens_of(i, 600))
            seconds = time.monotonic() - begun
            checks[f"nobody waits for subscribers ({start})"] = seconds < 30, seconds
            server.stop()
            idle.socket.close(linger=0)
        finally:
            server.process.kill()
            server.process.communicate()


def main():
    program, model = sys.argv[1:3]
    checks = {}
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        check_events(program, model, one, checks)
        check_restart(program, model, two, checks)
    return conclude(checks, "decoded with msgspec")


if __name__ == "__main__":
    sys.exit(main())
