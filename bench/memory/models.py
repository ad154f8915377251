#!/usr/bin/env python3
"""Answers and memory of a server whose models and adapters come and go.

usage: models.py [--requests 20000] [--clients 16] [--seed 1] [--flags '--threads 1'] [--output models.json]

Makes random adapters and two models by links. A quiet server (one request at a time, no cache, no speculation) answers --cases
random requests of every API, by the models and by their adapters. Then clients send them to a second server, all at once and in
random order. Meanwhile clients leave streams, models are loaded and unloaded by routes and by `keep_alive`, one adapter is loaded
and unloaded, and another one is replaced.

Every answer must be the quiet server's: tokens, text, calls, log probabilities, usage, reason of the end. The adapter that comes
and goes may be unknown (404), and the one that is replaced may answer as either. Prints what is different, and the medians of the resident
memory in each tenth of the run. Exit status 1 when an answer is different, when the memory grew by more than --allow (5 %)
in the second half, or when something still runs at the end.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import http.client
import json
import os
import random
import statistics
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests"), os.path.join(ROOT, "tests", "server")]

from answer_shapes import LLAMA, OLLAMA, RESPONSES, shape_of  # noqa: E402
from harness import paths  # noqa: E402
from harness.server import Server  # noqa: E402
from random_requests import Cases, plain  # noqa: E402
import lora_adapter  # noqa: E402

STEADY = ["base", "poet", "pirate", "other", "clerk"]  # two models, and adapters that are always there
COMES_AND_GOES, REPLACED, CONTENTS = "guest", "changing", ["first", "second"]
LONGEST = 6  # tokens of an answer

# Routes that Cases does not make requests for: the body, and what of the answer counts.
TEXT = "A river and a boat"
OTHERS = [
    ("/api/generate", {"prompt": TEXT, "stream": False, "think": False, "options": {"temperature": 0, "num_predict": 8}},
     ["response", "done_reason", "eval_count"]),
    ("/v1/generate", {"input_ids": [300, 301, 302], "sampling_params": {"temperature": 0, "max_new_tokens": 8}}, ["output_ids", "text"]),
    ("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": TEXT}]}, ["input_tokens"]),
    ("/tokenize", {"content": TEXT}, ["tokens"]),
    ("/detokenize", {"tokens": [300, 301, 302]}, ["content"]),
    ("/apply-template", {"messages": [{"role": "user", "content": TEXT}]}, ["prompt"]),
]
EMBEDDINGS = [("/v1/embeddings", {"input": [TEXT, "A letter"]}, ["data"]), ("/api/embed", {"input": TEXT}, ["embeddings"])]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--anabranch", default=paths.PROGRAM, metavar="PROGRAM")
    parser.add_argument("--model", default=paths.DRAFT, metavar="DIR")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--allow", type=float, default=5, help="growth in percent")
    parser.add_argument("--flags", default="", help="further flags of both servers, such as '--threads 1' on a machine that is busy with other things")
    parser.add_argument("--output", metavar="FILE", help="every figure as JSON")
    options = parser.parse_args()
    if options.requests < 1000:
        parser.error(f"--requests {options.requests} are too few to see growth: the memory is compared by tenths of the run; give 1000 or more")
    return options


def make_models(folder, model):
    """The configuration files of the quiet server and of the busy one."""
    for name in ("base", "other"):
        os.symlink(os.path.abspath(model), os.path.join(folder, name))
    files = {}
    for seed, name in enumerate(["poet", "pirate", "clerk", COMES_AND_GOES, *CONTENTS]):
        files[name] = lora_adapter.write(os.path.join(folder, "adapters", name), seed)
    configurations = []
    for base in ({name: name for name in ("poet", "pirate", COMES_AND_GOES, *CONTENTS)},
                 {"poet": "poet", "pirate": "pirate", REPLACED: CONTENTS[0]}):
        file = os.path.join(folder, f"{len(configurations)}.toml")
        with open(file, "w") as out:
            for model_name, adapters in (("base", base), ("other", {"clerk": "clerk"})):
                out.write(f"[model.{model_name}]\npath = '{folder}/{model_name}'\n"
                          f"lora = {[f'{name}={files[content]}' for name, content in adapters.items()]}\n")
        configurations.append(file)
    return configurations


def start(folder, configuration, options, *flags):
    homes = {name: os.path.join(folder, name) for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")}
    return Server("--model", "base", "--context", "1024", "--pooling", "last", "--strict-model-names", "--lora-dir",
                  os.path.join(folder, "adapters"), *options.flags.split(), *flags, model=None, before=["--config", configuration], environment=homes)


def shape(path, body, data, fields):
    return shape_of(path, body, data) if fields is None else {field: json.loads(data)[field] for field in fields}


def ask(server, path, body, fields):
    with server.open(path, body) as response:
        data = response.read()
    if response.status == 200:
        return shape(path, body, data, fields)
    error = json.loads(data)["error"]
    return {"status": response.status, "error": error["message"] if isinstance(error, dict) else error}


def shorten(path, body):
    fields = {LLAMA: "n_predict", OLLAMA: "num_predict", RESPONSES: "max_output_tokens"}
    place = body["options"] if path == OLLAMA else body
    name = fields.get(path, "max_tokens")
    place[name] = min(place[name], LONGEST)


Case = collections.namedtuple("Case", "path body fields told")  # told: the answers that are right


def make_cases(server, options):
    """The requests, each with the quiet server's answer. Half of them go on with the conversation of another."""
    made, cases, draw = Cases(options.seed, server.health()["model"]["draft_sources"]), [], random.Random(options.seed)

    def add(path, body, fields, name):
        def told(model):
            return ask(server, path, (plain(body) if fields is None else body) | {"model": model}, fields)
        cases.append(Case(path, body | {"model": name}, fields, [told(model) for model in (CONTENTS if name == REPLACED else [name])]))
        return cases[-1].told[0]

    names = [*STEADY, COMES_AND_GOES, REPLACED]
    for name in names:
        for path, body, fields in OTHERS + (EMBEDDINGS if name in ("base", "other") else []):
            add(path, body, fields, name)
    while len(cases) < options.cases:
        name, (path, body) = draw.choice(names), made.make()
        shorten(path, body)
        told = add(path, body, None, name)
        if name != REPLACED and (second := made.second(path, body, told)):
            add(*second, None, name)
    return cases


class Busy:
    """The server with everything at once."""

    def __init__(self, server, cases, options):
        self.server, self.cases, self.options = server, cases, options
        self.counts, self.different, self.memory, self.begin = collections.Counter(), [], [], time.monotonic()

    def request(self, number):
        draw = random.Random(f"{self.options.seed} {number}")
        if number % 100 == 0:
            self.memory.append((number, time.monotonic() - self.begin, self.server.memory_mib()))
        kind = draw.random()
        if kind < 0.03:
            return self.change(draw)
        case = draw.choice(self.cases)
        if kind < 0.13 and case.fields is None:
            return self.leave(case, draw.randint(0, 8))
        return self.compare(case)

    def compare(self, case):
        try:
            got = json.loads(json.dumps(ask(self.server, case.path, case.body, case.fields)))
        except (OSError, http.client.HTTPException) as error:
            got = {"status": repr(error)}
        if got.get("status") == 404 and case.body["model"] == COMES_AND_GOES:
            self.counts["adapter that was not there"] += 1
        elif got in json.loads(json.dumps(case.told)):
            self.counts[case.path] += 1
        else:
            self.wrong({"path": case.path, "got": got, "expected": case.told, "body": case.body})

    def wrong(self, what):
        self.different.append(what)
        print(json.dumps(what)[:2000], flush=True)

    def leave(self, case, lines):
        """Closes the connection after so many lines of the stream."""
        with contextlib.suppress(OSError, http.client.HTTPException, AttributeError):
            connection = self.server.connect()
            response = self.server.open(case.path, case.body | {"stream": True}, connection=connection)
            for _ in range(lines):
                response.readline()
            connection.sock.close()
        self.counts["left"] += 1

    def change(self, draw):
        """One of the ways in which models and adapters come and go."""
        model, adapter = draw.choice(["base", "other"]), draw.choice(CONTENTS)
        path, body = draw.choice([
            ("/v1/models/unload", {"model": model}), ("/v1/models/load", {"model": model}),
            ("/api/generate", {"model": model, "keep_alive": 0}), ("/api/generate", {"model": model, "keep_alive": "5m"}),
            ("/v1/load_lora_adapter", {"lora_name": COMES_AND_GOES, "lora_path": COMES_AND_GOES, "model": "base"}),
            ("/v1/unload_lora_adapter", {"lora_name": COMES_AND_GOES}),
            ("/v1/load_lora_adapter", {"lora_name": REPLACED, "lora_path": adapter, "load_inplace": True, "model": "base"}),
            ("/v1/load_lora_adapter", {"lora_name": REPLACED, "lora_path": adapter, "load_inplace": True, "model": "base"}),
            ("/lora-adapters", [])])
        status, answer = self.server.status(path, body)
        self.counts[f"{path} {status}"] += 1
        # An adapter that is there or is being loaded is refused with 400, one that is not there with 404, and a model with 409.
        expected = {200, 400, 404} if "lora_adapter" in path else {200, 409}
        if status not in expected:
            self.wrong({"path": path, "status": status, "got": answer, "body": body})

    def run(self):
        with concurrent.futures.ThreadPoolExecutor(self.options.clients) as pool:
            for number, _ in enumerate(pool.map(self.request, range(1, self.options.requests + 1)), 1):
                if number % 1000 == 0:
                    print(f"{number} requests, {self.memory[-1][2]} MiB, {len(self.different)} different", flush=True)

    def growth(self):
        """Medians of MB in each tenth, and in percent the growth from the fourth to sixth tenth to the last three, by their peaks.

        Before, models, adapters and caches are still filled; single tenths differ by 5 %, by what is loaded just then."""
        count = len(self.memory)
        tenths = [statistics.median(mib for _, _, mib in self.memory[count * i // 10:count * (i + 1) // 10]) for i in range(10)]
        return tenths, 100 * (max(tenths[-3:]) / max(tenths[3:6]) - 1)


def main():
    options = arguments()
    paths.PROGRAM, paths.MODEL = os.path.abspath(options.anabranch), os.path.abspath(options.model)
    with tempfile.TemporaryDirectory() as folder:
        quiet, busy = make_models(folder, options.model)
        with start(folder, quiet, options, "--parallel", "1", "--no-cache", "--spec", "off") as server:
            cases = make_cases(server, options)
        refused = sum("status" in case.told[0] for case in cases)
        print(f"{len(cases)} cases; {refused} of them are refused", flush=True)
        with start(folder, busy, options, "--parallel", "8", "--queue", "200", "--cache-ram", "32MB", "--cache-disk", "128MB",
                   "--cache-disk-worth", "0") as server:
            run = Busy(server, cases, options)
            run.run()
            server.wait_for_requests(0)
    tenths, growth = run.growth()
    print(f"{options.requests} requests in {time.monotonic() - run.begin:.0f} s: {dict(sorted(run.counts.items()))}")
    print("resident MB, each tenth: " + " ".join(f"{value:.0f}" for value in tenths))
    print(f"growth in the second half: {growth:.1f} %; different answers: {len(run.different)}")
    if options.output:
        with open(options.output, "w") as file:
            json.dump({"counts": run.counts, "memory": run.memory, "different": run.different}, file, indent=1)
    return 1 if growth > options.allow or run.different else 0


if __name__ == "__main__":
    sys.exit(main())
