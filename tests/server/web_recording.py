"""Recorded conversations of the web page with the real server: tests/server/web_streams/NAME.jsonl. The page's own requests
stand there with the server's answers, in the chunks in which they came:

    {"post": "/v1/responses", "body": {...}}            a request ("get" has no body)
    {"status": 200, "type": "text/event-stream"}        its answer
    {"events": [{"type": "response.created", ...}]}     a chunk of it, which holds these events as the server writes them,
    {"chunk": "..."}                                    or anything else
    {"end": "complete"}                                 or "left": the page closed the connection; "broken": it broke off

pytest tests/server/web_streams_test.py --record makes them anew (web_recorder.py)."""

import contextlib
import dataclasses
import difflib
import json
import os

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "web_streams")
ANEW = "pytest tests/server/web_streams_test.py --record"
AGAIN = "the same again"
TEXT_KINDS = {"response.output_text.delta": "output_text", "response.reasoning_text.delta": "reasoning_text"}
ENDS = ("response.completed", "response.incomplete", "response.failed")


@dataclasses.dataclass
class Exchange:
    """A request of the page and its answer."""
    method: str
    path: str
    body: object = None
    status: int = 200
    type: str = ""
    chunks: list = dataclasses.field(default_factory=list)  # bytes
    end: str = "complete"

    @property
    def is_stream(self):
        return self.type.startswith("text/event-stream")

    @property
    def data(self):
        return b"".join(self.chunks)

    def events(self):
        """The data of each event."""
        return events_of(self.data)

    def json(self):
        return json.loads(self.data)

    def lines(self):
        asked = {self.method.lower(): self.path} | ({} if self.body is None else {"body": self.body})
        return [asked, {"status": self.status, "type": self.type}, *map(line_of, self.chunks), {"end": self.end}]


def dump(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def event_text(event):
    return (f"event: {event['type']}\n" if "type" in event else "") + f"data: {dump(event)}\n\n"


def line_of(chunk):
    """A chunk for the file: its events where they say every byte of it. A response that is told again is written once."""
    text = chunk.decode()
    with contextlib.suppress(ValueError):
        events = events_of(chunk)
        told = [None, *(event.get("response") for event in events)]
        line = {"events": [event | {"response": AGAIN} if before and event.get("response") == before else event
                           for before, event in zip(told, events, strict=False)]}
        if events and chunk_of(line) == chunk:
            return line
    return {"chunk": text}


def chunk_of(line):
    if "chunk" in line:
        return line["chunk"].encode()
    text, response = "", None
    for event in line["events"]:
        if event.get("response") == AGAIN:
            event = event | {"response": response}
        response = event.get("response")
        text += event_text(event)
    return text.encode()


def events_of(data):
    lines = [line[5:].strip() for line in data.decode().split("\n") if line.startswith("data:")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def path_of(name):
    return os.path.join(FOLDER, name + ".jsonl")


def names():
    return sorted(name.removesuffix(".jsonl") for name in os.listdir(FOLDER) if name.endswith(".jsonl"))


def save(name, exchanges):
    with open(path_of(name), "w") as file:
        for exchange in exchanges:
            for line in exchange.lines():
                file.write(dump(line) + "\n")


def load(name):
    assert os.path.exists(path_of(name)), f"There is no recording of {name!r}: make it with {ANEW} -k {name}"
    exchanges = []
    with open(path_of(name)) as file:
        for line in map(json.loads, file):
            if "get" in line or "post" in line:
                method = "get" if "get" in line else "post"
                exchanges.append(Exchange(method.upper(), line[method], line.get("body")))
            elif "status" in line:
                exchanges[-1].status, exchanges[-1].type = line["status"], line["type"]
            elif "end" in line:
                exchanges[-1].end = line["end"]
            else:
                exchanges[-1].chunks.append(chunk_of(line))
    return exchanges


def answers(exchanges):
    """Those that ask the model for an answer."""
    return [one for one in exchanges if one.path in ("/v1/responses", "/v1/completions")]


# ---- What a recording says.

@dataclasses.dataclass
class Answer:
    """What the server said in one answer, of one or more streams (each decision about a tool begins another one)."""
    items: list = dataclasses.field(default_factory=list)
    usage: dict = dataclasses.field(default_factory=dict)
    drafts: dict = dataclasses.field(default_factory=lambda: {"drafted": 0, "accepted": 0})
    status: str = "incomplete"
    cut: str | None = None
    error: str | None = None


def items_of(events):
    """The output items, complete or as far as they came."""
    items = {}
    for event in events:
        kind = event["type"]
        if kind in ("response.output_item.added", "response.output_item.done"):
            items[event["output_index"]] = json.loads(json.dumps(event["item"]))
        elif kind in TEXT_KINDS:
            content = items[event["output_index"]]["content"]
            if not content:
                content.append({"type": TEXT_KINDS[kind], "text": ""})
            content[0]["text"] += event["delta"]
        elif kind == "response.mcp_call_arguments.delta":
            items[event["output_index"]]["arguments"] += event["delta"]
        elif kind == "response.mcp_call_arguments.done":
            items[event["output_index"]]["arguments"] = event["arguments"]
    return [items[index] for index in sorted(items)]


def brief(item):
    """What a reader of the page sees of an item."""
    kind = item["type"]
    if kind in ("message", "reasoning"):
        return kind, "".join(part["text"] for part in item["content"])
    if kind == "mcp_list_tools":
        return kind, item["server_label"], item.get("error")
    fields = {"mcp_call": ("server_label", "name", "arguments", "output", "error"),
              "mcp_approval_request": ("server_label", "name", "arguments"), "function_call": ("name", "arguments")}[kind]
    return kind, *(item[field] for field in fields)


def add_usage(answer, usage):
    for name in answer.drafts:
        answer.drafts[name] += usage["speculation"][name]
    counted = {"input_tokens": usage["input_tokens"], "output_tokens": usage["output_tokens"],
               "reasoning_tokens": usage["output_tokens_details"]["reasoning_tokens"],
               "cached_tokens": usage["input_tokens_details"]["cached_tokens"]}
    for name, count in counted.items():
        answer.usage[name] = answer.usage.get(name, 0) + count


def continuation(events):
    """The answer of a model that only continues a text."""
    text = "".join(choice["text"] for event in events for choice in event["choices"])
    finish = [choice["finish_reason"] for event in events for choice in event["choices"]][-1]
    usage = next(event["usage"] for event in events if event.get("usage"))
    answer = Answer([{"type": "message", "content": [{"type": "output_text", "text": text}]}], status="completed",
                    cut="max_output_tokens" if finish == "length" else None)
    add_usage(answer, usage | {"input_tokens": usage["prompt_tokens"], "output_tokens": usage["completion_tokens"],
                               "input_tokens_details": usage["prompt_tokens_details"],
                               "output_tokens_details": usage["completion_tokens_details"]})
    return answer


def goes_on(exchange):
    """Whether the request only answers questions about tools, so that the answer before goes on."""
    given = exchange.body.get("input") or [{}]
    return given[-1].get("type") == "mcp_approval_response"


def shown(exchanges):
    """Those of the answers that the page shows at the end: of two versions the newer one."""
    asked, found = [], []
    for exchange, answer in zip([one for one in answers(exchanges) if not goes_on(one)], said(exchanges), strict=True):
        users = [item for item in exchange.body.get("input", []) if item.get("role") == "user"]
        if "conversation" in exchange.body:  # the server has the questions before
            users = asked + users
        elif exchange.path == "/v1/completions":
            users = [*asked, exchange.body["prompt"]]
        asked = users
        found[len(users) - 1:] = [answer]
    return found


def has_come(answer):
    """Whether there is something to see of it; another attempt then stands beside it."""
    return any(item["type"] != "mcp_list_tools" or item.get("error") for item in answer.items)


def said(exchanges):
    """The answers that the server gave, in order."""
    found = []
    for exchange in answers(exchanges):
        if exchange.path == "/v1/completions":
            found.append(continuation(exchange.events()))
            continue
        if not goes_on(exchange):
            found.append(Answer())
        answer = found[-1]
        if not exchange.is_stream:
            answer.error = exchange.json()["error"]["message"]
            continue
        events = exchange.events()
        answer.items += items_of(events)
        last = events[-1]
        answer.status, answer.cut = "incomplete", None
        if last["type"] in ENDS:
            response = last["response"]
            answer.status = response["status"]
            answer.cut = (response["incomplete_details"] or {}).get("reason")
            answer.error = (response["error"] or {}).get("message")
            if response["usage"]:
                add_usage(answer, response["usage"])
    return found


# ---- What two streams must have in common: the order of their events, and the fields of each. Words and numbers may differ.

NAMED = ("sources", "timings", "mcp_calls")  # objects whose fields have names of their own: ids, or what happened to be counted
KINDS = {type(None): "null", bool: "bool", str: "text", int: "number", float: "number"}


def fields(value, path=""):
    """The paths of all parts of a JSON value, with their types: {"usage.input_tokens number", "output[].id text", ...}."""
    if isinstance(value, list):
        return {path + "[]"}.union(*(fields(part, path + "[]") for part in value))
    if not isinstance(value, dict):
        return {f"{path} {KINDS[type(value)]}"}
    named = path.rpartition(".")[2] in NAMED
    return {path + "{}"} if named else {path + "{}"}.union(*(fields(part, f"{path}.{name}".lstrip(".")) for name, part in value.items()))


def outline(exchange):
    """Its status, and each event with its fields. Equal ones in a row count once: there are as many as there are words."""
    lines = [(f"{exchange.status} {exchange.type}", set())]
    for event in exchange.events() if exchange.is_stream else [exchange.json()]:
        line = event.get("type", "data"), fields(event)
        if line != lines[-1]:
            lines.append(line)
    return lines


def difference(recorded, now):
    """Of two outlines: other events, or other fields of the same; "" if there is none."""
    found = list(difflib.unified_diff([kind for kind, _ in recorded], [kind for kind, _ in now], "recorded", "now", lineterm=""))
    if not found:
        for (kind, before), (_, after) in zip(recorded, now, strict=True):
            found += [f"{kind}: {'no more' if one in before else 'now'} {one}" for one in sorted(before ^ after)]
    return "\n".join(found)
