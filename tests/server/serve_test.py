#!/usr/bin/env python3
"""`anabranch serve` as those who run it see it: keys, TLS, and how it stops.

usage: serve_test.py PROGRAM MODEL_DIR

Prints one line for each check and "N passed, N failed"; the exit status is 1 when one failed.
"""

import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import warnings

# Nearly uniform sampling keeps a small model from ending early.
LONG = {"prompt": "Once upon a time", "max_tokens": -1, "temperature": 5.0, "top_p": 1.0, "top_k": 0, "min_p": 0, "seed": 3,
        "stream": True, "break_loops": False}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """One that runs, with these flags; with a context of 4,096 tokens an answer can take seconds."""

    def __init__(self, *flags, environment={}, tls=None, key=None):
        self.port, self.tls, self.key = free_port(), tls, key
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--model", MODEL, "--port", str(self.port), "--no-cache", "--context", "4096", *flags],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | environment)
        # Its last words at start: from then on a signal lets answers finish.
        assert " on http" in self.process.stdout.readline(), "the server did not start"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.log = self.process.communicate()[1]

    def connect(self):
        if self.tls:
            return http.client.HTTPSConnection("localhost", self.port, timeout=60, context=self.tls)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self, path, body=None, connection=None, **headers):
        connection = connection or self.connect()
        if self.key:
            headers = {"Authorization": f"Bearer {self.key}"} | headers
        connection.request("POST" if body else "GET", path, json.dumps(body) if body else None,
                           {"Content-Type": "application/json"} | headers)
        return connection.getresponse()

    def start_stream(self, **options):
        """A stream that has begun, and its first event."""
        response = self.ask("/v1/completions", LONG | options)
        assert response.status == 200, response.read()
        return response, next_event(response)

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def wait(self, seconds=20):
        return self.process.wait(seconds)


def next_event(response):
    for line in response:
        if line.startswith(b"data: "):
            return line[6:].strip()
    return None


def check_keys():
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as file:
        file.write("# for tests\nfrom-the-file\n")
        file.flush()
        with Server("--api-key", "one", "--api-key", "two", "--api-key-file", file.name,
                    environment={"ANABRANCH_API_KEY": "from-the-environment"}) as server:
            for key in ("one", "two", "from-the-file", "from-the-environment"):
                assert server.ask("/v1/models", Authorization=f"Bearer {key}").status == 200, key
                assert server.ask("/v1/models", **{"x-api-key": key}).status == 200, key
            for key in ("", "tw", "# for tests", "twothree"):
                response = server.ask("/v1/models", Authorization=f"Bearer {key}")
                assert response.status == 401, key
                assert json.load(response)["error"]["code"] == "invalid_api_key"
            assert json.load(server.ask("/health")) == {"status": "ok"}
    return subprocess.run([PROGRAM, "serve", "--model", MODEL, "--port", "0", "--api-key-file", "/no/such/file"],
                          stderr=subprocess.PIPE, text=True, timeout=60).stderr.strip().splitlines()[-1]


def eventually(condition, what, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def check_sighup_reads_the_keys_again():
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as file:
        def write(text):
            file.seek(0)
            file.truncate()
            file.write(text)
            file.flush()

        def taken(key):
            return server.ask("/v1/models", Authorization=f"Bearer {key}").status == 200

        write("old\n")
        with Server("--api-key-file", file.name) as server:
            server.key = "old"
            stream, _ = server.start_stream(max_tokens=200)
            write("new\n")
            server.signal(signal.SIGHUP)
            eventually(lambda: taken("new"), "the new key is not taken")
            assert not taken("old")
            assert b"[DONE]" in stream.read(), "the stream was cut off"
            write("a line with odd words\n")  # what cannot be used changes nothing
            server.signal(signal.SIGHUP)
            write("")
            server.signal(signal.SIGHUP)
            server.signal(signal.SIGUSR1)
            server.signal(signal.SIGUSR2)
            time.sleep(0.3)
            assert taken("new")
            server.signal()
            assert server.wait(10) == 0
        assert "1 API keys are in force" in server.log, server.log
        assert "the API keys stay as they were" in server.log, server.log
        assert f"SIGUSR1: {os.path.basename(MODEL)}: 0 requests run" in server.log, server.log


def check_files_without_an_end_are_refused():
    for flag in (["--api-key-file", "/dev/zero"], ["--tls-cert", "/dev/zero", "--tls-key", "/dev/zero"]):
        result = subprocess.run([PROGRAM, "serve", "--model", MODEL, "--port", "0", *flag], stderr=subprocess.PIPE, text=True,
                                timeout=60)
        assert result.returncode == 1 and "not a regular file" in result.stderr, result


def check_flags_that_name_hosts_and_pages():
    for flag in (["--allow-host", "http://x"], ["--cors-origin", "localhost:3000"], ["--max-connections", "0"]):
        result = subprocess.run([PROGRAM, "serve", "--model", MODEL, "--port", "0", *flag], stderr=subprocess.PIPE, text=True,
                                timeout=60)
        assert result.returncode != 0 and flag[0] in result.stderr, result
    with Server("--allow-host", "llm.example.com", "--cors-origin", "http://localhost:3000") as server:
        assert server.ask("/v1/models", Host="llm.example.com").status == 200
        assert server.ask("/v1/models", Host="evil.example").status == 403
        answer = server.ask("/v1/models", Origin="http://localhost:3000")
        assert answer.status == 200 and answer.getheader("Access-Control-Allow-Origin") == "http://localhost:3000"


def check_a_warning_where_everybody_may_ask():
    for flags, expected in ((["--host", "0.0.0.0"], True), (["--host", "0.0.0.0", "--api-key", "k"], False), ([], False)):
        with Server(*flags) as server:
            server.signal()
            server.wait()
        assert ("no API key was given" in server.log) == expected, (flags, server.log)


def make_certificate(certificate, key):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate],
                   check=True, stderr=subprocess.DEVNULL)


def check_sighup_reads_the_certificate_again():
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = folder + "/certificate.pem", folder + "/key.pem"
        make_certificate(certificate, key)
        with Server("--tls-cert", certificate, "--tls-key", key, tls=ssl.create_default_context(cafile=certificate)) as server:
            old = server.connect()
            assert server.ask("/v1/models", connection=old).status == 200
            make_certificate(certificate, folder + "/other.pem")  # the key does not belong to it
            server.signal(signal.SIGHUP)
            time.sleep(0.3)
            assert server.ask("/v1/models").status == 200
            os.replace(folder + "/other.pem", key)
            server.signal(signal.SIGHUP)
            server.tls = ssl.create_default_context(cafile=certificate)

            def renewed():
                try:
                    return server.ask("/v1/models").status == 200
                except ssl.SSLError:
                    return False
            eventually(renewed, "the new certificate is not used")
            old.close()
        assert "certificate and key stay as they were" in server.log, server.log


def check_tls():
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = folder + "/certificate.pem", folder + "/key.pem"
        make_certificate(certificate, key)
        trusting = ssl.create_default_context(cafile=certificate)
        with Server("--tls-cert", certificate, "--tls-key", key, tls=trusting) as server:
            connection = server.connect()
            for _ in range(3):  # one connection, several requests
                response = server.ask("/v1/models", connection=connection)
                assert response.status == 200 and json.load(response)["object"] == "list"
            protocol = connection.sock.version()
            whole = json.load(server.ask("/v1/completions", LONG | {"max_tokens": 40, "stream": False}))["choices"][0]["text"]
            response, event = server.start_stream(max_tokens=40)
            text = ""
            while event != b"[DONE]":
                text += json.loads(event)["choices"][0]["text"]
                event = next_event(response)
            assert text == whole, (text, whole)
            large = server.ask("/v1/completions", {"prompt": "x" * 3_000_000, "max_tokens": 1})
            assert large.status == 400 and json.load(large)["error"]["code"] == "context_length_exceeded"
            # Refused before it is sent; the answer waits until it is.
            astray = server.ask("/v1/nowhere", {"prompt": "x" * 3_000_000})
            assert astray.status == 404 and json.load(astray)["error"]["code"] == "unknown_url"
            response, _ = server.start_stream()
            response.close()
            deadline = time.monotonic() + 5
            while json.load(server.ask("/health"))["engine"]["running"]:
                assert time.monotonic() < deadline, "a client that left was not seen"
                time.sleep(0.02)
            # Who does not speak TLS, or not a version that is still safe, or says nothing, gets nowhere.
            plain = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
            try:
                plain.request("GET", "/health")
                answer = plain.getresponse().status
            except (http.client.HTTPException, OSError):
                answer = None
            assert answer is None, answer
            warnings.simplefilter("ignore", DeprecationWarning)
            old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            old.load_verify_locations(certificate)
            old.set_ciphers("ALL:@SECLEVEL=0")
            old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
            try:
                with socket.create_connection(("localhost", server.port), timeout=10) as raw:
                    old.wrap_socket(raw, server_hostname="localhost")
                raise AssertionError("TLS 1.1 was taken")
            except ssl.SSLError:
                pass
            silent = socket.create_connection(("localhost", server.port), timeout=10)
            server.signal()
            assert server.wait(5) == 0
            silent.close()
    return protocol


def check_a_stop_lets_answers_finish():
    with Server() as server:
        response, event = server.start_stream(max_tokens=300)
        idle = server.connect()
        idle.connect()
        server.signal()
        time.sleep(0.1)
        try:
            socket.create_connection(("127.0.0.1", server.port), timeout=5).close()
            raise AssertionError("a connection was taken while the server drains")
        except ConnectionRefusedError:
            pass
        events = 1
        while event not in (b"[DONE]", None):
            event, events = next_event(response), events + 1
        assert event == b"[DONE]", event
        assert server.wait(5) == 0
        return f"{events} events, most of them after the signal"


def check_the_drain_ends():
    with Server("--drain-seconds", "0.5") as server:
        response, event = server.start_stream()
        server.signal()
        told = time.monotonic()
        last = None
        while event is not None:
            last, event = event, next_event(response)
        assert json.loads(last)["error"]["code"] == "shutting_down", last
        assert server.wait() == 0
        waited = time.monotonic() - told
        assert 0.4 < waited < 5, waited
        return f"{waited:.1f} s"


def check_a_second_signal_does_not_wait():
    with Server() as server:
        response, _ = server.start_stream()
        drained = threading.Thread(target=lambda: [None for _ in response])
        drained.start()
        server.signal()
        time.sleep(0.2)
        assert server.process.poll() is None
        server.signal()
        told = time.monotonic()
        status = server.wait()
        drained.join()
        assert status == 0 and time.monotonic() - told < 4, (status, time.monotonic() - told)


def main():
    passed = failed = 0
    for name, check in list(globals().items()):
        if not name.startswith("check_"):
            continue
        try:
            note = check()
            passed += 1
            print(f"ok     {name}" + (f": {note}" if note else ""), flush=True)
        except Exception as error:  # a failed check must not hide the others
            failed += 1
            print(f"FAILED {name}: {type(error).__name__}: {error}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    PROGRAM, MODEL = sys.argv[1:]
    sys.exit(main())
