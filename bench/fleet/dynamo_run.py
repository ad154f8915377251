#!/usr/bin/env python3
"""Dynamo's frontend and router before two workers on this machine, one of which is killed on the way.

    PYTHON bench/fleet/dynamo_run.py PROGRAM MODEL_DIR [--requests N] [--json FILE]

PYTHON is one that has ai-dynamo and openai (integrations/dynamo/README.md says how to install them). No etcd and no NATS:
discovery by a directory, events by ZMQ. The official openai client streams --requests answers, some at a time; after a third
of them one `anabranch serve` gets kill -9. Before that, conversations of a few programs with long system prompts take turns, one
request at a time: a router that reads the workers' KV events sends each where its system prompt is kept. Counted are the answers that came whole, and those that had not begun to stream
and failed: there must be none of these. Each answer is asked for once (the client does not retry), greedy; its text is also
compared with what the remaining worker says to it alone. Exit status: 1 when an answer was lost that had not begun."""

import argparse
import collections
import json
import os
import statistics
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "integrations", "dynamo", "tests"))
from processes import Process, Serve, free_port, get  # noqa: E402

TOPICS = ("rivers", "trains", "bread", "the moon", "bees", "ships", "winter", "music", "maps", "salt")
SYSTEM = "You answer in one or two plain sentences. " + "You are careful, friendly and brief, and you never invent facts. " * 12
TOKENS = 24
STREAMS = 8  # at a time


class Fleet:
    """Two workers, a backend for each, and the frontend."""

    def __init__(self, program, model, folder, events, router):
        self.folder, self.model = folder, os.path.realpath(model)
        self.environment = {"DYN_DISCOVERY_BACKEND": "file", "DYN_FILE_KV": os.path.join(folder, "discovery"),
                            "DYN_EVENT_PLANE": "zmq", "HF_HUB_OFFLINE": "1", "DYN_LOG": "info",
                            "PYTHONPATH": os.path.join(ROOT, "integrations", "dynamo")}
        self.endpoints = [f"tcp://127.0.0.1:{free_port()}" for _ in range(2)] if events else []
        self.workers, self.backends = [], []
        for i in range(2):
            options = ["--kv-events", self.endpoints[i]] if events else []
            self.workers.append(Serve(program, model, folder, f"worker-{i}", "--context", "2048", *options))
        for i, worker in enumerate(self.workers):
            worker.ready()
            options = ["--kv-events", self.endpoints[i]] if events else []
            self.backends.append(Process(f"backend-{i}", [sys.executable, "-m", "anabranch_dynamo", "--model", self.model,
                                                          "--url", worker.url, "--served-model-name", "anabranch",
                                                          "--reasoning-parser", "qwen3", *options],
                                         folder, self.environment))
        self.url = f"http://127.0.0.1:{free_port()}"
        self.frontend = Process("frontend", [sys.executable, "-m", "dynamo.frontend", "--http-host", "127.0.0.1", "--http-port",
                                             self.url.rsplit(":", 1)[1], "--router-mode", router, "--migration-limit", "10"]
                                + ([] if events else ["--no-router-kv-events"]), folder, self.environment)

    def __enter__(self):
        self.frontend.wait_for(self.url + "/health", lambda text: text.count('"generate"') >= 2 or len(instances(text)) >= 2)
        self.frontend.wait_for(self.url + "/v1/models", lambda text: "anabranch" in text)
        return self

    def __exit__(self, *_):
        for process in [self.frontend, *self.backends, *self.workers]:
            process.stop()


def instances(health):
    return [i for i in json.loads(health).get("instances", []) if i.get("endpoint") == "generate"]


def body(number):
    return {"model": "anabranch", "temperature": 0, "max_tokens": TOKENS,
            "messages": [{"role": "system", "content": SYSTEM},
                         {"role": "user", "content": f"Tell me something about {TOPICS[number % len(TOPICS)]}, part {number}."}]}


def ask(client, number):
    """{"text", "begun", "error", "ttft_s"}"""
    answer = {"text": "", "begun": False, "error": None, "finish": None, "thought": False}
    began = time.perf_counter()
    try:
        for chunk in client.chat.completions.create(stream=True, **body(number)):
            for choice in chunk.choices:
                thought = getattr(choice.delta, "reasoning_content", None) or ""
                answer["thought"] |= bool(thought)
                said = thought + (choice.delta.content or "")
                if said and not answer["begun"]:
                    answer |= {"begun": True, "ttft_s": time.perf_counter() - began}
                answer["text"] += said
                answer["finish"] = choice.finish_reason or answer["finish"]
        if answer["finish"] is None:
            answer["error"] = "the stream ended without a finish_reason"
    except Exception as error:  # noqa: BLE001: every failure is counted
        answer["error"] = f"{type(error).__name__}: {error}"
    return answer


def run(client, requests, kill, after):
    answers, numbers, lock = [None] * requests, iter(range(requests)), threading.Lock()
    killed = threading.Event()

    def work():
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            answers[number] = ask(client, number)
            if number >= after and not killed.is_set():
                killed.set()
                kill()

    threads = [threading.Thread(target=work) for _ in range(STREAMS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--router", default="kv", choices=("kv", "round-robin", "random"))
    parser.add_argument("--no-events", action="store_true", help="the workers publish no KV events: the router guesses")
    parser.add_argument("--keep-logs", metavar="DIR")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    try:
        import openai
    except ImportError:
        sys.exit("openai is not installed: integrations/dynamo/README.md says what is needed")
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.keep_logs or scratch
        os.makedirs(os.path.join(folder, "discovery"), exist_ok=True)
        with Fleet(os.path.abspath(args.program), args.model, folder, not args.no_events, args.router) as fleet:
            client = openai.OpenAI(base_url=fleet.url + "/v1", api_key="-", max_retries=0, timeout=120)
            in_turn = programs_in_turn(client, fleet.workers)
            begin = time.perf_counter()
            answers = run(client, args.requests, fleet.workers[0].kill, args.requests // 3)
            taken = time.perf_counter() - begin
            left = json.loads(get(fleet.workers[1].url + "/health"))
            migrations = counted(get(fleet.url + "/metrics"), "model_migration_total")
            again = [ask(client, number)["text"] for number in range(0, args.requests, 10)]
        report = summary(answers, again, taken, left) | {"migrations": migrations, "programs_in_turn": in_turn}
    print(json.dumps(report, indent=1))
    if args.json:
        with open(args.json, "w") as file:
            json.dump(report, file, indent=1)
    return 1 if report["lost_before_streaming"] else 0


def programs_in_turn(client, workers, programs=5, rounds=4):
    """Of the requests after the first round, how many went to the worker that had the program's prompt, and the share of their
    prompt tokens that was found."""
    home, at_home, found, prompt = {}, 0, 0, 0
    for turn in range(rounds):
        for program in range(programs):
            before = [worker.cache() for worker in workers]
            system = f"This is program {program}. " + f"Rule of program {program}: be careful, friendly and brief. " * 60
            client.chat.completions.create(**{**body(turn), "max_tokens": 4, "messages": [
                {"role": "system", "content": system}, {"role": "user", "content": f"Question {turn}?"}]})
            time.sleep(0.3)  # for the events
            after = [worker.cache() for worker in workers]
            asked = next(i for i in range(len(workers)) if after[i]["lookups"] > before[i]["lookups"])
            if turn:
                at_home += asked == home[program]
                found += after[asked]["cached_tokens"] - before[asked]["cached_tokens"]
                prompt += after[asked]["prompt_tokens"] - before[asked]["prompt_tokens"]
            home[program] = asked
    return {"requests": programs * (rounds - 1), "where_the_prompt_is": at_home, "hit_rate": found / prompt,
            "workers": len(set(home.values()))}


def counted(metrics, word):
    """The sum of the frontend's metrics whose name has the word."""
    return sum(float(line.rsplit(" ", 1)[1]) for line in metrics.splitlines() if word in line and not line.startswith("#"))


def summary(answers, again, taken, left):
    failed = [answer for answer in answers if answer["error"]]
    return {"requests": len(answers), "whole": len(answers) - len(failed),
            "lost_before_streaming": sum(not answer["begun"] for answer in failed),
            "cut_while_streaming": sum(answer["begun"] for answer in failed),
            "errors": collections.Counter(answer["error"][:120] for answer in failed),
            "with_thoughts": sum(answer["thought"] for answer in answers), "asked_again": len(again), "same_text": sum(a["text"] == b for a, b in zip(answers[::10], again)),
            "ttft_p50_s": statistics.median(answer["ttft_s"] for answer in answers if answer["begun"]),
            "seconds": taken, "hit_rate_of_the_one_left": left["cache"]["cached_tokens"] / max(1, left["cache"]["prompt_tokens"])}


if __name__ == "__main__":
    sys.exit(main())
