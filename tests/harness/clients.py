"""HTTP clients without a library: JSON requests, event streams and raw sockets."""

import contextlib
import http.client
import json
import socket
import urllib.parse

TIMEOUT = 300
reserved = []  # sockets that keep the ports of free_port() from others


def free_port(port=0):
    """A port of this machine on which nothing listens (this one, if it is given). Until the tests end, no other program gets it by
    chance, but a server that is told to can listen on it (as servers do, with SO_REUSEADDR)."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind(("127.0.0.1", port))
    reserved.append(one)
    return one.getsockname()[1]


def connect(url, tls=None, timeout=TIMEOUT):
    parts = urllib.parse.urlsplit(url)
    if tls:
        return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=timeout, context=tls)
    return http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)


def start(url, body=None, headers=None, method=None, tls=None, connection=None, timeout=TIMEOUT):
    """An http.client response whose body has not been read yet, of any status."""
    connection = connection or connect(url, tls, timeout)
    parts = urllib.parse.urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    connection.request(method or ("GET" if data is None else "POST"), path, data, {"Content-Type": "application/json"} | (headers or {}))
    return connection.getresponse()


class Refused(AssertionError):
    """An answer with another status than 200."""

    def __init__(self, url, status, text):
        super().__init__(f"{url}: {status} {text[:500]}")
        self.status, self.text = status, text

    def json(self):
        return json.loads(self.text)


def ask(url, body=None, **options):
    """The JSON (or the text) of an answer. Raises Refused for a status other than 200."""
    with start(url, body, **options) as response:
        text = response.read().decode()
        if response.status != 200:
            raise Refused(url, response.status, text)
        kind = (response.getheader("Content-Type") or "").split(";")[0]
        return json.loads(text) if kind == "application/json" else text


def status_of(url, body=None, **options):
    """The status and the JSON of an answer; None instead of JSON when it has none."""
    with start(url, body, **options) as response:
        data = response.read()
    with contextlib.suppress(ValueError):
        return response.status, json.loads(data)
    return response.status, None


def next_event(response):
    """The bytes behind the next "data: " of a stream; None at its end."""
    for line in response:
        if line.startswith(b"data: "):
            return line[6:].strip()
    return None


def events(response):
    """The events of a stream as JSON, up to [DONE] or its end."""
    while (data := next_event(response)) not in (None, b"[DONE]"):
        yield json.loads(data)


def raw(port, data=b"", timeout=TIMEOUT):
    """A socket to a port of this machine over which these bytes were sent."""
    one = socket.create_connection(("127.0.0.1", port), timeout=timeout)
    if data:
        one.sendall(data)
    return one
