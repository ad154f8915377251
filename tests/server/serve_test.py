"""`anabranch serve` as those who run it see it: keys, TLS, and how it stops."""

import http.client
import json
import os
import signal
import ssl
import subprocess
import threading
import time
import warnings

import pytest

from harness import paths
from harness.clients import next_event
from harness.server import Server
from harness.waiting import wait_for

pytestmark = pytest.mark.any_model

# Nearly uniform sampling keeps a small model from ending early.
LONG = {"prompt": "Once upon a time", "max_tokens": -1, "temperature": 5.0, "top_p": 1.0, "top_k": 0, "min_p": 0, "seed": 3,
        "stream": True, "break_loops": False}


def serving(*flags, **options):
    """With a context of 4,096 tokens an answer can take seconds."""
    return Server("--no-cache", "--context", "4096", *flags, **options)


def start_stream(server, **options):
    """A stream that has begun, and its first event."""
    response = server.open("/v1/completions", LONG | options)
    assert response.status == 200, response.read()
    return response, next_event(response)


def refused_start(*flags):
    """A server that cannot start: its exit status and what it says."""
    result = subprocess.run([paths.PROGRAM, "serve", "--model", paths.MODEL, "--port", "0", *flags], stderr=subprocess.PIPE, text=True,
                            timeout=120)
    return result.returncode, result.stderr


class KeyFile:
    def __init__(self, path, text):
        self.path = str(path)
        self.write(text)

    def write(self, text):
        with open(self.path, "w") as file:
            file.write(text)


def status_with(server, **headers):
    with server.open("/v1/models", headers=headers) as response:
        return response.status, json.load(response)


def test_keys_come_from_flags_a_file_and_the_environment(tmp_path):
    file = KeyFile(tmp_path / "keys", "# for tests\nfrom-the-file\n")
    with serving("--api-key", "one", "--api-key", "two", "--api-key-file", file.path,
                 environment={"ANABRANCH_API_KEY": "from-the-environment"}) as server:
        for key in ("one", "two", "from-the-file", "from-the-environment"):
            assert status_with(server, Authorization=f"Bearer {key}")[0] == 200, key
            assert status_with(server, **{"x-api-key": key})[0] == 200, key
        for key in ("", "tw", "# for tests", "twothree"):
            status, answer = status_with(server, Authorization=f"Bearer {key}")
            assert status == 401 and answer["error"]["code"] == "invalid_api_key", key
        assert server.ask("/health") == {"status": "ok"}


def test_a_missing_key_file_is_an_error():
    status, said = refused_start("--api-key-file", "/no/such/file")
    assert status != 0 and "/no/such/file" in said, said


def test_sighup_reads_the_keys_again(tmp_path):
    file = KeyFile(tmp_path / "keys", "old\n")
    with serving("--api-key-file", file.path, key="old") as server:
        def taken(key):
            return status_with(server, Authorization=f"Bearer {key}")[0] == 200

        stream, _ = start_stream(server, max_tokens=200)
        file.write("new\n")
        server.send_signal(signal.SIGHUP)
        wait_for(lambda: taken("new"), "the new key is taken")
        assert not taken("old")
        assert b"[DONE]" in stream.read(), "the stream was cut off"
        server.wait_for_log("1 API keys are in force")
        for unusable in ("a line with odd words\n", ""):
            file.write(unusable)
            refusals = server.log.count("the API keys stay as they were")
            server.send_signal(signal.SIGHUP)
            wait_for(lambda: server.log.count("the API keys stay as they were") > refusals, "the refusal in the log")
        server.send_signal(signal.SIGUSR2)  # says nothing and ends nothing
        server.send_signal(signal.SIGUSR1)
        server.wait_for_log(f"SIGUSR1: {os.path.basename(paths.MODEL)}: 0 requests run")
        assert taken("new")
        assert server.stop() == 0


def test_files_without_an_end_are_refused():
    for flag in (["--api-key-file", "/dev/zero"], ["--tls-cert", "/dev/zero", "--tls-key", "/dev/zero"]):
        status, said = refused_start(*flag)
        assert status == 1 and "not a regular file" in said, said


def test_flags_that_name_hosts_and_pages():
    for flag in (["--allow-host", "http://x"], ["--cors-origin", "localhost:3000"], ["--max-connections", "0"]):
        status, said = refused_start(*flag)
        assert status != 0 and flag[0] in said, said
    with serving("--allow-host", "llm.example.com", "--cors-origin", "http://localhost:3000") as server:
        assert status_with(server, Host="llm.example.com")[0] == 200
        assert status_with(server, Host="evil.example")[0] == 403
        answer = server.open("/v1/models", headers={"Origin": "http://localhost:3000"})
        assert answer.status == 200 and answer.getheader("Access-Control-Allow-Origin") == "http://localhost:3000"


def test_a_warning_where_everybody_may_ask():
    for flags, expected in ((["--host", "0.0.0.0"], True), (["--host", "0.0.0.0", "--api-key", "k"], False), ([], False)):
        with serving(*flags) as server:
            server.stop()
        assert ("no API key was given" in server.log) == expected, (flags, server.log)


def make_certificate(certificate, key):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
                   check=True, stderr=subprocess.DEVNULL)


@pytest.fixture
def certified(tmp_path):
    """A certificate and its key in a folder, and what trusts them."""
    certificate, key = str(tmp_path / "certificate.pem"), str(tmp_path / "key.pem")
    make_certificate(certificate, key)
    return certificate, key, ssl.create_default_context(cafile=certificate)


def test_ignored_signals_do_not_stop_it():
    """As in a background job of a script, which Ctrl-C in its terminal reaches."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGUSR1)}
    try:
        server = serving()
    finally:
        for number, action in before.items():
            signal.signal(number, action)
    with server:
        stream, _ = start_stream(server, max_tokens=200)
        for number in (signal.SIGINT, signal.SIGUSR1, signal.SIGINT):
            server.send_signal(number)
        assert b"[DONE]" in stream.read(), "the stream was cut off"
        assert server.status("/v1/models")[0] == 200 and "SIGUSR1" not in server.log
        assert server.stop(signal.SIGTERM) == 0


def test_sighup_reads_the_certificate_again(certified, tmp_path):
    certificate, key, trusting = certified
    other = str(tmp_path / "other.pem")
    with serving("--tls-cert", certificate, "--tls-key", key, tls=trusting) as server:
        old = server.connect()
        assert server.open("/v1/models", connection=old).status == 200
        make_certificate(certificate, other)  # the key does not belong to it
        server.send_signal(signal.SIGHUP)
        server.wait_for_log("certificate and key stay as they were")
        assert server.open("/v1/models").status == 200
        os.replace(other, key)
        server.send_signal(signal.SIGHUP)
        server.tls = ssl.create_default_context(cafile=certificate)

        def renewed():
            try:
                return server.open("/v1/models").status == 200
            except ssl.SSLError:
                return False
        wait_for(renewed, "the new certificate is used")
        old.close()


def test_answers_over_tls_are_those_without(certified):
    certificate, key, trusting = certified
    with serving("--tls-cert", certificate, "--tls-key", key, tls=trusting) as server:
        connection = server.connect()
        for _ in range(3):  # one connection, several requests
            response = server.open("/v1/models", connection=connection)
            assert response.status == 200 and json.load(response)["object"] == "list"
        assert connection.sock.version() == "TLSv1.3"
        whole = server.ask("/v1/completions", LONG | {"max_tokens": 40, "stream": False})["choices"][0]["text"]
        response, event = start_stream(server, max_tokens=40)
        text = ""
        while event != b"[DONE]":
            text += json.loads(event)["choices"][0]["text"]
            event = next_event(response)
        assert text == whole, (text, whole)
        status, large = server.status("/v1/completions", {"prompt": "x" * 3_000_000, "max_tokens": 1})
        assert status == 400 and large["error"]["code"] == "context_length_exceeded"
        # Refused before it is sent; the answer waits until it is.
        status, astray = server.status("/v1/nowhere", {"prompt": "x" * 3_000_000})
        assert status == 404 and astray["error"]["code"] == "unknown_url"
        response, _ = start_stream(server)
        response.close()
        server.wait_for_requests(0)


def test_only_safe_tls_is_taken(certified):
    """Who does not speak TLS, or not a version that is still safe, or says nothing, gets nowhere."""
    certificate, key, trusting = certified
    with serving("--tls-cert", certificate, "--tls-key", key, tls=trusting) as server:
        plain = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        with pytest.raises((http.client.HTTPException, OSError)):
            plain.request("GET", "/health")
            plain.getresponse()
        warnings.simplefilter("ignore", DeprecationWarning)
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.load_verify_locations(certificate)
        old.set_ciphers("ALL:@SECLEVEL=0")
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(ssl.SSLError), server.raw() as raw:
            old.wrap_socket(raw, server_hostname="127.0.0.1")
        with server.raw():  # silent
            server.send_signal()
            assert server.wait(20) == 0  # far below the 30 s that a stop waits for answers


def refuses_connections(server):
    try:
        server.raw(timeout=60).close()
        return False
    except ConnectionRefusedError:
        return True


def test_a_stop_lets_answers_finish():
    with serving() as server:
        response, event = start_stream(server, max_tokens=300)
        idle = server.connect()
        idle.connect()
        server.send_signal()
        wait_for(lambda: refuses_connections(server), "no connection is taken while the server drains")
        while event not in (b"[DONE]", None):
            event = next_event(response)
        assert event == b"[DONE]", "the server did not wait for the answer"
        assert server.wait(20) == 0


def test_the_drain_ends_after_its_seconds():
    with serving("--drain-seconds", "0.5") as server:
        response, event = start_stream(server)
        server.send_signal()
        told = time.monotonic()
        last = None
        while event is not None:
            last, event = event, next_event(response)
        assert json.loads(last)["error"]["code"] == "shutting_down", last
        assert server.wait() == 0
        waited = time.monotonic() - told
        assert 0.4 < waited < 20, waited  # by default it is 30 s


def test_a_second_signal_does_not_wait():
    with serving() as server:
        response, _ = start_stream(server)
        drained = threading.Thread(target=lambda: [None for _ in response])
        drained.start()
        server.send_signal()
        server.wait_for_log("waiting up to 30 s")
        assert server.process.poll() is None
        server.send_signal()
        assert server.wait(20) == 0  # less than the 30 s
        drained.join()
