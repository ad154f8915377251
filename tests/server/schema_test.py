"""The server against its own /openapi.json: schemathesis makes requests that the description allows and requests that
it does not, and the answers must be as described: no 5xx, no status, content type, header or body that is not in it.

160 random requests are spread over the operations (--effort and --seed make more and others); some 1,800 that follow from the
description come on top.
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.any_model]

CHECKS = ["not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
          "response_schema_conformance", "unsupported_method", "allow_header_conformance", "stream_conformance"]
GENERATING = ["/v1/chat/completions", "/v1/completions", "/v1/generate", "/v1/messages", "/v1/messages/count_tokens"]
CHANGE_MODELS = r"^/v1/models/(load|unload|pull)$|^/api/pull$|^/v1/(un)?load_lora_adapter$|^/lora-adapters$"


def answered(server):
    """How many requests each route answered with 200."""
    metrics = server.metrics()
    return {route: metrics.get(f'anabranch_http_responses_total{{route="{route}",status="200"}}', 0) for route in GENERATING}


def run(server, operations, cases, seed, folder, *chosen):
    """Schemathesis' exit status, report and output. chosen: its flags that choose operations."""
    command = [os.path.join(os.path.dirname(sys.executable), "st"), "run", server.root + "/openapi.json",
               "--max-examples", str(-(-cases // operations)), "--phases", "examples,coverage,fuzzing",
               "--checks", ",".join(CHECKS), "--continue-on-failure", "--seed", str(seed), "--request-timeout", "300",
               "--report", "json", "--report-json-path", f"{folder}/report.json", *chosen]
    # By default it reads the first 20 events of a stream.
    (folder / "schemathesis.toml").write_text("max-stream-events = 10000\n")
    environment = os.environ | {"SCHEMATHESIS_HOOKS": "schema_hooks", "NO_COLOR": "1",
                                "PYTHONPATH": str(pathlib.Path(__file__).parent), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert (folder / "report.json").exists(), done.stdout
    return done.returncode, json.loads((folder / "report.json").read_text()), done.stdout


class Examined:
    """The description, and what came of testing it."""

    def __init__(self, server, folders, cases, seed):
        self.server, self.cases = server, cases
        paths = server.ask("/openapi.json")["paths"]
        self.operations = sum(len(methods) for methods in paths.values())
        # Requests that unload the model come last: every other one would load it again.
        self.first = run(server, self.operations, cases, seed, folders("first"), "--exclude-path-regex", CHANGE_MODELS)
        self.answers = answered(server)
        self.last = run(server, self.operations, cases, seed, folders("last"), "--include-path-regex", CHANGE_MODELS)
        self.reports = [self.first[1], self.last[1]]


@pytest.fixture(scope="module")
def tested(serve_for_all, tmp_path_factory, effort, seed):
    slots = tmp_path_factory.mktemp("slots")  # without it they get 501
    server = serve_for_all("--no-cache", "--context", "512", "--slot-save-path", slots)
    return Examined(server, tmp_path_factory.mktemp, effort(160), seed)


def test_every_answer_is_as_described(tested):
    for status, report, output in (tested.first, tested.last):
        assert status == 0, output
        assert report["test_cases"]["with_failures"] + report["test_cases"]["errored"] == 0, output


def test_as_many_cases_as_asked_for_were_tried(tested):
    assert all(report["complete"] for report in tested.reports)
    assert sum(report["test_cases"]["generated"] for report in tested.reports) >= tested.cases


def test_every_operation_was_tested(tested):
    assert sum(report["operations"]["tested"] for report in tested.reports) == tested.operations


def test_many_requests_were_answered(tested):
    assert min(tested.answers.values()) >= tested.cases / tested.operations / 4, tested.answers


def test_the_server_stops_when_told_to(tested):
    assert tested.server.stop() == 0
