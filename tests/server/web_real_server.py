"""The real server for tests of the web page, and what they ask it beside the page."""

import json
import os
import signal
import subprocess
import tempfile
import urllib.request


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def get(url):
    with urllib.request.urlopen(url) as response:
        return json.load(response)


def stream(url, body):
    """The events of a streamed answer."""
    request = urllib.request.Request(url, json.dumps(body | {"stream": True}).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        lines = response.read().decode().split("\n")
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


class RealServer:
    """`with RealServer(program, model, *flags) as server: server.url`"""

    def __init__(self, program, model, *flags):
        self.folder = tempfile.TemporaryDirectory()
        environment = os.environ | {"XDG_CACHE_HOME": self.folder.name, "XDG_STATE_HOME": self.folder.name,
                                    "XDG_DATA_HOME": self.folder.name}
        self.process = subprocess.Popen([program, "serve", "--model", model, "--port", "0", "--context", "2048", "--threads", "2", *flags],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                        env=environment)
        line = self.process.stdout.readline()
        assert " on http" in line, f"the server did not start: {line!r}"
        self.url = line.split(" on ")[1].split()[0].removesuffix("/v1").rstrip("/") + "/"

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate()
        self.folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
