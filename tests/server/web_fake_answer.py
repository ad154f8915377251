"""The answers of the scripted server: their steps, and the events and the stored messages that they become. Events come in the
order and with the fields of the real server's, which web_stale_streams_test.py compares."""

import json
import os
import re
import time

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../CMakeLists.txt")) as _file:
    VERSION = re.search(r"VERSION (\d+\.\d+\.\d+) LANGUAGES", _file.read())[1]
CREATED = 1_700_000_000
CHUNK_OF_WAITING = b": still working\n\n"


# What a script returns: a list of steps.
def text(value, pieces=1, pause=0.0):
    return ("text", value, pieces, pause)


def thought(value, pause=0.0):
    return ("thought", value, pause)


def call(server, name, arguments, output=None, error=None):
    """With neither output nor error: a call that the answer's limit does not let run."""
    return ("call", server, name, arguments, output, error)


def approval(server, name, arguments, pause=0.0):
    """As the real server sends it: the item first, its arguments at its end, `pause` later."""
    return ("approval", server, name, arguments, pause)


def unknown_call(name, arguments):
    """A call of a tool that the request does not offer."""
    return ("unknown_call", name, arguments)


def ending(status="completed", reason=None, **about):
    """How the answer ends; about: fields of "anabranch"."""
    return ("ending", status, reason, about)


def wait(seconds):
    return ("wait", seconds)


CUT, FAIL = ("cut",), ("fail",)
NO_DRAFTS = {"rounds": 0, "drafted": 0, "accepted": 0, "sources": {}}


def parts_of(content):
    """The text of a user's message, and its images as the server stores them."""
    if isinstance(content, str):
        return content, []
    said, images = "", []
    for part in content:
        if part["type"] == "input_image":
            images.append({"at": len(said), "url": part["image_url"]})
        else:
            said += part["text"]
    return said, images


def echo_of(body, session):
    """What a response repeats of its request."""
    given = {name: body.get(name) for name in ("instructions", "max_output_tokens", "max_tool_calls", "previous_response_id",
                                               "safety_identifier", "prompt_cache_key", "user")}
    tools = [({"description": None, "parameters": None, "strict": None} if tool["type"] == "function" else {}) | tool
             for tool in body.get("tools", [])]
    return given | {
        "parallel_tool_calls": True, "reasoning": {"effort": None, "summary": None}, "text": {"format": {"type": "text"}},
        "tools": tools, "tool_choice": body.get("tool_choice", "auto"), "truncation": "disabled",
        "temperature": body.get("temperature", 0.6), "top_p": body.get("top_p", 0.95), "presence_penalty": 0.0,
        "frequency_penalty": 0.0, "top_logprobs": 0, "store": body.get("store", True), "background": False,
        "service_tier": "default", "metadata": {}, "conversation": {"id": session["id"]} if session else None}


class Stored:
    """What the session has of the answer, as the real server stores it; nothing without a session."""

    def __init__(self, fake, session, parent, response_id):
        self.fake, self.session, self.parent, self.response_id = fake, session, parent, response_id
        self.ids = []

    def add(self, **message):
        if self.session:
            self.parent = self.fake.add(self.session, self.parent, **message)
            self.ids.append(self.parent)

    def user(self, content):
        said, images = parts_of(content)
        self.add(role="user", content=said, **({"images": images} if images else {}))

    def assistant(self, content, reasoning="", status="completed", **more):
        thoughts = {"reasoning_content": reasoning, "thinking_seconds": 0.5} if reasoning else {}
        usage = {"input_tokens": 100, "cached_tokens": 93, "output_tokens": 120, "reasoning_tokens": 40 if reasoning else 0}
        self.add(role="assistant", content=content, model=self.fake.model, response_id=self.response_id, status=status, seconds=1.0,
                 usage=usage, cache_point={"tokens": 220}, **thoughts, **more)

    def call(self, number, server, name, arguments, asks=False):
        approval_request = {"approval_request_id": f"mcpr_{number}"} if asks else {}
        self.assistant("", tool_calls=[{"id": f"call_{number}", "type": "function",
                                        "function": {"name": f"{server}__{name}", "arguments": arguments}}],
                       mcp_calls={f"call_{number}": {"server_label": server, "name": name} | approval_request})

    def result(self, number, server, name, output, error):
        self.add(role="tool", content=error or output, tool_call_id=f"call_{number}", seconds=0.1,
                 mcp={"server_label": server, "name": name} | ({"error": True} if error else {}))


class Answer:
    """Sends one scripted answer as events, and stores it in its session."""

    def __init__(self, handler, body, session, parent):
        self.handler, self.fake, self.body, self.session = handler, handler.fake, body, session
        self.id = self.fake.new_id("resp")
        self.stored = Stored(self.fake, session, parent, self.id)
        self.output, self.number = [], 0
        self.status, self.reason, self.about = "completed", None, {}
        self.next = None  # the step after the one that is sent
        given = body["input"] if isinstance(body["input"], list) else [{"role": "user", "content": body["input"]}]
        self.decisions = [item for item in given if item.get("type") == "mcp_approval_response"] if (
            given and given[-1].get("type") == "mcp_approval_response") else []
        self.approved = [item["approval_request_id"] for item in self.decisions if item["approve"]]
        self.begins_with_call = bool(self.approved)
        self.users = [item for item in given if item.get("role") == "user"]
        before = self.fake.path(session, parent) if session else []
        self.asked = [*(message["content"] for message in before if message["role"] == "user"),
                      *(parts_of(item["content"])[0] for item in self.users)]
        self.begins = all(item.get("role") == "user" for item in given) and not any(m["role"] == "assistant" for m in before)

    # ---- Events.

    def write(self, data):
        self.handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def emit(self, kind, **fields):
        data = json.dumps({"type": kind, "sequence_number": self.number} | fields)
        self.number += 1
        self.write(f"event: {kind}\ndata: {data}\n\n".encode())

    def response(self, status, usage=None, error=None, about=None):
        done = status == "completed"
        response = {"id": self.id, "object": "response", "created_at": CREATED, "status": status,
                    "completed_at": CREATED + 1 if done else None, "error": error,
                    "incomplete_details": {"reason": self.reason} if self.reason else None,
                    "model": self.body.get("model", self.fake.model), "output": self.output}
        return response | echo_of(self.body, self.session) | {"usage": usage} | ({"anabranch": about} if about else {})

    def send(self):
        for item in self.users:
            self.stored.user(item["content"])
        self.handler.send_response(200)
        self.handler.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.handler.send_header("Transfer-Encoding", "chunked")
        self.handler.end_headers()
        self.emit("response.created", response=self.response("in_progress"))
        self.emit("response.in_progress", response=self.response("in_progress"))
        done = {"content": "", "reasoning_content": ""}
        try:
            self.send_lists()
            self.refuse()
            steps = self.fake.script(self.asked[-1] if self.asked else "", self.body)
            if self.send_steps(done, steps):
                self.write_end()
        except (BrokenPipeError, ConnectionResetError):
            self.stored.assistant(done["content"], done["reasoning_content"], "incomplete")

    def write_end(self):
        self.handler.wfile.write(b"0\r\n\r\n")

    def send_steps(self, done, steps):
        """False when the connection was cut."""
        for at, step in enumerate(steps):
            self.next = next((one for one in steps[at + 1:] if one[0] != "wait"), None)
            if step in (CUT, FAIL) and (done["content"] or done["reasoning_content"]):
                self.stored.assistant(done["content"], done["reasoning_content"], "incomplete")
            if step == CUT:
                self.handler.close_connection = True
                self.handler.connection.shutdown(2)
                return False
            if step == FAIL:
                self.fail("The engine failed.")
                return True
            getattr(self, "send_" + step[0])(done, *step[1:])
        self.end(done)
        return True

    def fail(self, message):
        self.emit("error", code="engine_error", message=message, param=None)
        self.emit("response.failed", response=self.response("failed", error={"code": "server_error", "message": message}))

    def end(self, done):
        for index, item in enumerate(self.output):
            if item["type"] == "mcp_call" and item["status"] == "in_progress":
                self.finish(item | {"status": "incomplete", "error": "This was not run"}, index)
        if done["content"] or done["reasoning_content"]:
            self.stored.assistant(done["content"], done["reasoning_content"], self.status)
        reasoning = 40 if done["reasoning_content"] else 0
        usage = {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 93, "cache_write_tokens": 0}, "output_tokens": 120,
                 "output_tokens_details": {"reasoning_tokens": reasoning}, "total_tokens": 220, "speculation": NO_DRAFTS}
        thinking = {} if self.begins_with_call else {"thinking": {"enabled": bool(reasoning), "reason": "the script"}}
        kept = {"message_ids": self.stored.ids} if self.session else {}
        self.emit(f"response.{self.status}", response=self.response(self.status, usage, about=thinking | {"cut": None} | kept | self.about))

    # ---- Items.

    def begin(self, item):
        """The item is there, in progress; what later events of it name."""
        self.emit("response.output_item.added", output_index=len(self.output), item=item)
        return {"item_id": item["id"], "output_index": len(self.output)}

    def finish(self, item, index=None):
        if index is None:
            self.output.append(item)
        else:
            self.output[index] = item
        at = len(self.output) - 1 if index is None else index
        self.emit("response.output_item.done", output_index=at, item=item)

    def send_lists(self):
        """The tools of each server, when a conversation begins; later only where they could not be listed."""
        known = {server["id"]: server for server in self.fake.mcp}
        for tool in self.body.get("tools", []):
            server = known.get(tool.get("server_label"), {})
            if tool["type"] != "mcp" or not (self.begins or server.get("error")):
                continue
            item = {"type": "mcp_list_tools", "id": self.fake.new_id("mcpl"), "server_label": tool["server_label"], "tools": []}
            place = self.begin(item)
            self.emit("response.mcp_list_tools.in_progress", **place)
            tools = [{"name": one["name"], "description": one.get("description", ""), "input_schema": one["input_schema"],
                      "annotations": {}} for one in server.get("tools", [])]
            error = {"error": server["error"]} if server.get("error") else {}
            self.emit(f"response.mcp_list_tools.{'failed' if error else 'completed'}", **place)
            self.finish(item | {"tools": tools} | error)

    def refuse(self):
        """What was not allowed becomes a result, of which no event tells."""
        for decision in self.decisions:
            call = next((call for message in (self.session or {"tree": {}})["tree"].values()
                         for call in message.get("mcp_calls", {}).values()
                         if call.get("approval_request_id") == decision["approval_request_id"]), None)
            if call and not decision["approve"]:
                self.stored.result(decision["approval_request_id"].removeprefix("mcpr_"), call["server_label"], call["name"], None,
                                   "The user did not allow this call.")

    def send_wait(self, done, seconds):
        """Waits for so long, and for the model."""
        left = max(1, int(seconds / 0.05))
        while left > 0 or self.fake.state != "loaded":
            left -= 1
            time.sleep(0.05)
            self.write(CHUNK_OF_WAITING)

    def send_pieces(self, item, pieces, kind, pause, done, name):
        """A text as events: of the answer, or of a thought. What breaks off behind it leaves it open."""
        thought = kind == "reasoning_text"
        extra, logprobs = ({}, {}) if thought else ({"annotations": [], "logprobs": []}, {"logprobs": []})
        place = self.begin(item | {"status": "in_progress"}) | {"content_index": 0}
        self.emit("response.content_part.added", **place, part={"type": kind, "text": ""} | extra)
        value = ""
        for piece in pieces:
            self.emit(f"response.{kind}.delta", **place, delta=piece, **logprobs)
            value += piece
            done[name] += piece
            if pause:
                time.sleep(pause)
        if self.next in (CUT, FAIL):
            return
        part = {"type": kind, "text": value} | extra
        self.emit(f"response.{kind}.done", **place, text=value, **logprobs)
        self.emit("response.content_part.done", **place, part=part)
        at_limit = self.next and self.next[0] == "ending" and self.next[2] == "max_output_tokens"
        self.finish(item | {"content": [part], "status": "incomplete" if at_limit else "completed"})

    def send_text(self, done, value, pieces, pause):
        size = max(1, -(-len(value) // pieces))
        item = {"type": "message", "id": self.fake.new_id("msg"), "role": "assistant", "content": []}
        self.send_pieces(item, [value[at:at + size] for at in range(0, len(value), size)], "output_text", pause, done, "content")

    def send_thought(self, done, value, pause):
        item = {"type": "reasoning", "id": self.fake.new_id("rs"), "summary": [], "content": []}
        self.send_pieces(item, re.findall(r"\S+\s*", value), "reasoning_text", pause, done, "reasoning_content")

    def send_call(self, done, server, name, arguments, output, error):
        """A call that needs no consent, or the one that the request consents to."""
        asked = self.approved.pop(0).removeprefix("mcpr_") if self.approved else None
        number = asked or self.fake.new_id("")[1:]
        item = {"type": "mcp_call", "id": f"mcp_{number}", "server_label": server, "name": name, "arguments": arguments if asked else "",
                "output": None, "error": None, "approval_request_id": f"mcpr_{number}" if asked else None, "status": "in_progress"}
        place = self.begin(item)
        self.output.append(item)
        self.emit("response.mcp_call.in_progress", **place)
        if not asked:
            self.emit("response.mcp_call_arguments.delta", delta=arguments, **place)
            self.stored.call(number, server, name, arguments)
        self.emit("response.mcp_call_arguments.done", arguments=arguments, **place)
        self.output[-1] = item = item | {"arguments": arguments}
        if output is None and error is None:
            return
        self.stored.result(number, server, name, output, error)
        item = item | {"output": output, "error": error, "status": "failed" if error else "completed"}
        self.emit("response.mcp_call.failed" if error else "response.mcp_call.completed", **place)
        self.finish(item, place["output_index"])

    def send_approval(self, done, server, name, arguments, pause):
        number = self.fake.new_id("")[1:]
        item = {"type": "mcp_approval_request", "id": f"mcpr_{number}", "server_label": server, "name": name}
        self.begin(item | {"arguments": ""})
        time.sleep(pause)
        self.stored.call(number, server, name, arguments, asks=True)
        self.finish(item | {"arguments": arguments})

    def send_unknown_call(self, done, name, arguments):
        item = {"type": "function_call", "id": self.fake.new_id("fc"), "call_id": self.fake.new_id("call"), "name": name}
        place = self.begin(item | {"arguments": "", "status": "in_progress"})
        self.emit("response.function_call_arguments.delta", delta=arguments, **place)
        self.emit("response.function_call_arguments.done", arguments=arguments, name=name, **place)
        self.finish(item | {"arguments": arguments, "status": "completed"})

    def send_ending(self, done, status, reason, about):
        self.status, self.reason, self.about = status, reason, about


def continuation(model, pieces=(" was", " a river."), finish="length"):
    """A stream of /v1/completions."""
    head = {"id": "cmpl-1", "object": "text_completion", "created": CREATED, "model": model, "system_fingerprint": f"anabranch-{VERSION}"}

    def choice(said, reason=None, **more):
        return {"choices": [{"text": said, "index": 0, "logprobs": None, "finish_reason": reason}], "usage": None} | more
    timings = {name: 1.0 for name in ("cache_n", "prompt_n", "prompt_ms", "prompt_per_token_ms", "prompt_per_second", "predicted_n",
                                      "predicted_ms", "predicted_per_token_ms", "predicted_per_second")}
    usage = {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14, "prompt_tokens_details": {"cached_tokens": 0},
             "completion_tokens_details": {"reasoning_tokens": 0}, "speculation": NO_DRAFTS}
    chunks = [*map(choice, pieces), choice("", finish, timings=timings, anabranch={"cut": None}), {"choices": [], "usage": usage}]
    return "".join(f"data: {json.dumps(head | chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
