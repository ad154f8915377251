"""What a worker's work costs: the figures that simulate.py counts with, and where they are from."""

import bisect
from dataclasses import dataclass


@dataclass(frozen=True)
class Costs:
    """Times in seconds, sizes in bytes."""

    name: str
    decode_steps: tuple  # (rows, seconds of a decode-only step) at short contexts, ascending
    decode_position: float  # added to a step for each token of context of each row
    prefill_token: float  # of a prompt, at the beginning of a context
    prefill_position: float  # added to each token of a prompt for each token before it
    kv_token: int  # keys and values of a token
    state: int  # the part of a state that does not grow with its length
    restore_rate: float  # bytes a second from the worker's memory to its device
    max_rows: int  # requests at once
    memory: float  # for states of running requests
    step_limit: float  # what a step with prefill may take while others decode
    stall: float  # or so many times a decode-only step, if that is longer

    def step(self, rows):
        """Seconds of a decode-only step at short contexts, interpolated between the measured numbers of rows."""
        at = bisect.bisect_left(self.decode_steps, (rows, 0.0))
        if at == 0:
            return self.decode_steps[0][1]
        if at == len(self.decode_steps):
            at -= 1
        (few, short), (many, long) = self.decode_steps[at - 1], self.decode_steps[at]
        return short + (long - short) * (rows - few) / (many - few)

    def prefill(self, begin, end):
        """Seconds to compute a prompt's tokens from `begin` to `end`, with nothing beside it."""
        tokens = end - begin
        return tokens * (self.prefill_token + self.prefill_position * (begin + end) / 2)

    def restore(self, tokens):
        return self.bytes(tokens) / self.restore_rate if tokens else 0.0

    def bytes(self, tokens):
        return tokens * self.kv_token + self.state


# docs/internals/cuda.md: 9B shape in 4 bits on one H200. Streams a second of 1, 2, .. 256 rows; decoding after 512, 32,768
# and 131,072 tokens; prefill of 512, 4,096 and 32,768 tokens. Sizes follow from the shape: 8 attention layers with 4 heads of
# 256 in f16, 24 gated-delta layers with 32 heads of 128 x 128 in fp32 and their convolutions' last rows. Not measured:
# restore_rate, which is what a PCIe 5 x16 link carries in practice. The bound on steps is docs/scheduling.md's.
H200_9B = Costs(
    name="Qwen3.5-9B's shape in 4 bits, one H200 a worker",
    decode_steps=tuple((rows, rows / rate) for rows, rate in (
        (1, 514), (4, 1804), (8, 3239), (16, 4633), (32, 7377), (64, 10339), (128, 12394), (256, 13718))),
    decode_position=9.3e-9,
    prefill_token=32.5e-6,
    prefill_position=2.42e-10,
    kv_token=8 * 2 * 4 * 256 * 2,
    state=24 * (32 * 128 * 128 + 3 * (2 * 16 + 32) * 128) * 4,
    restore_rate=50e9,
    max_rows=256,
    memory=100e9,
    step_limit=0.045,
    stall=2.2,
)
