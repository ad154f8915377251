#!/usr/bin/env python3
"""The server against its own /openapi.json: schemathesis makes requests that the description allows and requests that
it does not, and the answers must be as described: no 5xx, no status, content type, header or body that is not in it.

usage: schema_test.py PROGRAM MODEL_DIR [--cases 160] [--seed 1]

--cases: of random requests, spread over the operations; some 1,800 that follow from the description come on top.
Prints "N passed, N failed". This file is also the hooks that schemathesis runs with (see register).
"""

import argparse
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

from conclude import conclude

CHECKS = ["not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
          "response_schema_conformance", "unsupported_method", "allow_header_conformance", "stream_conformance"]
GENERATING = ["/v1/chat/completions", "/v1/completions", "/v1/generate", "/v1/messages", "/v1/messages/count_tokens"]
CHANGE_MODELS = r"^/v1/models/(load|unload|pull)$|^/api/pull$"
MOST = 3  # tokens of an answer


def shorten(body):
    """So that cases end soon, whatever they ask for."""
    for name in ("max_tokens", "max_completion_tokens", "max_thinking_tokens", "n"):
        value = body.get(name)
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if number and (value > MOST or value == -1) or value is None and name in ("max_tokens", "max_thinking_tokens"):
            body[name] = MOST
    if isinstance(body.get("keep_alive"), (int, float, str)):  # some unload the model, and so would every request from then on
        body["keep_alive"] = "5m"
    timeout = body.get("timeout")
    if isinstance(timeout, (int, float)) and not isinstance(timeout, bool) and 0.001 <= timeout < 60:  # 504 is a server error
        body["timeout"] = 60
    if isinstance(body.get("prompt"), list):
        del body["prompt"][MOST:]


def mend(body):
    """What the description allows and the server refuses, for reasons that a schema says badly: the loaded model's
    name, token ids of its vocabulary, fields that need each other, values that depend on the model."""
    if body.get("model"):
        body["model"] = "default"
    if isinstance(body.get("logit_bias"), dict):
        body["logit_bias"] = {str(i): bias for i, bias in enumerate(body["logit_bias"].values())}
    for name in ("prompt_token_ids", "stop_token_ids"):
        if body.get(name):
            body[name] = [token % 1000 for token in body[name]]
    if body.get("top_logprobs"):
        body["logprobs"] = True
    if body.get("stream_options"):
        body["stream"] = True
    if body.get("best_of"):
        body["best_of"] = body.get("n")
    if not body.get("tools") or isinstance(body.get("tool_choice"), dict):
        body.pop("tool_choice", None)
    for name in ("json_schema", "guided_json", "guided_choice", "guided_regex", "structured_outputs", "grammar", "chat_template_kwargs",
                 "speculation"):
        body.pop(name, None)
    for message in body.get("messages") or []:
        if message.get("role") != "assistant":
            message.setdefault("content", "")


def register():
    import schemathesis

    @schemathesis.hook
    def before_call(context, case, kwargs):
        if not isinstance(case.body, dict):
            return
        positive = case.meta is not None and case.meta.generation.mode == schemathesis.GenerationMode.POSITIVE
        if positive and len(json.dumps(case.body, default=str)) % 8:  # the rest stay as they are
            try:
                mend(case.body)
            except (AttributeError, TypeError):  # of a form that mend does not expect
                pass
        shorten(case.body)

    @schemathesis.check
    def stream_conformance(ctx, response, case):
        """Every event of OpenAI's streams is a chunk, with one end for each choice; then comes [DONE]."""
        import jsonschema_rs

        chunk = {"/v1/chat/completions": "ChatChunk", "/v1/completions": "CompletionChunk",
                 "/v1/generate": "GenerateChunk"}.get(case.operation.path)
        if not chunk or response.status_code != 200 or "text/event-stream" not in str(response.headers.get("content-type")):
            return
        lines = [line for line in response.content.decode().split("\n\n") if line and not line.startswith(":")]
        assert lines[-1] == "data: [DONE]", lines[-1]
        api = case.operation.schema.raw_schema
        validator = jsonschema_rs.validator_for({"$ref": f"#/components/schemas/{chunk}", "components": api["components"]})
        ends = {}
        for line in lines[:-1]:
            event = json.loads(line.removeprefix("data: "))
            validator.validate(event)
            for choice in event.get("choices", [event | {"index": 0}]):
                ends[choice["index"]] = ends.get(choice["index"], 0) + bool(choice["finish_reason"])
        assert ends and set(ends.values()) == {1}, ends


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def answered(base):
    """How many requests each route answered with 200."""
    text = urllib.request.urlopen(base + "/metrics").read().decode()
    return {route: sum(float(line.split()[-1]) for line in text.splitlines()
                       if line.startswith(f'anabranch_http_responses_total{{route="{route}",status="200"}}'))
            for route in GENERATING}


def run(base, operations, cases, seed, folder, *chosen):
    """Schemathesis' report. chosen: its flags that choose operations."""
    command = [os.path.join(os.path.dirname(sys.executable), "st"), "run", base + "/openapi.json",
               "--max-examples", str(-(-cases // operations)), "--phases", "examples,coverage,fuzzing",
               "--checks", ",".join(CHECKS), "--continue-on-failure", "--seed", str(seed), "--request-timeout", "120",
               "--report", "json", "--report-json-path", f"{folder}/report.json", *chosen]
    # By default it reads the first 20 events of a stream.
    pathlib.Path(folder, "schemathesis.toml").write_text("max-stream-events = 10000\n")
    environment = os.environ | {"SCHEMATHESIS_HOOKS": "schema_test", "NO_COLOR": "1",
                                "PYTHONPATH": str(pathlib.Path(__file__).parent), "PYTHONDONTWRITEBYTECODE": "1"}
    output = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        report = json.loads(pathlib.Path(folder, "report.json").read_text())
    except OSError:
        sys.exit(output.stdout + "\n0 passed, 1 failed")
    if output.returncode:
        print(output.stdout)
    return output.returncode, report


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--cases", type=int, default=160)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    port, started = free_port(), time.monotonic()
    base, answers = f"http://127.0.0.1:{port}", None
    server = subprocess.Popen([args.program, "serve", "--model", args.model, "--port", str(port), "--no-cache", "--context", "512"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            try:
                urllib.request.urlopen(base + "/health", timeout=30).read()
                break
            except OSError:
                if server.poll() is not None or time.monotonic() - started > 60:
                    sys.exit("the server did not start")
                time.sleep(0.1)
        api = json.load(urllib.request.urlopen(base + "/openapi.json"))
        operations = sum(len(methods) for methods in api["paths"].values())
        statuses, reports = [], []
        # Requests that unload the model come last: every other one would load it again.
        for flag in ("--exclude-path-regex", "--include-path-regex"):
            with tempfile.TemporaryDirectory() as folder:
                status, report = run(base, operations, args.cases, args.seed, folder, flag, CHANGE_MODELS)
            statuses.append(status)
            reports.append(report)
            answers = answers or answered(base)
        cases = [report["test_cases"] for report in reports]
    finally:
        server.send_signal(signal.SIGTERM)
        stopped = server.wait(60)
    total = sum(some["generated"] for some in cases)
    checks = {
        "every answer was as described": (not any(statuses) and all(some["with_failures"] + some["errored"] == 0 for some in cases), cases),
        "as many cases as asked for": (all(report["complete"] for report in reports) and total >= args.cases, cases),
        "every operation was tested": (sum(report["operations"]["tested"] for report in reports) == operations, operations),
        "many of them were answered": (min(answers.values()) >= args.cases / operations / 4, answers),
        "the server stops when told to": (stopped == 0, stopped),
    }
    return conclude(checks, f"{total} cases in {time.monotonic() - started:.0f} s; answered with 200: {answers}")


if __name__ == "__main__":
    sys.exit(main())
elif os.environ.get("SCHEMATHESIS_HOOKS") == "schema_test":
    register()
