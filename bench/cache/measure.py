"""Runs the works on the servers: what is asked in which order, and what is compared."""

import os
import shutil
import statistics
import time

import servers
import tally
import works
from prepare import say
from programs import Failure
from servers import TokenCounter  # noqa: F401: for run.py

SEED = 20261122
TOOL_TOKENS = {"hybrid-146m": 6000, "qwen35-0.8b": 12000}
ANSWER_TOKENS = {"tools": 24, "conversation": 600, "agent": 32}
TINY_RAM, TINY_DISK = "2MB", "32MB"  # less than one state; a few
NO_MLX = ("mlx_lm.server is left out: on two cores it computes less than a token a second, and a prompt with a single"
          " tool (300 tokens) had no answer after 15 minutes.")
LLAMA_CONTEXT = 16384


class Results:
    def __init__(self):
        self.first_text, self.conversations, self.traces, self.notes, self.errors = [], [], [], [], []
        self.answers, self.differences = {}, []

    def compare(self, work, variant, reference, reply, what):
        count = self.answers.setdefault((work, variant), {"answers": 0, "tokens": 0, "log probabilities": 0})
        count["answers"] += 1
        differs = tally.compare((reference.said(), reference.logprobs), (reply.said(), reply.logprobs))
        if differs:
            count[differs] += 1
            say(f"{work}, {variant}, {what}: the {differs} differ")
            self.differences.append({"work": work, "variant": variant, "request": what, "differs": differs,
                                     "cold": reference.reasoning + reference.content,
                                     "got": reply.reasoning + reply.content})

    def differing(self):
        return len(self.differences)

    def report(self):
        return {"first text": self.first_text, "conversations": self.conversations, "agent": self.traces,
                "answers": [{"work": work, "variant": variant, **count}
                            for (work, variant), count in self.answers.items()],
                "differences": self.differences, "notes": self.notes, "errors": self.errors}

    def text(self):
        parts = []
        if self.first_text:
            parts += ["## Long tool schema", tally.first_text_table(self.first_text)]
        for talk in self.conversations:
            parts += [f"## Conversation, {talk['model']}", tally.calls_table(talk["calls"]), talk["summary"]]
        if self.traces:
            parts += ["## Agent", tally.trace_table([(t["model"], t["program"], t["summary"]) for t in self.traces])]
        if self.answers:
            parts += ["## Answers", tally.answers_table(self.answers)]
        return "\n\n".join(["", *parts, *self.notes, ""])


# ---- cache directories

def files_in(folder):
    """{path: (size, bytes on disk)}."""
    found = {}
    for at, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(at, name)
            try:
                info = os.stat(path)
            except FileNotFoundError:
                continue
            found[path] = (info.st_size, 512 * info.st_blocks)
    return found


def wait_until_written(folder, quiet=0.5):
    """Until no record is being written and none was added for `quiet` seconds; returns the seconds it took, without
    those."""
    start = changed = time.monotonic()
    before = None
    while time.monotonic() - changed < quiet:
        now = files_in(folder)
        if now != before or any(os.path.basename(path).startswith("tmp-") for path in now):
            before, changed = now, time.monotonic()
        time.sleep(0.02)
    return changed - start


def forget_pages(folder):
    """Has the system drop the files from memory, so that they are read from the disk."""
    for path in files_in(folder):
        file = os.open(path, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


class Bench:
    def __init__(self, args, shop, model, folder, results):
        self.args, self.shop, self.model, self.folder, self.results = args, shop, model, folder, results
        self.tokens = None  # a TokenCounter, set by run.py

    def path(self, *parts):
        return self.shop.path("cache-bench", *parts)

    def fresh(self, name, source=None):
        """An empty cache directory, or one with the files of another (hard links: no one writes into them)."""
        folder = self.path(f"{self.model}-{name}")
        shutil.rmtree(folder, ignore_errors=True)
        if source:
            shutil.copytree(source, folder, copy_function=os.link)
        else:
            os.makedirs(folder, 0o700)
        return folder

    def ours(self, *options):
        return servers.anabranch(self.args.anabranch, self.folder, self.args.threads,
                                 self.path(f"{self.model}-anabranch.log"), *options)

    def name(self, work):
        return f"{work}, {self.model}"

    def say(self, work, text):
        say(f"{self.name(work)}: {text}")

    def replay(self, server, work, variant, requests, references, **more):
        """Asks all again, compares each answer with the cold run's, and returns the replies."""
        replies = []
        for at, (request, reference) in enumerate(zip(requests, references)):
            replies.append(server.ask({**request, **more}))
            self.results.compare(self.name(work), variant, reference, replies[-1], f"request {at + 1}")
        self.say(work, f"{variant}: first text after {', '.join(tally.seconds(reply.ttft_s) for reply in replies)}")
        return replies

    def pressed(self, work, requests, references):
        """Variants in which hardly anything stays in memory."""
        with self.ours("--cache-dir", self.fresh("pressed"), "--cache-ram", TINY_RAM) as server:
            self.replay(server, work, f"memory for {TINY_RAM}, the rest on disk", requests, references)
        with self.ours("--cache-dir", self.fresh("pressed"), "--cache-ram", TINY_RAM, "--cache-disk",
                       TINY_DISK) as server:
            self.replay(server, work, f"memory for {TINY_RAM}, disk for {TINY_DISK}", requests, references)
        if work != "agent":  # all would be cold: many minutes
            with self.ours("--cache-ram", TINY_RAM, "--cache-disk", "0") as server:
                self.replay(server, work, f"memory for {TINY_RAM}, no disk", requests, references)

    # ---- the tool schema

    def tools(self):
        work, reps = "tools", self.args.reps
        target = TOOL_TOKENS[self.model] // (4 if self.args.quick else 1)
        schema = works.fitting_tools(SEED, target, lambda request: len(self.tokens.prompt(request)))
        ask = [{**works.question(schema, number, ANSWER_TOKENS[work]), "logprobs": True} for number in range(reps + 1)]
        size = len(self.tokens.prompt(ask[0]))
        self.say(work, f"{len(schema)} tools, {size} tokens")
        row = {"model": self.model, "program": "Anabranch", "tokens": size, "tools": len(schema), "cold": [],
               "others": {}}
        with self.ours("--no-cache") as server:
            references = [server.ask(request) for request in ask]
        self.say(work, f"answers of {len(ask)} cold runs")
        same, other = [ask[0]] * reps, ask[1:]
        same_references, other_references = [references[0]] * reps, references[1:]

        for turn in range(self.args.cold_reps):
            cold = self.fresh("cold")
            with self.ours("--cache-dir", cold) as server:
                row["cold"] += self.ttfts(self.replay(server, work, "kept nothing before", ask[:1], references[:1]))
                if turn + 1 == self.args.cold_reps:
                    wait = wait_until_written(cold)
                    server.kill()
                elif turn == 0:
                    again = self.replay(server, work, "memory, the same again", same, same_references)
                    new = self.replay(server, work, "memory, another question", other, other_references)
                    self.replay(server, work, "memory, speculation off", ask[:2], references[:2], speculation="off")
        kept = self.fresh("kept", cold)
        row["written"] = sum(size for size, _ in files_in(kept).values())
        row["others"]["from memory, the same again"] = (self.ttfts(again), tally.RAM_TARGET)
        row["others"]["from memory, another question"] = (self.ttfts(new), tally.RAM_TARGET)
        row["others"]["from disk after kill -9, the same again"] = (
            self.restarted(work, kept, same, same_references), tally.DISK_TARGET)
        row["others"]["from disk after kill -9, another question"] = (
            self.restarted(work, kept, other, other_references), tally.DISK_TARGET)
        with self.ours("--cache-dir", self.fresh("cold", kept), "--cache-ram", TINY_RAM) as server:
            self.replay(server, work, f"memory for {TINY_RAM}, the rest on disk", [*ask[:2], ask[0]],
                        [*references[:2], references[0]])
        if self.model == "hybrid-146m":
            with self.ours("--cache-ram", TINY_RAM, "--cache-disk", "0") as server:
                self.replay(server, work, f"memory for {TINY_RAM}, no disk", ask[:2], references[:2])
        preparing = self.preparation(ask)
        self.results.first_text.append(row)
        self.results.notes.append(
            f"{self.name(work)}: killed {wait:.1f} s after the answer, when {tally.megabytes(row['written'])} had been"
            f" written; the files were dropped from the page cache before each restart. Rendering and tokenising,"
            f" measured as the refusal of the request for its length by a server with a shorter context: "
            f"{tally.seconds(preparing[0])} the first time, then {tally.seconds(statistics.median(preparing[1:]))}.")
        if self.model == "qwen35-0.8b":
            self.attempt(self.llama_tools, ask)
            self.results.notes.append(NO_MLX)

    @staticmethod
    def ttfts(replies):
        return [reply.ttft_s for reply in replies]

    def restarted(self, work, kept, requests, references):
        """First requests, each of a server of its own on the files that the killed one left."""
        taken = []
        for request, reference in zip(requests, references):
            folder = self.fresh("restarted", kept)
            forget_pages(folder)
            with self.ours("--cache-dir", folder) as server:
                taken += self.ttfts(self.replay(server, work, "disk, after kill -9", [request], [reference]))
                server.kill()
        return taken

    def preparation(self, requests):
        with self.ours("--context", "1024", "--cache-disk", "0") as server:
            return [server.refuse("/v1/chat/completions", request) for request in [*requests, *requests]]

    def attempt(self, measure, *more):
        """An engine that fails does not stop the run."""
        try:
            measure(*more)
        except Failure as failure:
            self.results.errors.append(str(failure))

    def llama(self):
        return servers.llama_server(self.shop.llama("llama-server"), os.path.realpath(self.shop.qwen_gguf("Q4_0")),
                                    os.path.join(self.folder, "chat_template.jinja"), self.args.threads,
                                    LLAMA_CONTEXT, self.path(f"{self.model}-llama-server.log"))

    def llama_tools(self, ask):
        if "llama-server" not in self.args.peers:
            return
        requests = [{key: value for key, value in request.items() if key != "logprobs"} for request in ask]
        with self.llama() as server:
            first = server.ask(requests[0])
            row = {"model": self.model, "program": "llama-server", "tokens": first.prompt_tokens,
                   "cold": [first.ttft_s], "others": {}}
            self.say("tools", f"llama-server, cold: {tally.seconds(first.ttft_s)}")
            again = [server.ask(requests[0]) for _ in requests[1:]]
            new = [server.ask(request) for request in requests[1:]]
            server.kill()
        with self.llama() as server:
            after = server.ask(requests[0])
        row["others"] = {"from memory, the same again": (self.ttfts(again), None),
                         "from memory, another question": (self.ttfts(new), None),
                         "after kill -9 (keeps nothing by itself)": ([after.ttft_s], None)}
        row["cached"] = {"again": [r.cached_tokens for r in again], "other": [r.cached_tokens for r in new],
                         "restart": after.cached_tokens}
        self.results.first_text.append(row)

    # ---- turn after turn

    def count_calls(self, requests, replies, why):
        """The calls of the report, and the sequences that were computed."""
        calls, sequences, others = [], [], 0
        for request, reply, reason in zip(requests, replies, why):
            prompt = self.tokens.prompt(request)
            others += len(prompt) != reply.prompt_tokens
            could = max(tally.reusable(prompt, sequences), reply.cached_tokens)
            calls.append({"prompt": reply.prompt_tokens, "cached": reply.cached_tokens, "reusable": could,
                          "ttft_s": reply.ttft_s, "why": reason})
            sequences.append(tally.computed(prompt, self.tokens.tokens(reply)))
        if others:
            self.results.notes.append(f"{self.model}: {others} prompts have another length as the server counts them"
                                      " than as the bench does; what could be reused is at least what is shown.")
        return calls, sequences

    def conversation(self):
        work = "conversation"
        requests, references, history = [], [], []
        with self.ours("--no-cache") as server:
            for turn, text in enumerate(works.CONVERSATION):
                request = works.conversation_turn(history, turn, ANSWER_TOKENS[work])
                requests.append({**request, "logprobs": True})
                references.append(server.ask(requests[-1]))
                history = [*request["messages"], {"role": "assistant", "content": references[-1].content}]
            self.replay(server, work, "cold, speculation off", requests, references, speculation="off")
        folder, times, alone, in_place = self.fresh("conversation"), [], [], []
        with self.ours("--cache-dir", folder) as server:
            for turn in range(self.args.reps):
                salt = {"cache_salt": f"turn {turn}"}
                replies = [self.replay(server, work, "memory", [request], [reference], **salt)[0]
                           for request, reference in zip(requests, references)]
                times.append(self.ttfts(replies))
                if turn == 0:
                    calls, _ = self.count_calls(requests, replies, [""] * len(requests))
                    prompt = self.tokens.prompt(requests[-1])
                    new = len(prompt) - calls[-1]["reusable"]
                alone.append(self.cold(server, prompt[-new:]))
                in_place.append(self.cold(server, prompt) - self.cold(server, prompt[:-new]))
            self.replay(server, work, "memory, speculation off", requests, references, speculation="off",
                        cache_salt="off")
            wait_until_written(folder)
            server.kill()
        forget_pages(folder)
        with self.ours("--cache-dir", folder) as server:
            self.replay(server, work, "disk, after kill -9", requests, references, cache_salt="turn 0")
        self.pressed(work, requests, references)
        for at, call in enumerate(calls):
            call["ttft_s"] = statistics.median(turn[at] for turn in times)
        last, alone_s, in_place_s = calls[-1]["ttft_s"], statistics.median(alone), statistics.median(in_place)
        ratio = last / alone_s
        self.results.conversations.append({
            "model": self.model, "calls": calls, "ttft_s": times, "alone_s": alone, "in_place_s": in_place,
            "new tokens": new, "ratio": ratio,
            "summary": f"Hit rate {tally.percent(tally.hit_rate(calls))}. Turn 5: {tally.seconds(last)}; its {new} new"
                       f" tokens alone, cold: {tally.seconds(alone_s)}, ratio {ratio:.2f} (target <="
                       f" {tally.TURN_TARGET}: {'met' if ratio <= tally.TURN_TARGET else 'MISSED'}); the same tokens"
                       f" where they stand (a cold run of all less one without them): {tally.seconds(in_place_s)},"
                       f" ratio {last / in_place_s:.2f}."})

    @staticmethod
    def cold(server, tokens):
        request = {"prompt": tokens, "max_tokens": 1, "temperature": 0, "cache": False, "logprobs": 0}
        return server.ask(request, "/v1/completions").ttft_s

    def agent(self):
        work, compared = "agent", self.model == "hybrid-146m"
        schema = works.agent_tools(SEED)
        requests, references = [], []
        if compared:
            with self.ours("--no-cache") as server:
                for request in works.agent_calls(SEED, schema, ANSWER_TOKENS[work],
                                                 lambda n: works.plain(references[n].content)):
                    requests.append({**request, "logprobs": True})
                    references.append(server.ask(requests[-1]))
            self.say(work, f"answers of {len(requests)} cold runs")
        else:
            requests = [{**request, "logprobs": True}
                        for request in works.agent_calls(SEED, schema, 8, lambda n: works.plain(""))]
        folder, times = self.fresh("agent"), []
        with self.ours("--cache-dir", folder) as server:
            replies, why = [], []
            for at, request in enumerate(requests):
                replies.append(server.ask(request))
                why.append(server.get("/health")["cache"]["last_miss"])
                if compared:
                    self.results.compare(self.name(work), "memory", references[at], replies[-1], f"request {at + 1}")
            calls, sequences = self.count_calls(requests, replies, why)
            wait_until_written(folder)
            on_disk = sum(blocks for _, blocks in files_in(folder).values())
            # Too short to be kept; the counters are brought up to date by it.
            server.ask({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1})
            health = server.get("/health")
            times.append(self.ttfts(replies))
            for turn in range(1, self.args.reps if compared else 1):
                salt = {"cache_salt": f"turn {turn}"}
                times.append(self.ttfts(self.replay(server, work, "memory", requests, references, **salt)))
            if compared:
                self.replay(server, work, "memory, speculation off", requests, references, speculation="off",
                            cache_salt="off")
            wait_until_written(folder)
            server.kill()
        if compared:
            forget_pages(folder)
            with self.ours("--cache-dir", folder) as server:
                self.replay(server, work, "disk, after kill -9", requests, references)
            self.pressed(work, requests, references)
        for at, call in enumerate(calls):
            call["ttft_s"] = statistics.median(turn[at] for turn in times)
        size = health["model"]["sequence_bytes"]
        summary = tally.trace_summary(calls, health["cache"]["disk"]["written_bytes"], on_disk, sequences,
                                      size["per_token"] + size["drafts_per_token"], size["fixed"])
        self.results.traces.append({"model": self.model, "program": "Anabranch", "calls": calls, "summary": summary,
                                    "sequence_bytes": size, "disk": health["cache"]["disk"]})
        if not compared:
            self.attempt(self.llama_agent, requests, calls, sequences)

    def llama_agent(self, requests, ours, sequences):
        if "llama-server" not in self.args.peers:
            return
        calls = []
        with self.llama() as server:
            for request, call in zip(requests, ours):
                reply = server.ask({key: value for key, value in request.items() if key != "logprobs"})
                if abs(reply.prompt_tokens - call["prompt"]) > 2:
                    say(f"llama-server renders {reply.prompt_tokens} tokens where we have {call['prompt']}")
                calls.append({**call, "prompt": reply.prompt_tokens, "cached": reply.cached_tokens,
                              "ttft_s": reply.ttft_s, "why": ""})
        summary = tally.trace_summary(calls, 0, 0, sequences, 1, 0)
        self.results.traces.append({"model": self.model, "program": "llama-server", "calls": calls,
                                    "summary": summary})
