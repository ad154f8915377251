"""Processes of a fleet on this machine, for tests and measurements; they are gone at the end."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def get(url, timeout=5):
    with urllib.request.urlopen(url, timeout=timeout) as response:
        return response.read().decode()


class Process:
    def __init__(self, name, command, folder, environment=None):
        self.name, self.log = name, os.path.join(folder, f"{name}.log")
        with open(self.log, "w") as out:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=folder,
                                            env={**os.environ, **(environment or {})})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self):
        """kill -9."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def wait_for(self, url, good=lambda text: True, seconds=120):
        """The answer of the URL, as soon as it is a good one."""
        deadline = time.monotonic() + seconds
        while True:
            with contextlib.suppress(urllib.error.URLError, OSError, ValueError):
                text = get(url)
                if good(text):
                    return text
            if self.process.poll() is not None or time.monotonic() > deadline:
                with open(self.log) as log:
                    raise SystemExit(f"{self.name} is not ready:\n{log.read()[-3000:]}")
            time.sleep(0.1)


class Serve(Process):
    """A worker: `anabranch serve` with a cache directory of its own."""

    def __init__(self, program, model, folder, name, *options, port=None):
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        super().__init__(name, [program, "serve", "--model", os.path.realpath(model), "--port", str(self.port), "--threads", "1",
                                "--cache-dir", os.path.join(folder, f"{name}-cache"), "--cache-disk", "0", *options], folder)

    def ready(self):
        self.wait_for(self.url + "/health", lambda text: json.loads(text)["status"] == "ok")
        return self

    def cache(self):
        return json.loads(get(self.url + "/health"))["cache"]
