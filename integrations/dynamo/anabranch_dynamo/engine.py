"""Dynamo's engine interface over one or more `anabranch serve` workers.

Each worker is a data-parallel rank, so that Dynamo's router can tell them apart and choose one by its KV events. A worker
that is lost is left out; when all are lost, the process ends and its registration with it."""

import argparse
import asyncio
import logging
import os
import signal

from dynamo._core import CannotConnect, Disconnected, EngineShutdown, InvalidArgument, Unknown, WorkerUnavailable
from dynamo.common.backend import EngineConfig, LLMEngine, LlmRegistration, WorkerConfig
from dynamo.common.backend.dp_rank import forced_dp_rank
from dynamo.common.backend.health_check import build_health_check_payload
from dynamo.common.backend.publisher import ComponentSnapshot, ZmqSource
from dynamo.common.utils.token_ids import normalize_request_token_ids

from . import translate
from .workers import Failed, Lost, Worker

logger = logging.getLogger(__name__)

BLOCK = 256  # tokens of a block of Anabranch's cache
POLL_SECONDS = 0.5
LOST_AFTER = 2  # polls in a row that fail


def arguments(argv):
    parser = argparse.ArgumentParser(prog="anabranch-dynamo", description="Anabranch workers as a backend of Dynamo.")
    parser.add_argument("--model", required=True, metavar="DIR", help="the model's directory: Dynamo's frontend takes tokenizer"
                        " and chat template from it")
    parser.add_argument("--url", action="append", metavar="URL", help="a worker: `anabranch serve` (several times if need be;"
                        " default: http://127.0.0.1:11436)")
    parser.add_argument("--kv-events", action="append", default=[], metavar="ENDPOINT", help="where the worker publishes its KV"
                        " events, such as tcp://127.0.0.1:5557; as often as --url, in the same order, or never")
    parser.add_argument("--served-model-name", metavar="NAME", help="default: the worker's own name of the model")
    parser.add_argument("--reasoning-parser", metavar="NAME", help="how the frontend tells thoughts from answers, such as qwen3"
                        " (default: it does not)")
    parser.add_argument("--tool-call-parser", metavar="NAME", help="how the frontend finds tool calls, such as hermes or"
                        " qwen3_coder (default: it does not)")
    parser.add_argument("--api-key-file", metavar="FILE", help="a key of the workers (default: ANABRANCH_API_KEY of the environment)")
    parser.add_argument("--wait", type=float, default=300, metavar="SECONDS", help="for the workers to be ready (default: %(default)g)")
    parser.add_argument("--namespace", default=os.environ.get("DYN_NAMESPACE", "dynamo"))
    parser.add_argument("--component", default="backend")
    parser.add_argument("--endpoint", default="generate")
    parser.add_argument("--discovery-backend", default=os.environ.get("DYN_DISCOVERY_BACKEND", "etcd"))
    parser.add_argument("--request-plane", default=os.environ.get("DYN_REQUEST_PLANE", "tcp"))
    parser.add_argument("--event-plane", default=os.environ.get("DYN_EVENT_PLANE"))
    args = parser.parse_args(argv)
    args.url = args.url or ["http://127.0.0.1:11436"]
    if args.kv_events and len(args.kv_events) != len(args.url):
        parser.error("give --kv-events as often as --url, or never")
    return args


def key_of(file):
    """The first key of a file in the form of `serve --api-key-file`: a key, or a name, the key and its limits."""
    if file is None:
        return os.environ.get("ANABRANCH_API_KEY")
    with open(file) as lines:
        for line in lines:
            words = line.split()
            if words and not words[0].startswith("#"):
                return words[min(1, len(words) - 1)]
    raise SystemExit(f"{file}: no key is in it")


class AnabranchEngine(LLMEngine):
    def __init__(self, model, urls, kv_events=(), name=None, key=None, wait=300.0):
        self.model, self.name, self.wait = model, name, wait
        self.workers = [Worker(url, key) for url in urls]
        self.kv_events = list(kv_events)
        self.running = {}  # context id: (worker, request id)
        self.poller = self.publisher = None
        self.lost = False

    @classmethod
    async def from_args(cls, argv=None):
        args = arguments(argv)
        engine = cls(args.model, args.url, args.kv_events, args.served_model_name, key_of(args.api_key_file), args.wait)
        return engine, WorkerConfig(namespace=args.namespace, component=args.component, endpoint=args.endpoint,
                                    model_name=args.model, served_model_name=args.served_model_name,
                                    discovery_backend=args.discovery_backend, request_plane=args.request_plane,
                                    event_plane=args.event_plane, reasoning_parser=args.reasoning_parser,
                                    tool_call_parser=args.tool_call_parser, enable_kv_routing=True)

    # ---- life

    async def start(self, worker_id):
        for worker in self.workers:
            worker.open()
        models = [await self.ready(worker) for worker in self.workers]
        names = {model["id"] for model in models}
        if len(names) > 1:
            raise EngineShutdown(f"the workers have different models: {', '.join(sorted(names))}")
        for worker, model in zip(self.workers, models):
            worker.bytes_per_token = model["sequence_bytes"]["per_token"]
            await worker.poll()
        self.name = self.name or models[0]["id"]
        _, capacity = translate.blocks(translate.samples(self.workers[0].metrics), self.workers[0].bytes_per_token, BLOCK)
        self.poller = asyncio.create_task(self.poll())
        logger.info("%s on %s", self.name, ", ".join(worker.url for worker in self.workers))
        return EngineConfig(model=self.model, served_model_name=self.name, llm=LlmRegistration(
            context_length=min(model["context_length"] for model in models), kv_cache_block_size=BLOCK,
            total_kv_blocks=capacity or None, data_parallel_size=len(self.workers)))

    async def ready(self, worker):
        """The model of a worker, as soon as it has one loaded."""
        deadline = asyncio.get_running_loop().time() + self.wait
        while True:
            try:
                model = (await worker.health()).get("model")
                problem = f"{worker.url}: no model is loaded, or it wants another API key"
                if model:
                    return model
            except (Lost, Failed) as error:
                problem = str(error)
            if asyncio.get_running_loop().time() > deadline:
                raise EngineShutdown(problem)
            await asyncio.sleep(0.2)

    async def poll(self):
        while True:
            await asyncio.sleep(POLL_SECONDS)
            for rank, worker in enumerate(self.workers):
                await worker.poll()
                if worker.failures == LOST_AFTER:
                    logger.warning("%s cannot be reached", worker.url)
                elif worker.reachable:
                    self.publish(rank, worker)
            if all(worker.failures >= LOST_AFTER for worker in self.workers) and not self.lost:
                logger.error("no worker can be reached: this process ends")
                self.lost = True
                os.kill(os.getpid(), signal.SIGTERM)  # Dynamo's runtime takes the registration back and calls cleanup()

    async def cleanup(self):
        if self.poller is not None:
            self.poller.cancel()
            self.poller = None
        for worker, request_id in list(self.running.values()):
            await worker.cancel(request_id)
        for worker in self.workers:
            await worker.close()

    async def is_quiescent(self):
        return not self.running

    # ---- requests

    def choose(self, request, but=()):
        """The router's worker, or the one with the fewest requests."""
        rank = forced_dp_rank(request)
        if rank is not None and 0 <= rank < len(self.workers) and self.workers[rank] not in but and self.workers[rank].reachable:
            return self.workers[rank]
        left = [worker for worker in self.workers if worker not in but]
        return min(left, key=lambda worker: (worker.failures, worker.running)) if left else None

    async def generate(self, request, context):
        normalize_request_token_ids(request)
        try:
            body = translate.generate_body(request, translate.request_id_of(context.id()))
        except translate.Refused as error:
            raise InvalidArgument(str(error))
        tried, said = [], 0
        while True:
            worker = self.choose(request, tried)
            try:
                async for chunk in self.answer(worker, body, context):
                    said += len(chunk["token_ids"])
                    yield chunk
                return
            except Lost as error:
                worker.failures = max(worker.failures, 1)  # until a poll says otherwise
                tried.append(worker)
                if said:
                    raise Disconnected(str(error))  # the frontend goes on elsewhere from the tokens it has
                if len(tried) == len(self.workers):
                    raise CannotConnect(str(error))
            except Failed as error:
                raise self.exception(error)

    async def answer(self, worker, body, context):
        prompt, said, finished = len(body["prompt_token_ids"]), 0, False
        if context.is_stopped():
            yield translate.cancelled_chunk(prompt, 0)
            return
        self.running[context.id()] = (worker, body["request_id"])
        worker.running += 1
        watcher = asyncio.create_task(self.cancel_when_stopped(worker, body["request_id"], context))
        try:
            async for event in worker.events(body):
                chunk = translate.chunk_of(event)
                if chunk is not None and not finished:
                    said += len(chunk["token_ids"])
                    finished = "finish_reason" in chunk
                    yield chunk
        except Lost:
            if not context.is_stopped():
                raise
            yield translate.cancelled_chunk(prompt, said)
        finally:
            watcher.cancel()
            worker.running -= 1
            self.running.pop(context.id(), None)

    async def cancel_when_stopped(self, worker, request_id, context):
        await context.async_killed_or_stopped()
        while not await worker.cancel(request_id):  # it may not have arrived there yet
            await asyncio.sleep(0.05)

    async def abort(self, context):
        worker, request_id = self.running.get(context.id(), (None, None))
        if worker is not None:
            await worker.cancel(request_id)

    @staticmethod
    def exception(error):
        if error.status in (400, 413, 422):
            return InvalidArgument(str(error))
        if error.status == 429:
            return WorkerUnavailable(str(error))
        if error.status == 503 or error.code in ("device_lost", "shutting_down"):
            return EngineShutdown(str(error))
        return Unknown(str(error))

    # ---- what the router and Prometheus see

    async def kv_event_sources(self):
        return [ZmqSource(endpoint=endpoint, dp_rank=rank) for rank, endpoint in enumerate(self.kv_events)]

    async def health_check_payload(self):
        return build_health_check_payload(bos_token_id=1)

    def component_metrics_dp_ranks(self):
        return list(range(len(self.workers)))

    def attach_snapshot_publisher(self, publisher):
        self.publisher = publisher

    def publish(self, rank, worker):
        if self.publisher is None:
            return
        figures = translate.samples(worker.metrics)
        used, capacity = translate.blocks(figures, worker.bytes_per_token, BLOCK)
        self.publisher.publish(rank, ComponentSnapshot(
            kv_used_blocks=used, kv_total_blocks=capacity, gpu_cache_usage=used / capacity if capacity else 0.0, dp_rank=rank,
            kv_cache_hit_rate=translate.hit_rate(figures)))

    async def register_prometheus(self, metrics):
        labels = dict(metrics.auto_labels or {})
        metrics.register_prometheus_expfmt_callback(lambda: translate.joined(
            translate.labelled(worker.metrics, {**labels, "url": worker.url}) for worker in self.workers))
