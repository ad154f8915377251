#!/usr/bin/env python3
"""How soon the next turn of a conversation begins: with reading ahead, without, and with thoughts that stay in the prompt.

    script/build && python3 bench/next_turn/run.py

One conversation over HTTP, streamed: each turn has a thought of --thought tokens and an answer of --answer characters, whose
form a grammar fixes, so that models with random weights end it by themselves. The next message is sent --wait seconds after
the answer, and at once (0). work `chain`: every turn calls a tool six times before it answers. --busy N: so many other clients
ask all the time meanwhile. Prints a table, and with --json writes every figure: time to the first token (medians), tokens of
prompts that were read while the client waited, the shares of the answers that are as without reading ahead, and the others' answers a
second, their time to the first token and the gaps between their tokens (median and p99).

--keep-thinking needs a template that knows preserve_thinking; without --template one is made from that of hybrid-146m."""

import argparse
import hashlib
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HYBRID = os.path.join(ROOT, "models", "hybrid-146m")
WAYS = {"off": ["--read-ahead", "off"], "on": [], "keep-thinking": ["--keep-thinking"]}
WORDS = "the river runs down to the sea and the wind goes over the hills while the boats wait ".split()
TOOL = {"type": "function", "function": {"name": "look", "description": "Looks something up.", "parameters": {
    "type": "object", "properties": {"key": {"type": "string", "pattern": "^[a-z]{12}$"}}, "required": ["key"]}}}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--anabranch", default=os.path.join(ROOT, "build", "anabranch"), metavar="PROGRAM")
    parser.add_argument("--model", default=HYBRID, metavar="PATH", help="default: models/hybrid-146m")
    parser.add_argument("--template", metavar="FILE", help="a chat template that knows preserve_thinking")
    parser.add_argument("--works", default="talk,chain", metavar="NAME,...", help="default: %(default)s")
    parser.add_argument("--ways", default=",".join(WAYS), metavar="NAME,...", help="default: %(default)s")
    parser.add_argument("--waits", default="3,0", metavar="SECONDS,...", help="default: %(default)s")
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--thought", type=int, default=500, metavar="TOKENS")
    parser.add_argument("--answer", type=int, default=1200, metavar="CHARACTERS")
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="other clients (default: none)")
    parser.add_argument("--flags", default="", help="further flags of the server, such as '--device cuda'")
    parser.add_argument("--json", metavar="FILE")
    return parser.parse_args()


def preserving(folder):
    with open(os.path.join(HYBRID, "chat_template.jinja")) as file:
        text = file.read()
    old = "loop.index0 > ns.last_query_index"
    assert text.count(old) == 1
    path = os.path.join(folder, "template.jinja")
    with open(path, "w") as file:
        file.write(text.replace(old, "(preserve_thinking is defined and preserve_thinking) or " + old))
    return path


class Server:
    def __init__(self, args, way, template, folder):
        command = [args.anabranch, "serve", "--port", "0", "--model", args.model, "--chat-template-file", template,
                   "--cache-dir", os.path.join(folder, way), *WAYS[way], *args.flags.split()]
        self.log = open(os.path.join(folder, way + ".log"), "w")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = self.process.stdout.readline()
        found = re.search(r"http://([\d.]+):(\d+)", line)
        if not found:
            sys.exit(f"the server did not start; its log is {self.log.name}")
        self.address = found[1], int(found[2])

    def ask(self, body):
        """Answers with (seconds to the first token, message, usage, seconds between tokens)."""
        connection = http.client.HTTPConnection(*self.address, timeout=600)
        begun = time.monotonic()
        connection.request("POST", "/v1/chat/completions", json.dumps(body | {"stream": True, "stream_options": {"include_usage": True}}),
                           {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            sys.exit(f"HTTP {response.status}: {response.read().decode()}")
        times, message, calls, usage = [], {"role": "assistant", "content": ""}, [], {}
        for line in response:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            usage = event.get("usage") or usage
            for choice in event["choices"]:
                delta = choice["delta"]
                if delta.get("content") or delta.get("reasoning_content") or delta.get("tool_calls"):
                    times.append(time.monotonic() - begun)
                message["content"] += delta.get("content") or ""
                for call in delta.get("tool_calls") or []:
                    if call.get("id"):
                        calls.append({"id": call["id"], "type": "function", "function": {"name": call["function"]["name"], "arguments": ""}})
                    calls[call["index"]]["function"]["arguments"] += call["function"].get("arguments") or ""
        if calls:
            message["tool_calls"] = calls
        connection.close()
        return times[0], message, usage, [after - before for before, after in zip(times, times[1:])]

    def stop(self):
        self.process.terminate()
        self.process.wait(60)
        self.log.close()


def sentence(turn, words=40):
    return f"Message {turn}: " + " ".join(WORDS[(turn * 7 + i * i) % len(WORDS)] for i in range(words)) + "?"


def converse(server, args, work, wait):
    """A list of turns: seconds to the first token, tokens read for it, the text."""
    messages, turns = [{"role": "system", "content": "You help people who work at the harbour."}], []
    thinking = {"temperature": 0, "reasoning_effort": "high", "thinking_budget": args.thought}
    for turn in range(args.turns):
        messages.append({"role": "user", "content": sentence(turn)})
        for step in range(7 if work == "chain" else 1):
            body = {"messages": messages} | thinking
            if work == "chain":
                body |= {"tools": [TOOL], "parallel_tool_calls": False}
            if work == "chain" and step < 6:
                body |= {"tool_choice": "required", "thinking_budget": args.thought // 6}
            else:
                if work == "chain":  # a grammar of one's own allows no call, and leaves the tools in the prompt
                    body["structured_outputs"] = {"grammar": 'root ::= "\\"" [a-z ]{%d} "\\""' % args.answer}
                else:
                    text = {"type": "string", "minLength": args.answer, "maxLength": args.answer}
                    body["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": text}}
            first, message, usage, _ = server.ask(body)
            read = usage["prompt_tokens"] - usage["prompt_tokens_details"]["cached_tokens"]
            turns.append({"turn": turn, "step": step, "ttft_s": first, "read": read, "prompt": usage["prompt_tokens"],
                          "said": message["content"] + json.dumps([call["function"] for call in message.get("tool_calls", [])])})
            messages.append(message)
            for call in message.get("tool_calls", []):
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": sentence(turn * 7 + step)})
        time.sleep(wait)
    return turns


class Busy:
    """Other clients, each asking again as soon as it has its answer."""

    def __init__(self, server, count):
        self.stopping, self.first, self.gaps = False, [], []
        self.threads = [threading.Thread(target=self.ask, args=(server, number)) for number in range(count)]
        for thread in self.threads:
            thread.start()

    def ask(self, server, number):
        turn = 0
        while not self.stopping:
            turn += 1
            first, _, _, gaps = server.ask({"messages": [{"role": "user", "content": sentence(number * 1000 + turn)}], "max_tokens": 64,
                                            "temperature": 0, "reasoning_effort": "none"})
            self.first.append(first)
            self.gaps += gaps

    def stop(self):
        self.stopping = True
        for thread in self.threads:
            thread.join()

    def figures(self, seconds):
        if not self.first:
            return {}
        return {"answers_per_s": len(self.first) / seconds, "ttft_s": share(self.first, 0.5), "ttft_p99_s": share(self.first, 0.99),
                "gap_s": share(self.gaps, 0.5), "gap_p99_s": share(self.gaps, 0.99)}


def share(numbers, part):
    return sorted(numbers)[min(len(numbers) - 1, int(part * len(numbers)))]


def measure(args, folder):
    rows, said = [], {}
    template = args.template or preserving(folder)
    for work in args.works.split(","):
        for wait in (float(wait) for wait in args.waits.split(",")):
            for way in args.ways.split(","):
                server = Server(args, way, template, os.path.join(folder, f"{work}-{wait}"))
                begun = time.monotonic()
                busy = Busy(server, args.busy)
                turns = converse(server, args, work, wait)
                busy.stop()
                seconds = time.monotonic() - begun
                server.stop()
                texts = [turn.pop("said") for turn in turns]
                plain = said.setdefault((work, way == "keep-thinking"), texts)
                first = [turn for turn in turns if turn["turn"] > 0 and turn["step"] == 0]
                later = [turn for turn in turns if turn["step"] > 0]
                rows.append({"work": work, "wait_s": wait, "way": way, "turns": turns, "others": busy.figures(seconds), "seconds": seconds,
                             "ttft_s": statistics.median(turn["ttft_s"] for turn in first),
                             "read": statistics.median(turn["read"] for turn in first),
                             "later_ttft_s": statistics.median(turn["ttft_s"] for turn in later) if later else None,
                             "later_read": statistics.median(turn["read"] for turn in later) if later else None,
                             "same": sum(one == other for one, other in zip(texts, plain)), "answers": len(texts),
                             "digest": hashlib.sha256(json.dumps(texts).encode()).hexdigest()})
                print(row(rows[-1]), flush=True)
    return rows


def row(r):
    later = f"{1000 * r['later_ttft_s']:8.0f} {r['later_read']:8.0f}" if r["later_read"] is not None else " " * 17
    others = ("{answers_per_s:8.2f} {ttft_s:7.0f} /{ttft_p99_s:5.0f} {gap_s:7.1f} /{gap_p99_s:6.1f}"
              .format(**{name: number if name == "answers_per_s" else 1000 * number for name, number in r["others"].items()}) if r["others"] else "")
    return (f"{r['work']:6} {r['wait_s']:5.0f} s  {r['way']:14} {1000 * r['ttft_s']:8.0f} {r['read']:8.0f} {later}  {r['same']:3}/{r['answers']:<3}"
            + others)


def main():
    args = arguments()
    print(f"{'work':6} {'wait':>7}  {'way':14} {'TTFT ms':>8} {'read':>8} {'in chain':>8} {'read':>8}  same   others/s TTFT ms p50/p99 gap ms p50/p99")
    with tempfile.TemporaryDirectory(prefix="next-turn-") as folder:
        for work in args.works.split(","):
            for wait in args.waits.split(","):
                os.makedirs(os.path.join(folder, f"{work}-{float(wait)}"), exist_ok=True)
        rows = measure(args, folder)
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"model": args.model, "flags": args.flags, "busy": args.busy, "rows": rows}, file, indent=1)
    return 0 if all(r["same"] == r["answers"] for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
