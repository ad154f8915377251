"""Traces of requests at a collector, and that a bad collector harms nobody."""

import base64
import http.server
import json
import subprocess
import threading
import time

import pytest

from harness import clients, paths
from harness.waiting import stays, wait_for

pytestmark = pytest.mark.any_model

SECRET = "hush"
WORDS = "Kingfisher"  # of a prompt
CHAT = {"messages": [{"role": "user", "content": f"{WORDS}!"}], "max_tokens": 8, "temperature": 0}
# Nearly uniform sampling keeps a small model from ending early.
LONG = {"prompt": "Once upon a time", "max_tokens": 1500, "temperature": 5.0, "top_p": 1.0, "top_k": 0, "min_p": 0, "seed": 3,
        "stream": True, "break_loops": False}
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACE_ID, SPAN_ID = 32, 16  # digits


class Collector:
    """Keeps what is sent to it. status: of its answers; None: it never answers."""

    def __init__(self, status=200):
        self.status, self.bodies, self.heads = status, [], []
        self.ended = threading.Event()
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.heads.append((self.path, dict(self.headers)))
                collector.bodies.append(body.decode())
                if collector.status is None:
                    collector.ended.wait()
                else:
                    self.send_response(collector.status)
                    self.send_header("Content-Length", "2")
                    self.end_headers()
                    self.wfile.write(b"{}")

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def spans(self):
        """Of all batches so far."""
        return [span for body in list(self.bodies) for resource in json.loads(body)["resourceSpans"]
                for scope in resource["scopeSpans"] for span in scope["spans"]]

    def close(self):
        self.ended.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def collectors():
    """collectors(status) -> a running Collector."""
    started = []

    def start(*arguments):
        started.append(Collector(*arguments))
        return started[-1]
    yield start
    for collector in started:
        collector.close()


@pytest.fixture
def traced(serve):
    """traced(url, *flags) -> a server that sends traces there."""
    def start(url, *flags, **variables):
        return serve("--context", "2048", "--otlp", url, *flags, before=["--verbose"], environment={"no_proxy": "*"} | variables)
    return start


def value_of(value):
    """The value of an OTLP attribute, whose only member tells its type."""
    (kind, content), = value.items()
    if kind == "arrayValue":
        return [value_of(each) for each in content["values"]]
    assert isinstance(content, {"intValue": str, "doubleValue": (int, float), "stringValue": str}[kind]), value
    return int(content) if kind == "intValue" else content


def attributes(span):
    found = {each["key"]: value_of(each["value"]) for each in span["attributes"]}
    assert len(found) == len(span["attributes"]), "an attribute came twice"
    return found


def counts(server):
    metrics = server.metrics()
    return [metrics[f'anabranch_trace_spans_total{{result="{result}"}}'] for result in ("sent", "dropped")]


def span_of(collector, request_id):
    """The span of the request with this id, once it has come."""
    def found():
        return [span for span in collector.spans() if attributes(span)["anabranch.request_id"] == request_id]
    wait_for(found, f"the span of {request_id}")
    span, = found()
    assert len(span["traceId"]) == TRACE_ID and len(span["spanId"]) == SPAN_ID and span["kind"] == 2
    assert 0 <= int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"]) < 600e9
    assert abs(time.time() - int(span["endTimeUnixNano"]) / 1e9) < 600
    return span, attributes(span)


def test_every_answer_has_a_span(traced, collectors):
    collector = collectors()
    server = traced(f"http://{collector.address}/")
    parent = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
    plain = server.ask("/v1/chat/completions", CHAT | {"top_p": 0.5}, headers=parent | {"x-request-id": "plain"})
    span, about = span_of(collector, "plain")
    name = plain["model"]
    assert (span["traceId"], span["parentSpanId"], span["name"]) == (TRACE, PARENT, f"chat {name}")
    assert "status" not in span and "error.type" not in about
    usage = plain["usage"]
    assert about == {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "anabranch", "gen_ai.request.model": name,
        "gen_ai.request.max_tokens": 8, "gen_ai.request.temperature": 0, "gen_ai.request.top_p": 0.5,
        "gen_ai.response.model": name, "gen_ai.response.id": plain["id"],
        "gen_ai.response.finish_reasons": [plain["choices"][0]["finish_reason"]],
        "gen_ai.usage.input_tokens": usage["prompt_tokens"], "gen_ai.usage.output_tokens": usage["completion_tokens"],
        "gen_ai.usage.cache_read.input_tokens": usage["prompt_tokens_details"]["cached_tokens"],
        "anabranch.cached_tokens": usage["prompt_tokens_details"]["cached_tokens"], "http.request.method": "POST",
        "http.route": "/v1/chat/completions", "url.path": "/v1/chat/completions", "http.response.status_code": 200,
        "anabranch.request_id": "plain"}
    times = [int(span["startTimeUnixNano"]), *(int(event["timeUnixNano"]) for event in span["events"]), int(span["endTimeUnixNano"])]
    assert [event["name"] for event in span["events"]] == ["anabranch.submitted", "anabranch.started", "anabranch.first_tokens"]
    assert times == sorted(times)

    events = server.events("/v1/chat/completions", CHAT | {"model": name, "stream_options": {"include_usage": True}},
                           headers={"x-request-id": "stream"})
    usage = events[-1]["usage"]
    span, about = span_of(collector, "stream")
    assert span["traceId"] != TRACE and "parentSpanId" not in span
    assert about["http.response.status_code"] == 200 and len(about["gen_ai.response.finish_reasons"]) == 1
    assert [about["gen_ai.usage.input_tokens"], about["gen_ai.usage.output_tokens"], about["anabranch.cached_tokens"]] == [
        usage["prompt_tokens"], usage["completion_tokens"], usage["prompt_tokens_details"]["cached_tokens"]]

    assert server.status("/v1/chat/completions", CHAT | {"model": name, "temperature": WORDS}, headers={"x-request-id": "wrong"})[0] == 400
    span, about = span_of(collector, "wrong")
    assert span["name"] == f"chat {name}" and about["http.response.status_code"] == 400 and about["error.type"]
    assert "status" not in span and "gen_ai.usage.input_tokens" not in about and "events" not in span

    # A client that leaves.
    connection = server.connect()
    response = server.open("/v1/completions", LONG, headers={"x-request-id": "left"}, connection=connection)
    assert clients.next_event(response)
    response.close()
    connection.close()
    span, about = span_of(collector, "left")
    assert about["error.type"] == "cancelled" and about["gen_ai.operation.name"] == "text_completion"
    assert 0 < about["gen_ai.usage.output_tokens"] < LONG["max_tokens"] and "gen_ai.response.finish_reasons" not in about

    # Neither what is no answer, nor what the client does not record; a header that is not valid begins a new trace.
    server.health()
    server.ask("/v1/chat/completions", CHAT, headers={"traceparent": f"00-{TRACE}-{PARENT}-00"})
    server.ask("/v1/chat/completions", CHAT, headers={"traceparent": f"00-{TRACE.upper()}-{PARENT}-01", "x-request-id": "last"})
    assert "parentSpanId" not in span_of(collector, "last")[0]
    wait_for(lambda: counts(server) == [5, 0], "the count of all spans")
    assert len(collector.spans()) == 5
    assert all(path == "/v1/traces" and head["Content-Type"] == "application/json" for path, head in collector.heads)
    said = plain["choices"][0]["message"]["content"].strip()
    for body in collector.bodies:
        assert WORDS not in body and (len(said) < 12 or said not in body)


def test_what_waits_is_sent_at_the_end(traced, collectors):
    collector = collectors()
    server = traced(f"http://{collector.address}")
    server.ask("/v1/chat/completions", CHAT, headers={"x-request-id": "last"})
    assert server.stop() == 0
    span_of(collector, "last")


def test_secrets_are_sent_and_not_logged(traced, collectors):
    collector = collectors()
    server = traced(f"http://user:{SECRET}1@{collector.address}", OTEL_EXPORTER_OTLP_HEADERS=f"api-key={SECRET}%202,team=a")
    server.ask("/v1/chat/completions", CHAT, headers={"x-request-id": "one"})
    span_of(collector, "one")
    _, head = collector.heads[0]
    assert base64.b64decode(head["Authorization"].removeprefix("Basic ")).decode() == f"user:{SECRET}1"
    assert (head["api-key"], head["team"]) == (f"{SECRET} 2", "a")
    collector.status = 503
    server.ask("/v1/chat/completions", CHAT)
    server.wait_for_log("it answers with status 503")
    assert collector.address in server.log and SECRET not in server.log
    assert wait_for(lambda: counts(server) == [1, 1], "one sent, one dropped")
    collector.status = 200
    server.ask("/v1/chat/completions", CHAT)
    server.wait_for_log(f"traces are sent to http://{collector.address} again")


def test_without_the_flag_nothing_is_sent(serve, collectors):
    collector = collectors()
    server = serve("--context", "512", environment={"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{collector.address}", "no_proxy": "*"})
    server.ask("/v1/chat/completions", CHAT, headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})
    stays(lambda: not collector.bodies, "a trace was sent", seconds=2)
    assert not [name for name in server.metrics() if "trace_spans" in name]


def stop_seconds(server):
    before = time.monotonic()
    assert server.stop() == 0
    return time.monotonic() - before


def test_a_hanging_collector_holds_up_nobody(traced, collectors):
    collector = collectors(None)
    server = traced(f"http://{collector.address}")
    for _ in range(3):
        assert server.ask("/v1/chat/completions", CHAT)["choices"]
    wait_for(lambda: len(collector.bodies) == 1, "a batch")
    for _ in range(3):
        assert server.ask("/v1/chat/completions", CHAT)["choices"]
    wait_for(lambda: counts(server)[1] > 0, "dropped spans")
    assert counts(server)[0] == 0
    server.ask("/v1/chat/completions", CHAT)
    assert stop_seconds(server) < 20, "the collector was waited for"


def test_a_dead_collector_holds_up_nobody(traced):
    server = traced(f"http://user:{SECRET}@127.0.0.1:{clients.free_port()}")
    for sent in range(1, 4):
        assert server.ask("/v1/chat/completions", CHAT)["choices"]
        wait_for(lambda: counts(server) == [0, sent], f"{sent} dropped spans")
    assert server.log.count("traces cannot be sent") == 1 and SECRET not in server.log
    assert stop_seconds(server) < 20


@pytest.mark.parametrize("url, headers", [(f"{SECRET}:4318", ""), (f"grpc://{SECRET}@c:4317", ""), (f"http://c?key={SECRET}", ""),
                                          ("http://c", SECRET), ("http://c", f"a={SECRET}%0d%0ab: c")])
def test_what_is_no_collector_is_refused(monkeypatch, url, headers):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", headers)
    result = subprocess.run([paths.PROGRAM, "serve", "--port", "0", "--otlp", url], stderr=subprocess.PIPE, text=True, timeout=120)
    assert result.returncode == 1 and ("OTEL_EXPORTER_OTLP_HEADERS" if headers else "--otlp") in result.stderr, result.stderr
    assert SECRET not in result.stderr


def test_the_configuration_does_not_show_the_address(monkeypatch):
    monkeypatch.setenv("ANABRANCH_OTLP", f"http://user:{SECRET}@c")
    shown = subprocess.run([paths.PROGRAM, "config", "show"], stdout=subprocess.PIPE, text=True, timeout=120, check=True).stdout
    assert "otlp" in shown and SECRET not in shown
