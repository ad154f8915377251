#!/usr/bin/env python3
"""The backend over real workers, held against the contract of Dynamo's engines:

    python integrations/dynamo/tests/conformance.py PROGRAM MODEL_DIR

Dynamo's own conformance kit is a Rust function (dynamo_backend_common::testing::run_conformance) that is not in its Python
packages. The checks named "kit:" are the same ones, made from Python with Dynamo's own Context; the others are ours. Needs
ai-dynamo (README.md says how to install it): without it the script says so and ends with status 0.

Prints a line for each check and "N passed, N failed"; the exit status is 1 when one failed."""

import asyncio
import importlib.util
import json
import os
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.dirname(HERE)]
from processes import Serve  # noqa: E402

if not importlib.util.find_spec("dynamo"):
    print("skipped: ai-dynamo is not installed\n0 passed, 0 failed")
    sys.exit(0)

from dynamo._core import CannotConnect, Context, Disconnected, InvalidArgument  # noqa: E402

from anabranch_dynamo.engine import AnabranchEngine  # noqa: E402

PROMPT = [1, 2, 3]
CANCEL_SECONDS = 2.0
KEY = "secret"
CHECKS = []


def check(name):
    def note(function):
        CHECKS.append((name, function))
        return function
    return note


def asked(ids=PROMPT, sampling=None, output=None, **stop):
    return {"model": "m", "token_ids": list(ids), "stop_conditions": stop, "sampling_options": sampling or {},
            "output_options": output or {}}


async def collect(engine, request, context=None):
    return [chunk async for chunk in engine.generate(request, context or Context())]


def tokens(chunks):
    return [token for chunk in chunks for token in chunk["token_ids"]]


class Metrics:
    """What Dynamo hands to register_prometheus."""

    auto_labels = {"dynamo_namespace": "test"}
    callback = None

    def register_prometheus_expfmt_callback(self, callback):
        self.callback = callback


@check("kit: start() names a model")
async def starts(engine, config, workers):
    assert config.model and config.served_model_name and config.llm.context_length > 0
    assert config.llm.kv_cache_block_size == 256 and config.llm.data_parallel_size == len(workers)


@check("kit: kv_event_sources() and the metrics' ranks are the same at each call")
async def sources(engine, config, workers):
    first, second = await engine.kv_event_sources(), await engine.kv_event_sources()
    assert [s.dp_rank for s in first] == [s.dp_rank for s in second] == [0, 1]
    assert [s.endpoint for s in first] == ["tcp://127.0.0.1:1", "tcp://127.0.0.1:2"]
    assert engine.component_metrics_dp_ranks() == engine.component_metrics_dp_ranks() == [0, 1]


@check("kit: register_prometheus() works, and its callback has each worker's metrics")
async def prometheus(engine, config, workers):
    metrics = Metrics()
    await engine.register_prometheus(metrics)
    text = metrics.callback()
    for worker in workers:
        assert f'url="{worker.url}"' in text, text[:500]
    assert 'dynamo_namespace="test"' in text and text.count("# TYPE anabranch_state_bytes ") == 1


@check("kit: a stream has chunks, and ends with the only one that has a finish_reason")
async def single(engine, config, workers):
    chunks = await collect(engine, asked())
    reasons = [chunk.get("finish_reason") for chunk in chunks]
    assert reasons and reasons[-1] and not any(reasons[:-1]), reasons
    usage = chunks[-1]["completion_usage"]
    assert usage["prompt_tokens"] == len(PROMPT) and usage["completion_tokens"] == len(tokens(chunks)), usage


@check("kit: eight streams at once")
async def concurrent(engine, config, workers):
    request = asked(sampling={"temperature": 0}, max_tokens=24, ignore_eos=True)
    alone = tokens(await collect(engine, dict(request)))
    all_chunks = await asyncio.gather(*(collect(engine, dict(request)) for _ in range(8)))
    assert len(alone) == 24 and all(tokens(chunks) == alone for chunks in all_chunks)


@check("kit: a request that is cancelled at once ends as cancelled")
async def cancelled(engine, config, workers):
    context = Context()
    stream = engine.generate(asked(max_tokens=10000), context)
    context.stop_generating()
    chunks = await asyncio.wait_for(asyncio.create_task(gather(stream)), CANCEL_SECONDS)
    assert chunks[-1]["finish_reason"] == "cancelled", chunks[-1]


async def gather(stream):
    return [chunk async for chunk in stream]


@check("a request that is cancelled in the middle ends as cancelled, and the worker is free")
async def cancelled_later(engine, config, workers):
    context, chunks, stopped = Context(), [], None
    async for chunk in engine.generate(asked(max_tokens=400, ignore_eos=True, sampling={"temperature": 1.0}), context):
        chunks.append(chunk)
        if stopped is None and len(chunks) == 5:
            context.stop_generating()
            stopped = time.monotonic()
    assert time.monotonic() - stopped < CANCEL_SECONDS and chunks[-1]["finish_reason"] == "cancelled"
    assert len(tokens(chunks)) < 400 and await engine.is_quiescent()
    for worker in engine.workers:
        assert json.loads(await worker.get("/health"))["engine"]["running"] == 0


@check("abort() cancels a running request")
async def aborts(engine, config, workers):
    context, chunks = Context(), []
    async for chunk in engine.generate(asked(max_tokens=400, ignore_eos=True, sampling={"temperature": 1.0}), context):
        chunks.append(chunk)
        if len(chunks) == 3:
            assert not await engine.is_quiescent()
            await engine.abort(context)
    assert chunks[-1]["finish_reason"] == "cancelled" and len(tokens(chunks)) < 400
    await engine.abort(context)  # it has ended: nothing happens


@check("log probabilities come with their tokens")
async def logprobs(engine, config, workers):
    chunks = await collect(engine, asked(sampling={"temperature": 0}, output={"logprobs": 2}, max_tokens=6, ignore_eos=True))
    for chunk in chunks[:-1]:
        assert len(chunk["log_probs"]) == len(chunk["top_logprobs"]) == len(chunk["token_ids"])
        assert chunk["top_logprobs"][0][0]["token_id"] == chunk["token_ids"][0] and chunk["log_probs"][0] <= 0
    assert len(tokens(chunks)) == 6 and chunks[-1]["finish_reason"] == "length"


@check("stop token ids end an answer")
async def stops(engine, config, workers):
    greedy = {"temperature": 0}
    said = tokens(await collect(engine, asked(sampling=greedy, max_tokens=12, ignore_eos=True)))
    chunks = await collect(engine, asked(sampling=greedy, max_tokens=12, stop_token_ids_hidden=[said[4]]))
    assert tokens(chunks) == said[:said.index(said[4]) + 1] and chunks[-1]["finish_reason"] == "stop", tokens(chunks)


@check("the router's rank is the worker that answers")
async def ranks(engine, config, workers):
    for rank, worker in enumerate(engine.workers):
        before = json.loads(await worker.get("/health"))["engine"]["requests"]
        for _ in range(3):
            await collect(engine, {**asked(max_tokens=1), "routing": {"dp_rank": rank}})
        assert json.loads(await worker.get("/health"))["engine"]["requests"] == before + 3


@check("what a worker cannot do is an invalid argument")
async def refuses(engine, config, workers):
    for request in (asked(sampling={"n": 2}), asked(ids=[10 ** 8]), asked(sampling={"guided_decoding": {"json": {}}})):
        try:
            await collect(engine, request)
            raise AssertionError(f"not refused: {request}")
        except InvalidArgument as error:
            assert str(error)


@check("a worker that is killed before the first token: the other one answers")
async def killed_before(engine, config, workers):
    workers[0].kill()
    chunks = await collect(engine, {**asked(sampling={"temperature": 0}, max_tokens=4, ignore_eos=True), "routing": {"dp_rank": 0}})
    assert len(tokens(chunks)) == 4


@check("a worker that is killed in the middle of an answer: disconnected, then nobody to connect to")
async def killed_between(engine, config, workers):
    chunks = 0
    try:
        async for _ in engine.generate(asked(max_tokens=400, ignore_eos=True, sampling={"temperature": 1.0}), Context()):
            chunks += 1
            if chunks == 3:
                workers[1].kill()
        raise AssertionError("the stream ended as if nothing had happened")
    except Disconnected:
        assert chunks >= 3
    try:
        await collect(engine, asked(max_tokens=4))
        raise AssertionError("nobody is there")
    except CannotConnect:
        pass


@check("kit: cleanup() works, and a second time")
async def cleans(engine, config, workers):
    await engine.cleanup()
    await engine.cleanup()


@check("kit: cleanup() of an engine that was never started, and after a start that failed")
async def cleans_unstarted(engine, config, workers):
    await AnabranchEngine("m", ["http://127.0.0.1:9"]).cleanup()
    failing = AnabranchEngine("m", ["http://127.0.0.1:9"], wait=0.1)
    try:
        await failing.start(0)
        raise AssertionError("started without a worker")
    except Exception as error:  # noqa: BLE001: Dynamo's own kind
        assert "127.0.0.1:9" in str(error), error
    await failing.cleanup()


async def run(workers):
    engine = AnabranchEngine("m", [worker.url for worker in workers], ["tcp://127.0.0.1:1", "tcp://127.0.0.1:2"],
                             key=KEY)
    config, failed = await engine.start(0), 0
    for name, function in CHECKS:
        try:
            await function(engine, config, workers)
            print(f"ok     {name}")
        except Exception as error:  # noqa: BLE001: told, and the next check is made
            failed += 1
            print(f"FAILED {name}: {type(error).__name__}: {error}")
    print(f"{len(CHECKS) - failed} passed, {failed} failed")
    return 1 if failed else 0


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    program, model = map(os.path.abspath, sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        with Serve(program, model, folder, "worker-0", "--context", "512", "--api-key", KEY) as one, \
                Serve(program, model, folder, "worker-1", "--context", "512", "--api-key", KEY) as two:
            return asyncio.run(run([one.ready(), two.ready()]))


if __name__ == "__main__":
    sys.exit(main())
