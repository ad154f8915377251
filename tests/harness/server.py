"""`anabranch serve` under test."""

import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile

from harness import clients, needs, paths
from harness.waiting import LONG, wait_for

DEFAULT = object()


class Server:
    """A server with these flags on a free port, ready for requests. model: a path, or None for a server without one.
    before: the flags that stand before "serve". Requests that name no temperature get greedy answers, which are always the same;
    temp=None: sampled ones, as the model's files recommend."""

    started = []  # by the test that runs; their logs are shown when it fails

    def __init__(self, *flags, model=DEFAULT, environment=None, tls=None, key=None, before=(), temp=0):
        model = paths.MODEL if model is DEFAULT else model
        greedy = [] if temp is None or "--temp" in flags else ["--temp", str(temp)]
        self.command = [paths.PROGRAM, *before, "serve", "--port", "0", *(["--model", model] if model else []), *greedy, *map(str, flags)]
        self.environment = os.environ | (environment or {})
        self.tls, self.key, self.earlier = tls, key, ""
        self.process = None
        Server.started.append(self)
        self.start()

    def start(self):
        self.output, self.errors = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.errors,
                                        env=self.environment)
        try:
            wait_for(lambda: self.process.poll() is not None or self.address(), "the server's ready line")
            assert self.address(), f"the server ended with status {self.process.returncode}:\n{self.log}"
        except AssertionError:
            self.kill()
            raise
        self.root = self.address().removesuffix("/v1")
        self.v1 = self.root + "/v1"
        self.port = int(self.root.rpartition(":")[2])

    def address(self):
        """What the ready line names, or the log where it is JSON; the line ends once it is complete."""
        found = re.search(r" on (https?://\S+)\n", read(self.output)) or re.search(r'"address": ?"(https?://[^"]+)".*\n', self.log)
        return found and found[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    @property
    def log(self):
        return read(self.errors)

    def wait_for_log(self, text, seconds=LONG):
        wait_for(lambda: text in self.log, lambda: f"{text!r} in the log:\n{self.log[-2000:]}", seconds)

    # --- Its end.

    def send_signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def wait(self, seconds=LONG):
        return self.process.wait(seconds)

    def stop(self, number=signal.SIGTERM):
        """Ends it in order; its exit status."""
        if self.process.poll() is None:
            self.send_signal(number)
        return self.wait()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def end(self):
        """Ends it when its test is over: at once, or in order where a sanitizer sees what goes wrong there, and leaks."""
        try:
            if needs.SANITIZED and self.process.poll() is None:
                self.send_signal()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.wait(5)
                self.stop()  # the second signal cuts off answers that still run
        finally:
            self.kill()

    def restart(self, number=signal.SIGKILL):
        assert (status := self.stop(number)) in (0, -number), f"the server ended with status {status}:\n{self.log}"
        self.earlier += self.log
        self.start()

    # --- Requests. Paths are behind the address of the server: /health, /v1/models.

    def headers(self, key=None, headers=None):
        key = key or self.key
        return ({"Authorization": f"Bearer {key}"} if key else {}) | (headers or {})

    def connect(self, timeout=clients.TIMEOUT):
        return clients.connect(self.root, self.tls, timeout)

    def open(self, path, body=None, key=None, headers=None, **options):
        """A response that has not been read, of any status."""
        return clients.start(self.root + path, body, self.headers(key, headers), tls=self.tls, **options)

    def ask(self, path, body=None, key=None, headers=None, **options):
        """The JSON (or the text) of an answer; raises clients.Refused for a status other than 200."""
        return clients.ask(self.root + path, body, headers=self.headers(key, headers), tls=self.tls, **options)

    def status(self, path, body=None, key=None, headers=None, **options):
        """The status and the JSON of an answer."""
        return clients.status_of(self.root + path, body, headers=self.headers(key, headers), tls=self.tls, **options)

    def events(self, path, body, **options):
        """The events of a streamed answer, as JSON."""
        with self.open(path, body | {"stream": True}, **options) as response:
            assert response.status == 200, response.read()
            return list(clients.events(response))

    def raw(self, data=b"", timeout=clients.TIMEOUT):
        return clients.raw(self.port, data, timeout)

    # --- What it says of itself.

    def health(self, key=None):
        return self.ask("/health", key=key)

    def engine(self):
        return self.health()["engine"]

    def wait_for_requests(self, running, queued=0, seconds=LONG):
        """Until so many requests run and wait."""
        wait_for(lambda: (self.engine()["running"], self.engine()["queued"]) == (running, queued),
                 lambda: f"{running} running and {queued} queued, but: {json.dumps(self.engine())}", seconds)

    def metrics(self):
        lines = self.ask("/metrics").splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))}

    def memory_mib(self):
        with open(f"/proc/{self.process.pid}/status") as file:
            return int(next(line for line in file if line.startswith("VmRSS")).split()[1]) >> 10


def read(file):
    """All that the program has written; it goes on at the end of the file that it shares with us."""
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), size, 0).decode(errors="replace")
