"""A server that plays Anabranch for the web page: the real files of src/server/web, sessions in memory, and answers that a
test scripts. It says what no real model can be made to say. For looking at the page by hand:
python tests/server/web_fake_server.py [PORT]"""

import http.server
import json
import os
import re
import sys
import threading
import time
import urllib.parse

from web_fake_answer import VERSION, Answer, approval, call, continuation, text, thought

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WEB = os.path.join(ROOT, "src", "server", "web")
TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
         ".html": "text/html; charset=utf-8", ".woff2": "font/woff2"}

PAGES = {"/": "index.html", "/status": "status.html", "/docs": "docs.html"}


def openapi():
    with open(os.path.join(ROOT, "src", "server", "api", "openapi.json")) as file:
        return json.loads(file.read().replace("@PROJECT_VERSION@", VERSION))


def policy():
    """The Content-Security-Policy of the real server, from its source."""
    source = open(os.path.join(WEB, "web_files.h")).read()
    text = re.search(r"kWebPolicy =(.*?);\n", source, re.S).group(1)
    return "".join(re.findall(r'"([^"]*)"', text))


class Fake:
    """State of one server. script(last user text, request body) -> list of steps; see web_fake_answer.py."""

    def __init__(self, script, mcp=(), handler=None):
        self.script = script
        self.mcp = list(mcp)
        self.key = None            # requests need it
        self.failures = []         # (status, headers, error) for the next POSTs of answers
        self.bodies = []           # of POST /v1/responses
        self.paths = []            # all requests
        self.sessions = {}
        self.sessions_on = True
        self.health = {"running": 0, "queued": 0}
        self.health_status = 200
        self.state = "loaded"
        self.counter = 0
        self.model = "fake-7b"
        self.images = False        # whether it takes them
        self.chat = True           # whether the model has a chat template
        self.lock = threading.RLock()
        handler = type("Handler", (handler or Handler,), {"fake": self})
        self.server = None
        self.make_server = lambda port: http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
        self.connections = []

    def start(self, port=0):
        self.server = self.make_server(port)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        for connection in self.connections:
            try:
                connection.shutdown(2)
            except OSError:
                pass  # closed already
        self.connections.clear()

    def new_id(self, kind):
        with self.lock:
            self.counter += 1
            return f"{kind}_{self.counter:06d}"

    # ---- Sessions, as docs/sessions.md has them.

    def new_session(self, title="", settings=None):
        session = {"id": self.new_id("conv"), "object": "session", "title": title, "created_at": int(time.time()),
                   "updated_at": time.time(), "head": None, "model": "fake", "settings": settings or {}, "tree": {}}
        self.sessions[session["id"]] = session
        return session

    def add(self, session, parent, **message):
        message = {"id": self.new_id("msg"), "parent": parent, "created_at": int(time.time())} | message
        session["tree"][message["id"]] = message
        session["head"] = message["id"]
        session["updated_at"] = time.time()
        return message["id"]

    def path(self, session, head):
        messages = []
        while head:
            message = session["tree"][head]
            siblings = [m["id"] for m in session["tree"].values() if m["parent"] == message["parent"]]
            messages.append(message | {"siblings": siblings})
            head = message["parent"]
        return messages[::-1]

    def newest_leaf(self, session, head):
        while True:
            children = [m["id"] for m in session["tree"].values() if m["parent"] == head]
            if not children:
                return head
            head = children[-1]

    def describe(self, session, head=None):
        shown = {k: v for k, v in session.items() if k != "tree"} | {"message_count": len(session["tree"]), "bytes": 1}
        if head is not None:
            shown["messages"] = self.path(session, head or session["head"])
        return shown


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        self.fake.connections.append(self.connection)

    def log_message(self, *_):
        pass

    def answer(self, status, body, content_type="application/json", headers=()):
        data = body if isinstance(body, bytes) else json.dumps(body).encode() if not isinstance(body, str) else body.encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers:
            self.send_header(name, value)
        try:
            self.end_headers()
            self.wfile.write(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the page was left meanwhile

    def error(self, status, message, code, headers=()):
        self.answer(status, {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}, headers=headers)

    def file(self, name):
        path = os.path.normpath(os.path.join(WEB, name))
        if not path.startswith(WEB) or not os.path.isfile(path):
            return self.error(404, "There is no such file", "unknown_url")
        with open(path, "rb") as file:
            self.answer(200, file.read(), TYPES[os.path.splitext(path)[1]], [
                ("Content-Security-Policy", policy()), ("X-Content-Type-Options", "nosniff"), ("Cache-Control", "no-cache"),
                ("Referrer-Policy", "no-referrer")])

    def body(self):
        length = int(self.headers.get("Content-Length") or 0)
        return json.loads(self.rfile.read(length) or b"{}")

    def do_GET(self):
        self.route("GET")

    def do_POST(self):
        self.route("POST")

    def do_DELETE(self):
        self.route("DELETE")

    def route(self, method):
        fake = self.fake
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        body = self.body() if method == "POST" else {}
        fake.paths.append(f"{method} {self.path}")
        if method == "GET" and url.path in PAGES:
            return self.file(PAGES[url.path])
        if method == "GET" and url.path == "/openapi.json":
            return self.answer(200, openapi())
        if method == "GET" and url.path.startswith("/web/"):
            return self.file(url.path[5:])
        if method == "GET" and url.path == "/favicon.ico":  # which browsers may ask for beside the page's link
            return self.file("icon.svg")
        allowed = fake.key is None or self.headers.get("Authorization") == f"Bearer {fake.key}"
        if url.path == "/health" and fake.health_status != 200:
            return self.error(fake.health_status, "Not here", "none")
        if url.path == "/health":
            return self.answer(200, self.health() if allowed else {"status": "ok"})
        if not allowed:
            return self.error(401, "This server asks for an API key", "invalid_api_key")
        if method == "GET" and url.path == "/v1/models":
            return self.answer(200, {"object": "list", "data": self.models()})
        if url.path == "/v1/mcp/servers":  # GET and POST
            return self.answer(200, {"object": "list", "data": fake.mcp})
        if url.path == "/v1/mcp/calls":
            return self.answer(200, {"object": "list", "data": [{"at": time.time() - 40, "server_label": "time",
                                     "name": "get_current_time", "seconds": 0.012, "output_bytes": 88}] if fake.mcp else []})
        if url.path == "/v1/completions":
            fake.bodies.append(body)
            return self.answer(200, continuation(fake.model), "text/event-stream; charset=utf-8")
        if url.path == "/v1/responses":
            return self.answer_request(body)
        if url.path.startswith("/v1/sessions"):
            if not fake.sessions_on:
                return self.error(404, "This server keeps no sessions", "sessions_off")
            with fake.lock:
                return self.session_route(method, url.path[len("/v1/sessions"):].strip("/").split("/"), query, body)
        self.error(404, f"Unknown route: {method} {url.path}", "unknown_url")

    def models(self):
        inputs = ["text", "image"] if self.fake.images else ["text"]
        return [{"id": self.fake.model, "object": "model", "state": self.fake.state, "context_length": 32768, "weight_bytes": 4 << 30,
                 "architecture": {"input_modalities": inputs, "output_modalities": ["text"]}, "pinned": True, "unload_after_s": None,
                 "chat": self.fake.chat, "defaults": {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "min_p": 0}},
                {"id": "fake-1b", "object": "model", "state": "unloaded"}]

    def health(self):
        tokens = int((time.time() % 1000) * 40)
        engine = {"running": 0, "queued": 0, "preempted": 0, "state_bytes": 40 << 20, "state_budget_bytes": 8 << 30, "requests": 7,
                  "finished": 6, "cancelled": 1, "failed": 0, "prompt_tokens": 9000, "completion_tokens": tokens,
                  "speculation": {"drafted": tokens, "accepted": int(tokens * 0.7)}} | self.fake.health
        return {"status": "ok", "version": VERSION, "uptime_s": time.time() % 1000,
                "model": {"id": self.fake.model, "family": "qwen3_5", "parameters": 7 * 10**9, "layers": 32, "context_length": 32768,
                          "draft_sources": ["ngram", "mtp"], "weight_bytes": 4 << 30},
                "engine": engine,
                "cache": {"kv": "exact", "lookups": 10, "ram_hits": 6, "disk_hits": 1, "prompt_tokens": tokens * 2,
                          "cached_tokens": tokens, "ram_bytes": 1 << 28, "blocks": 40, "points": 12, "misses": {"new_text": 3},
                          "last_miss": "the rest of the prompt is new",
                          "disk": {"bytes": 1 << 30, "budget_bytes": 8 << 30, "writable": True, "written_bytes": 2 << 30}},
                "memory": {"machine": {"total_bytes": 32 << 30, "available_bytes": 20 << 30},
                           "process": {"resident_bytes": 5 << 30}, "device": None},
                "models": [model | ({"engine": engine} if model["state"] == "loaded" else {}) for model in self.models()]}

    # ---- Sessions.

    def session_route(self, method, parts, query, body):
        fake = self.fake
        name, action = (parts + ["", ""])[:2]
        if not name:
            return self.answer(200, self.list_sessions(query) if method == "GET" else fake.describe(
                fake.new_session(body.get("title", ""), body.get("settings"))))
        if name == "import":
            return self.answer(200, {"object": "list", "data": [self.import_session(body["jsonl"])]})
        session = fake.sessions.get(name)
        if not session:
            return self.error(404, "There is no such session", "session_not_found")
        if method == "DELETE":
            del fake.sessions[name]
            return self.answer(200, {"id": name, "object": "session", "deleted": True})
        if action == "branch":
            copy = fake.new_session(body.get("title", ""), session["settings"])
            for message in fake.path(session, body["message"]):
                copy["tree"][message["id"]] = session["tree"][message["id"]] | {}
            copy["head"] = body["message"]
            return self.answer(200, fake.describe(copy))
        if action == "export":
            messages = fake.path(session, session["head"])
            return self.answer(200, "".join(json.dumps(line) + "\n" for line in [{"session": {"title": session["title"]}}, *messages])
                               if query["format"] == "jsonl" else f"# {session['title']}\n", "text/plain")
        if method == "GET":
            head = query.get("head") or session["head"]
            return self.answer(200, fake.describe(session, head or ""))
        for field in ("title", "settings", "head"):
            if field in body:
                session[field] = fake.newest_leaf(session, body[field]) if field == "head" else body[field]
        self.answer(200, fake.describe(session))

    def list_sessions(self, query):
        found = []
        for session in sorted(self.fake.sessions.values(), key=lambda one: -one["updated_at"]):
            shown = self.fake.describe(session)
            wanted = query.get("query", "").lower()
            if wanted:
                texts = [session["title"]] + [m.get("content") or "" for m in session["tree"].values()]
                hits = [t for t in texts if wanted in t.lower()]
                if not hits:
                    continue
                shown["snippet"] = [{"text": wanted, "match": True}]
            found.append(shown)
        return {"object": "list", "data": found, "has_more": False}

    def import_session(self, lines):
        fake, head = self.fake, None
        rows = [json.loads(line) for line in lines.splitlines() if line.strip()]
        session = fake.new_session(rows[0].get("session", {}).get("title", ""))
        for row in rows[1:]:
            images = {"images": row["images"]} if "images" in row else {}
            head = fake.add(session, head, role=row["role"], content=row.get("content"), **images)
        return fake.describe(session)

    # ---- Answers.

    def answer_request(self, body):
        fake = self.fake
        fake.bodies.append(body)
        if fake.failures:
            status, headers, message, code = fake.failures.pop(0)
            return self.error(status, message, code, headers)
        conversation = body.get("conversation")
        session = parent = None
        if conversation:
            session = fake.sessions.get(conversation["id"])
            if not session:
                return self.error(404, "There is no such conversation", "conversation_not_found")
            parent = conversation.get("parent", session["head"])
            if parent is not None and parent not in session["tree"]:
                return self.error(400, "'conversation.parent' must be a message's id, such as msg_12", "invalid_value")
        Answer(self, body, session, parent).send()


def demonstration(said, body):
    """What the server answers when it is looked at by hand."""
    if any(item.get("type") == "mcp_approval_response" for item in body["input"]):
        return [call("time", "get_current_time", '{"timezone": "Europe/Paris"}', '{"time": "14:05"}'),
                text("It is **14:05** in Paris.")]
    if "time" in said:
        return [thought("The user wants the time, so I need the tool. " * 3), approval("time", "get_current_time", '{"timezone": "Europe/Paris"}')]
    with open(os.path.join(ROOT, "tests", "server", "web_sample.md")) as file:
        return [thought("Let me think about how to put this clearly. " * 6, 0.02), text(file.read(), 120, 0.03)]


if __name__ == "__main__":
    tool = {"name": "get_current_time", "description": "The time in a time zone", "input_schema": {}}
    fake = Fake(demonstration, [{"id": "time", "object": "mcp_server", "transport": "stdio", "state": "connected", "tools": [tool]}])
    fake.start(int(sys.argv[1]) if len(sys.argv) > 1 else 8090)
    print(fake.url, flush=True)
    threading.Event().wait()
