"""`serve --kv-events` as a router sees it: messages decoded with structures as vLLM defines them.

What the events say must be what the server does: a prompt of a told prefix is resumed there, and blocks that went are not.
"""

import subprocess
import time

import msgspec
import zmq

from harness import clients, paths
from harness.waiting import wait_for

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

    def read(self, quiet=0.3):
        """Takes in what comes until nothing has come for so long."""
        while self.socket.poll(int(1000 * quiet)):
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

    def read_until(self, condition, what):
        """Takes in what comes until the condition holds, and what comes right behind."""
        def holds():
            self.read(0.02)
            return condition()
        wait_for(holds, lambda: f"{what}: {len(self.blocks)} blocks, {self.kinds}", pause=0)
        self.read()

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


def generate(server, tokens, **more):
    """The prompt's tokens that were cached."""
    answer = server.ask("/v1/generate", {"prompt_token_ids": tokens, "max_tokens": 2, "temperature": 0} | more)
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def tokens_of(seed, count):
    return [(seed * 7919 + i * i * 31 + i) % 20000 + 300 for i in range(count)]


def subscribed(endpoint):
    """A subscriber that hears the server."""
    router = Subscriber(endpoint)
    router.read(1)
    return router


def test_events_tell_what_can_be_resumed(serve, tmp_path):
    endpoint = f"tcp://127.0.0.1:{clients.free_port()}"
    flags = ["--context", "4096", "--kv-events", endpoint, "--cache-dir", tmp_path, "--cache-ram", "24MB", "--cache-disk", "0"]
    server, router = serve(*flags, model=paths.DRAFT), subscribed(endpoint)
    first = tokens_of(1, 600)
    generate(server, first)
    router.read_until(lambda: router.known(first + [5]) == 512, "a prompt's whole blocks are stored")
    longer = first[:512] + tokens_of(2, 600)
    generate(server, longer)
    router.read_until(lambda: router.known(longer) == 1024, "a prompt that parts later adds its own")
    assert len(router.blocks) == 4, router.blocks.keys()
    assert generate(server, longer) >= 1024, "what is told can be resumed"
    generate(server, tokens_of(3, 600), cache_salt="tenant")
    generate(server, tokens_of(4, 600), cache=False)
    generate(server, tokens_of(5, 200))
    router.read()
    assert len(router.blocks) == 4, "no salts, no uncached prompts, no short ones"
    late = Subscriber(endpoint)
    late.read_until(lambda: late.blocks == router.blocks, "one that comes late hears of all")
    for i in range(10, 60):
        generate(server, tokens_of(i, 600))
    router.read_until(lambda: "BlockRemoved" in router.kinds and router.known(longer) == 0, "evicted blocks are removed")
    late.read_until(lambda: router.blocks == late.blocks, "both hear of them")
    told = {i: router.known(tokens_of(i, 600)) for i in range(10, 60)}
    kept = [i for i in told if told[i]]
    assert told[kept[-1]] == 512 <= generate(server, tokens_of(kept[-1], 600)), told
    lost = next(i for i in told if not told[i])
    assert generate(server, tokens_of(lost, 600)) < 256, told
    refused = subprocess.run([paths.PROGRAM, "serve", "--model", paths.DRAFT, "--port", "0", *map(str, flags)], stdin=subprocess.DEVNULL,
                             capture_output=True, text=True, timeout=120)
    assert refused.returncode != 0 and "--kv-events" in refused.stderr, refused.stderr  # the endpoint is in use
    server.stop()
    router.read_until(lambda: router.blocks == {} and "AllBlocksCleared" in router.kinds, "the end")
    assert router.numbers == list(range(router.numbers[0], router.numbers[0] + len(router.numbers))), router.numbers
    assert not router.faults + late.faults, "every event is well formed"


def test_states_on_disk_are_told_of_and_nobody_waits_for_subscribers(serve, tmp_path):
    endpoint = f"tcp://127.0.0.1:{clients.free_port()}"
    prompt = tokens_of(1, 600)
    for start in range(2):
        server = serve("--context", "4096", "--kv-events", endpoint, "--cache-dir", tmp_path, "--cache-disk", "1GB", "--cache-disk-worth", "0", model=paths.DRAFT)
        router = subscribed(endpoint)
        if start:
            router.read_until(lambda: router.known(prompt) == 512, "states on disk are told of")
            assert generate(server, prompt) >= 512, "and can be resumed"
        idle = Subscriber(endpoint)  # never reads
        idle.socket.setsockopt(zmq.RCVHWM, 1)
        for i in range(1, 4):  # a server that waited for it would never answer
            generate(server, tokens_of(i, 600))
        server.stop()
        idle.socket.close(linger=0)
