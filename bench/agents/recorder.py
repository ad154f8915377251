"""Stands between a program and the server, passes everything on as it comes, and keeps what was said."""

import http.client
import http.server
import json
import threading
import time
import urllib.parse

NOT_PASSED_ON = {"connection", "transfer-encoding", "keep-alive", "host", "content-length", "accept-encoding"}
BLOCK = 1 << 16


class Recorder:
    """Listens at .port; .exchanges has one row for each request, in the order of their beginning."""

    def __init__(self, server):
        address = urllib.parse.urlsplit(server)
        self.target, self.exchanges, self.lock = (address.hostname, address.port), [], threading.Lock()
        recorder = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def __getattr__(self, name):
                if name.startswith("do_"):
                    return lambda: recorder.pass_on(self)
                raise AttributeError(name)

            def log_message(self, *_):
                pass

        self.listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.listener.daemon_threads = True
        self.port = self.listener.server_address[1]
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()

    def take(self):
        """The rows since the last call."""
        with self.lock:
            rows, self.exchanges = self.exchanges, []
        return rows

    def pass_on(self, handler):
        body = body_of(handler)
        row = {"method": handler.command, "path": handler.path, "request": as_json(body), "status": None, "answer": "", "ended": False,
               "begun": time.time()}
        with self.lock:
            self.exchanges.append(row)
        connection = http.client.HTTPConnection(*self.target)
        headers = {name: value for name, value in handler.headers.items() if name.lower() not in NOT_PASSED_ON}
        try:
            connection.request(handler.command, handler.path, body, headers)
            self.answer(handler, row, connection.getresponse())
        except OSError:
            handler.close_connection = True  # one of both left; the other learns of it now
        finally:
            connection.close()
            row["seconds"] = time.time() - row["begun"]

    def answer(self, handler, row, response):
        row["status"], row["id"] = response.status, response.getheader("x-request-id")
        handler.send_response_only(response.status, response.reason)
        length = response.getheader("content-length")
        has_body = handler.command != "HEAD" and response.status not in (204, 304)
        for name, value in response.getheaders():
            if name.lower() not in NOT_PASSED_ON:
                handler.send_header(name, value)
        if length is not None:
            handler.send_header("Content-Length", length)
        elif has_body:
            handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        said = b""
        while has_body and (block := response.read1(BLOCK)):
            said += block
            row["answer"] = said.decode(errors="replace")
            handler.wfile.write(block if length is not None else b"%x\r\n%s\r\n" % (len(block), block))
            handler.wfile.flush()
        if has_body and length is None:
            handler.wfile.write(b"0\r\n\r\n")
        row["ended"] = True


def body_of(handler):
    if handler.headers.get("Transfer-Encoding", "").lower() != "chunked":
        return handler.rfile.read(int(handler.headers.get("Content-Length") or 0)) or None
    body = b""
    while size := int(handler.rfile.readline().split(b";")[0], 16):
        body += handler.rfile.read(size)
        handler.rfile.readline()
    handler.rfile.readline()
    return body


def as_json(body):
    try:
        return json.loads(body) if body else None
    except ValueError:
        return {"unreadable": body.decode(errors="replace")}
