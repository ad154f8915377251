"""What the other tests rely on: waiting, servers and their logs."""

import json
import os
import signal
import socket
import socketserver

import pytest

from harness import clients, needs, paths
from harness.server import Server
from harness.waiting import settled, stays, wait_for

pytest_plugins = ["pytester"]


def test_waiting_gives_the_value_or_says_what_did_not_come():
    values = iter([0, None, 7])
    assert wait_for(lambda: next(values), "a value") == 7
    with pytest.raises(AssertionError, match="not within 0.1 s: a value"):
        wait_for(lambda: False, "a value", seconds=0.1)
    with pytest.raises(AssertionError, match="it stays"):
        stays(lambda: False, "it stays")
    states = iter([1, 2, 3])
    assert settled(lambda: next(states, 3), still=0.2) == 3


def test_a_server_answers_is_restarted_and_ends(tmp_path):
    with Server("--no-cache", "--context", "256", "--sessions", tmp_path, model=None) as server:
        assert server.ask("/health")["status"] == "ok"
        assert server.status("/v1/nowhere")[0] == 404
        with pytest.raises(clients.Refused, match="404"):
            server.ask("/v1/nowhere")
        first = server.process.pid
        server.restart(signal.SIGTERM)
        assert server.process.pid != first and "stopping" in server.earlier
        assert server.ask("/health")["status"] == "ok"
        assert server.stop() == 0


@pytest.mark.any_model
def test_answers_are_greedy_unless_a_test_wants_others(serve):
    def temperature(**options):
        return serve("--no-cache", "--context", "256", **options).ask("/props")["default_generation_settings"]["params"]["temperature"]

    with open(os.path.join(paths.MODEL, "generation_config.json")) as file:
        recommended = json.load(file)["temperature"]
    assert (temperature(), temperature(temp=0.5), temperature(temp=None)) == (0, 0.5, pytest.approx(recommended)) and recommended > 0


def test_a_free_port_is_for_servers_that_are_told_of_it():
    port = clients.free_port()
    assert port != clients.free_port()
    with socket.socket() as other, pytest.raises(OSError):
        other.bind(("127.0.0.1", port))
    with pytest.raises(ConnectionRefusedError):
        clients.raw(port)
    with socketserver.TCPServer(("127.0.0.1", port), socketserver.BaseRequestHandler, bind_and_activate=False) as server:
        server.allow_reuse_address = True
        server.server_bind()
        server.server_activate()
        clients.raw(port).close()


def test_a_server_that_does_not_start_says_why():
    with pytest.raises(AssertionError, match="/no/such/model"):
        Server(model="/no/such/model")


def test_the_log_of_a_server_is_shown_when_a_test_fails(pytester):
    pytester.makeconftest(f"import sys; sys.path.insert(0, {paths.TESTS!r}); from conftest_of_tests import *")
    pytester.makepyfile(conftest_of_tests=open(os.path.join(paths.TESTS, "conftest.py")).read())
    pytester.makepyfile("""
        def test_fails(serve):
            server = serve("--no-cache", model=None)
            server.status("/v1/completions", b"{")
            assert False
    """)
    result = pytester.runpytest_subprocess(f"--program={paths.PROGRAM}", "-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*log of serve --port 0*", "*POST /v1/completions 404*"])


def test_with_a_sanitizer_servers_end_in_order(monkeypatch):
    for sanitized in (True, False):
        monkeypatch.setattr(needs, "SANITIZED", sanitized)
        with Server("--no-cache", model=None) as server:
            pass
        assert (server.process.returncode, "stopping" in server.log) == ((0, True) if sanitized else (-signal.SIGKILL, False))


def test_a_sanitizers_report_fails_the_test_whose_program_it_was(pytester, monkeypatch):
    monkeypatch.setenv("ANABRANCH_TEST_SANITIZED", "tsan")
    monkeypatch.setenv("TSAN_OPTIONS", "halt_on_error=1")
    pytester.makeconftest(f"import sys; sys.path.insert(0, {paths.TESTS!r}); from conftest_of_tests import *")
    pytester.makepyfile(conftest_of_tests=open(os.path.join(paths.TESTS, "conftest.py")).read())
    pytester.makepyfile("""
        import os, subprocess
        def test_program():
            assert os.environ["TSAN_OPTIONS"].startswith("halt_on_error=1 log_path=")
            subprocess.run('echo "a data race" > ${TSAN_OPTIONS#*log_path=}.$$', shell=True, check=True)
        def test_other():
            pass
    """)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*at teardown of test_program*", "a sanitizer found something:*", "a data race*"])
