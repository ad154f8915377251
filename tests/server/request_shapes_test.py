"""Requests of every shape that proxies and servers are known to disagree about, sent raw: to the server itself, and
through nginx with its bodies buffered and not.

To the server: each shape has the status it must get, and whether the connection must close behind it. A marker
request follows each; it must be answered exactly when the connection stays open. Through nginx: the server must see at
most one request for each shape, which nginx sent, and the request after it must get its own answer. Without nginx (Debian's
package nginx-light) that part is skipped.
"""

import contextlib
import re
import subprocess
import time

import pytest

from harness import clients
from harness.needs import program_named
from harness.waiting import wait_for

MARKER = b"GET /v1/marker HTTP/1.1\r\nHost: localhost\r\n\r\n"
BODY = b'{"prompt": 1}'  # the server's answer: 400, but only once the whole body is there
POST = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
CHUNK = b"%x\r\n%s\r\n" % (len(BODY), BODY)


def get(line=b"GET /v1/models HTTP/1.1", host=b"Host: localhost\r\n", more=b""):
    return line + b"\r\n" + host + more + b"\r\n"


def post(headers, body=BODY):
    return POST + headers + b"\r\n" + body


OPEN, CLOSED = False, True

# name: (bytes, status, whether the connection closes). A status of None: there is no answer, as the server waits for
# more of the request.
SHAPES = {
    # --- sound requests ---
    "get": (get(), 200, OPEN),
    "head": (get(b"HEAD /v1/models HTTP/1.1"), 200, OPEN),
    "post with a length": (post(LENGTH), 400, OPEN),
    "post in chunks": (CHUNKED + CHUNK + b"0\r\n\r\n", 400, OPEN),
    "chunked in capitals": (POST + b"TRANSFER-ENCODING: Chunked\r\n\r\n" + CHUNK + b"0\r\n\r\n", 400, OPEN),
    "chunk sizes with zeros in front": (CHUNKED + b"000%x\r\n%s\r\n000\r\n\r\n" % (len(BODY), BODY), 400, OPEN),
    "chunk extensions": (CHUNKED + b'%x;a=b;c="d"\r\n%s\r\n0;e\r\n\r\n' % (len(BODY), BODY), 400, OPEN),
    "trailers": (CHUNKED + CHUNK + b"0\r\nHost: evil.example\r\nContent-Length: 50\r\n\r\n", 400, OPEN),
    "an empty line before": (b"\r\n" + get(), 200, OPEN),
    "get with a body": (get(more=b"Content-Length: 5\r\n") + b"GET /", 200, OPEN),
    "connection: close": (get(more=b"Connection: close\r\n"), 200, CLOSED),
    "close among other options": (get(more=b"Connection: keep-alive, Close\r\n"), 200, CLOSED),
    "HTTP/1.0": (b"GET /v1/models HTTP/1.0\r\n\r\n", 200, CLOSED),
    "HTTP/1.0, kept": (b"GET /v1/models HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 200, OPEN),
    "absolute target": (get(b"GET http://localhost/v1/models HTTP/1.1"), 200, OPEN),
    "zeros before a length": (post(b"Content-Length: 000%d\r\n" % len(BODY)), 400, OPEN),
    "tabs around a value": (get(more=b"X:\t a \t\r\n"), 200, OPEN),
    "continue": (post(LENGTH + b"Expect: 100-continue\r\n"), 100, OPEN),
    # --- Transfer-Encoding ---
    "TE xchunked": (POST + b"Transfer-Encoding: xchunked\r\n\r\n", 400, CLOSED),
    "TE identity": (POST + b"Transfer-Encoding: identity\r\n\r\n", 400, CLOSED),
    "TE chunked, identity": (POST + b"Transfer-Encoding: chunked, identity\r\n\r\n" + b"0\r\n\r\n", 400, CLOSED),
    "TE identity, chunked": (POST + b"Transfer-Encoding: identity, chunked\r\n\r\n" + b"0\r\n\r\n", 400, CLOSED),
    "TE gzip, chunked": (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + b"0\r\n\r\n", 400, CLOSED),
    "TE chunked twice": (POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n" + b"0\r\n\r\n", 400, CLOSED),
    "TE on two lines": (POST + b"Transfer-Encoding: chunked\r\n" * 2 + b"\r\n0\r\n\r\n", 400, CLOSED),
    "TE chunked, then another line": (POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n", 400, CLOSED),
    "TE quoted": (POST + b'Transfer-Encoding: "chunked"\r\n\r\n', 400, CLOSED),
    "TE with a parameter": (POST + b"Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n", 400, CLOSED),
    "TE with a comma": (POST + b"Transfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n", 400, CLOSED),
    "TE empty": (POST + b"Transfer-Encoding:\r\n\r\n", 400, CLOSED),
    "TE with a vertical tab": (POST + b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n", 400, CLOSED),
    "TE with a space in its name": (POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400, CLOSED),
    "TE with an underscore": (post(LENGTH + b"Transfer_Encoding: chunked\r\n"), 400, OPEN),
    "TE with HTTP/1.0": (b"POST /v1/completions HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, CLOSED),
    "TE and a length": (post(LENGTH + b"Transfer-Encoding: chunked\r\n", b"0\r\n\r\n"), 400, CLOSED),
    "a length and TE": (post(b"Transfer-Encoding: chunked\r\n" + LENGTH, b"0\r\n\r\n"), 400, CLOSED),
    "a length and TE identity": (post(LENGTH + b"Transfer-Encoding: identity\r\n"), 400, CLOSED),
    "TE folded": (POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", 400, CLOSED),
    "TE behind a bare CR": (POST + b"X: a\rTransfer-Encoding: chunked\r\n\r\n", 400, CLOSED),
    # --- Content-Length ---
    "two equal lengths": (post(LENGTH * 2), 400, CLOSED),
    "two lengths": (post(LENGTH + b"Content-Length: 0\r\n"), 400, CLOSED),
    "a list of lengths": (post(b"Content-Length: 13, 13\r\n"), 400, CLOSED),
    "length +13": (post(b"Content-Length: +13\r\n"), 400, CLOSED),
    "length -1": (post(b"Content-Length: -1\r\n"), 400, CLOSED),
    "length 1 3": (post(b"Content-Length: 1 3\r\n"), 400, CLOSED),
    "length 0xd": (post(b"Content-Length: 0xd\r\n"), 400, CLOSED),
    "length 13.0": (post(b"Content-Length: 13.0\r\n"), 400, CLOSED),
    "no length": (post(b"Content-Length:\r\n"), 400, CLOSED),
    "a length beyond 64 bits": (post(b"Content-Length: 18446744073709551629\r\n"), 413, CLOSED),
    "length with a space in its name": (post(b"Content-Length : 13\r\n"), 400, CLOSED),
    "length with a tab in its name": (post(b"Content-Length\t: 13\r\n"), 400, CLOSED),
    "length that is too short": (post(b"Content-Length: 12\r\n"), 400, CLOSED),
    "length that is too long": (post(b"Content-Length: 400\r\n"), None, OPEN),
    # --- chunks ---
    "chunk size with a sign": (CHUNKED + b"+d\r\n" + BODY + b"\r\n0\r\n\r\n", 400, CLOSED),
    "chunk size with 0x": (CHUNKED + b"0xd\r\n" + BODY + b"\r\n0\r\n\r\n", 400, CLOSED),
    "chunk size with a space before": (CHUNKED + b" d\r\n" + BODY + b"\r\n0\r\n\r\n", 400, CLOSED),
    "chunk size with a space behind": (CHUNKED + b"d \r\n" + BODY + b"\r\n0\r\n\r\n", 400, CLOSED),
    "chunk size empty": (CHUNKED + b"\r\n" + BODY + b"\r\n0\r\n\r\n", 400, CLOSED),
    "chunk size beyond 64 bits": (CHUNKED + b"1000000000000000d\r\n" + BODY + b"\r\n0\r\n\r\n", 400, CLOSED),
    "chunk size of 64 bits": (CHUNKED + b"ffffffffffffffff\r\n" + BODY + b"\r\n0\r\n\r\n", 413, CLOSED),
    "chunk size with bare LF": (CHUNKED + b"d\n" + BODY + b"\r\n0\r\n\r\n", 400, CLOSED),
    "chunk extension with bare LF": (CHUNKED + b"d;x\n" + BODY + b"\r\n0\r\n\r\n", 400, CLOSED),
    "chunk extension with bare CR": (CHUNKED + b"d;x\ry\r\n" + BODY + b"\r\n0\r\n\r\n", 400, CLOSED),
    "chunk extension without end": (CHUNKED + b"d;" + b"x" * 600 + b"\r\n" + BODY + b"\r\n0\r\n\r\n", 400, CLOSED),
    "chunk longer than it says": (CHUNKED + b"c\r\n" + BODY + b"\r\n0\r\n\r\n", 400, CLOSED),
    "chunk shorter than it says": (CHUNKED + b"e\r\n" + BODY + b"\r\n0\r\n\r\n", 400, CLOSED),
    "chunk ended by bare LF": (CHUNKED + b"d\r\n" + BODY + b"\n0\r\n\r\n", 400, CLOSED),
    "chunk ended by two other bytes": (CHUNKED + b"d\r\n" + BODY + b"XX0\r\n\r\n", 400, CLOSED),
    "last chunk ended by bare LF": (CHUNKED + CHUNK + b"0\n\n", 400, CLOSED),
    "trailer folded": (CHUNKED + CHUNK + b"0\r\nA: b\r\n c\r\n\r\n", 400, CLOSED),
    "trailer without a colon": (CHUNKED + CHUNK + b"0\r\nGET / HTTP/1.1\r\n\r\n", 400, CLOSED),
    # --- lines and fields ---
    "bare LF everywhere": (get().replace(b"\r\n", b"\n"), 400, CLOSED),
    "bare LF in the head": (get(more=b"X: a\n"), 400, CLOSED),
    "bare LF at the end": (b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\n", 400, CLOSED),
    "bare CR in the head": (get(more=b"X: a\rb\r\n"), 400, CLOSED),
    "CR before CR LF": (get(more=b"X: a\r\r\n"), 400, CLOSED),
    "folded": (get(more=b"X: a\r\n b\r\n"), 400, CLOSED),
    "first field folded": (b"GET /v1/models HTTP/1.1\r\n Host: localhost\r\n\r\n", 400, CLOSED),
    "NUL in a value": (get(more=b"X: a\0b\r\n"), 400, CLOSED),
    "NUL in a name": (get(more=b"X\0: a\r\n"), 400, CLOSED),
    "NUL in the target": (get(b"GET /v1\0/models HTTP/1.1"), 400, CLOSED),
    "no name": (get(more=b": a\r\n"), 400, CLOSED),
    "no colon": (get(more=b"X\r\n"), 400, CLOSED),
    "a name in quotes": (get(more=b'"X": a\r\n'), 400, CLOSED),
    "a line of 40,000 bytes": (get(more=b"X: " + b"x" * 40000 + b"\r\n"), 431, CLOSED),
    "10,000 fields": (get(more=b"a: b\r\n" * 10000), 431, CLOSED),
    "a target of 40,000 bytes": (get(b"GET /" + b"x" * 40000 + b" HTTP/1.1"), 431, CLOSED),
    # --- the request line ---
    "two spaces": (get(b"GET  /v1/models HTTP/1.1"), 400, CLOSED),
    "a tab": (get(b"GET\t/v1/models HTTP/1.1"), 400, CLOSED),
    "a space before": (get(b" GET /v1/models HTTP/1.1"), 400, CLOSED),
    "a space in the target": (get(b"GET /v1/ models HTTP/1.1"), 400, CLOSED),
    "a space behind": (get(b"GET /v1/models HTTP/1.1 "), 400, CLOSED),
    "no version": (get(b"GET /v1/models"), 400, CLOSED),
    "HTTP/1.1 in small letters": (get(b"GET /v1/models http/1.1"), 400, CLOSED),
    "HTTP/2.0": (get(b"GET /v1/models HTTP/2.0"), 505, CLOSED),
    "HTTP/1.10": (get(b"GET /v1/models HTTP/1.10"), 400, CLOSED),
    "a bad method": (get(b"G@T /v1/models HTTP/1.1"), 400, CLOSED),
    "a method without end": (get(b"G" * 100 + b" /v1/models HTTP/1.1"), 400, CLOSED),
    "two empty lines before": (b"\r\n\r\n" + get(), 400, CLOSED),
    "a TLS handshake": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, CLOSED),
    "no slash": (get(b"GET v1/models HTTP/1.1"), 400, OPEN),
    "bytes beyond ASCII": (get("GET /v1/models/é HTTP/1.1".encode()), 400, CLOSED),
    # --- hosts ---
    "no host": (get(host=b""), 400, CLOSED),
    "two hosts": (get(host=b"Host: localhost\r\nHost: localhost\r\n"), 400, CLOSED),
    "an empty host": (get(host=b"Host:\r\n"), 400, OPEN),
    "another host": (get(host=b"Host: evil.example\r\n"), 403, OPEN),
    "127.0.0.256": (get(host=b"Host: 127.0.0.256\r\n"), 403, OPEN),
    "127.1": (get(host=b"Host: 127.1\r\n"), 403, OPEN),
    "a host with a path": (get(host=b"Host: localhost/evil\r\n"), 400, OPEN),
    "a host with a user": (get(host=b"Host: localhost@evil.example\r\n"), 400, OPEN),
    "two hosts with HTTP/1.0": (b"GET /v1/models HTTP/1.0\r\nHost: localhost\r\nHost: evil\r\n\r\n", 400, CLOSED),
    "absolute target of another host": (get(b"GET http://evil.example/v1/models HTTP/1.1"), 403, OPEN),
    "absolute target with a user": (get(b"GET http://a@localhost/v1/models HTTP/1.1"), 400, OPEN),
    "absolute target before another host": (get(b"GET http://localhost/v1/models HTTP/1.1", b"Host: evil.example\r\n"), 200, OPEN),
    "absolute target without a host": (get(b"GET http://localhost/v1/models HTTP/1.1", b""), 400, CLOSED),
    "connect": (get(b"CONNECT localhost:80 HTTP/1.1"), 400, OPEN),
    # --- bodies that nothing decodes ---
    "gzip": (post(LENGTH + b"Content-Encoding: gzip\r\n"), 415, CLOSED),
    "a request in a request": (post(b"Content-Length: %d\r\n" % len(MARKER), MARKER), 400, OPEN),
}

NGINX = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 256; }}
http {{
  access_log off; client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  upstream server {{ server 127.0.0.1:{upstream}; keepalive 1; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://server; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host localhost;
      proxy_set_header X-Request-Id nginx-$request_id; proxy_request_buffering {buffering}; proxy_next_upstream off;
    }}
  }}
}}
"""


@pytest.fixture(scope="module")
def server(serve_for_all):
    return serve_for_all("--no-cache", "--context", "256", before=["--verbose"])


def talk(port, data, enough, seconds=60):
    """What comes back until enough(it) or nothing more comes, and whether the connection was closed."""
    with clients.raw(port, timeout=seconds) as one:
        with contextlib.suppress(OSError):
            one.sendall(data)
        got, deadline = b"", time.monotonic() + seconds
        while not enough(got) and time.monotonic() < deadline:
            one.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                more = one.recv(65536)
            except TimeoutError:
                break
            except OSError:
                return got, True
            if not more:
                return got, True
            got += more
        return got, False


def statuses(got):
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", got)]


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_has_its_status_and_closes_the_connection_if_it_must(server, name):
    data, status, closes = SHAPES[name]
    if status is None:  # no answer may come, however long one waits
        assert talk(server.port, data, lambda got: False, seconds=0.5) == (b"", False)
        return
    # The marker asks for a route that is not there.
    got, closed = talk(server.port, data + MARKER, lambda got: not closes and 404 in statuses(got)[1:])
    found = statuses(got)
    assert found and found[0] == status, (found, got[:300])
    if status == 100:
        del found[0]
    assert closed == closes, f"closed: {closed}"
    assert 404 not in found[1:] if closes else found[1:] == [404], found


class Proxy:
    def __init__(self, nginx, folder, upstream, buffering):
        self.port = clients.free_port()
        (folder / "nginx.conf").write_text(NGINX.format(folder=folder, upstream=upstream, port=self.port, buffering=buffering))
        self.process = subprocess.Popen([nginx, "-p", folder, "-c", folder / "nginx.conf"], stdin=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        wait_for(self.listens, "nginx listens")

    def listens(self):
        with contextlib.suppress(OSError):
            clients.raw(self.port).close()
            return True

    def stop(self):
        self.process.terminate()
        self.process.wait()


@pytest.fixture(scope="module", params=["on", "off"], ids=["buffered", "not buffered"])
def proxy(request, server, tmp_path_factory):
    proxy = Proxy(program_named("nginx"), tmp_path_factory.mktemp("nginx"), server.port, request.param)
    yield proxy
    proxy.stop()


@pytest.mark.parametrize("name", SHAPES)
def test_through_nginx_a_shape_is_one_request_at_most(server, proxy, name):
    data, status, _ = SHAPES[name]
    begin = len(server.log)
    # Nobody knows what nginx makes of it: an answer, or none.
    talk(proxy.port, data, lambda got: any(found != 100 for found in statuses(got)), seconds=0.6 if status is None else 3)
    found, answer = clients.status_of(f"http://127.0.0.1:{proxy.port}/health")
    assert found == 200 and answer["status"] == "ok", answer

    def seen():
        """The server saw at most one request for the shape, and then nginx's next one."""
        return re.findall(r"(\S+): (.*) after [0-9.]+ s", server.log[begin:])
    wait_for(lambda: seen() and seen()[-1][1] == "GET /health 200", lambda: f"the next request in the log: {seen()}")
    assert 1 <= len(seen()) <= 2
    for id, request in seen():
        # One whose first line the server cannot read has no id.
        assert re.fullmatch(r"nginx-[0-9a-f]{32}", id) or request == "(unreadable)  400", seen()
