#!/usr/bin/env python3
"""Models that other people trained and quantised, end to end over HTTP.

usage: real_models_test.py build/anabranch MODEL_DIR [--all]

The models are those of tools/fetch_real_models.py: the two small ones, with --all every one. A small model that could not
be fetched is skipped; MODEL_DIR is not used. For each model:

  template     the chat template gives the golden's text, and the tokenizer its token ids
  greedy       --precise: the tokens of Transformers on the dequantised weights (data/*.json, by tools/eval_model.py)
  chat         a question is answered. Without a template the refusal says so, and a text is continued
  schema       an answer in a JSON schema validates
  tool call    where the template shows tools: a call with the right arguments, and an answer from its result or another call
  speculation  drafts change no answer and no log-probability
  restart      after kill -9 the next turn finds its beginning on disk, and its answer is that of a server without a cache

Prints one line for each check and "N passed, N failed"; the exit status is 1 when one failed.
"""

import concurrent.futures
import json
import pathlib
import signal
import sys
import tempfile
import time

import jsonschema

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "tests/models"), str(ROOT / "tests/server"), str(ROOT / "tools")]
import fetch_real_models as real_models  # noqa: E402
from accuracy_test import NEAR_TIE, check_greedy  # noqa: E402
from exactness_test import Server  # noqa: E402

CITY = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}, "capital": {"type": "boolean"},
                                         "founded": {"type": "integer", "minimum": -3000, "maximum": 2026}},
        "required": ["city", "capital", "founded"], "additionalProperties": False}
FORM = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY, "strict": True}}
TOOLS = [{"type": "function", "function": {
    "name": "get_temperature", "description": "The temperature of a city in degrees Celsius",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]
COUNTING = "one two three four five six seven eight nine ten one two three four five six seven"  # drafts itself
STORY = "The library of Millbrook has 12,000 books, a reading room with eight lamps, and a clock made by two brothers. " * 12


def read(name):
    return json.loads((HERE / "data" / f"{name}.json").read_text())


def user(text):
    return {"role": "user", "content": text}


def chat(*messages, max_tokens=48, **more):
    return "/v1/chat/completions", {"messages": list(messages), "max_tokens": max_tokens, "temperature": 0, "logprobs": True,
                                    "top_logprobs": 2} | more


def text(prompt, max_tokens=48, **more):
    return "/v1/completions", {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "logprobs": 2} | more


def answer_of(choices):
    choice = choices[0]
    return choice["text"] if "text" in choice else choice["message"]["content"]


class Check:
    """One model."""

    def __init__(self, program, name):
        self.program, self.name = program, name
        self.golden = read(name)
        self.has_template = any("messages" in prompt for prompt in self.prompts())
        self.passed = self.failed = 0

    def prompts(self):
        """The goldens' prompts, one for each run: a model without a template has only the texts."""
        every = read("prompts")
        return every if len(every) == len(self.golden["runs"]) else [prompt for prompt in every if "text" in prompt]

    def server(self, *flags):
        return Server(self.program, str(real_models.path_of(self.name)), *flags)

    def check(self, name, function, *arguments):
        try:
            note = function(*arguments)
            self.passed += 1
            print(f"ok     {self.name}, {name}: {note}", flush=True)
        except Exception as error:  # noqa: BLE001: one more failure
            self.failed += 1
            print(f"FAILED {self.name}, {name}: {type(error).__name__}: {error}", flush=True)

    # ---- against the goldens

    def template(self, server):
        for prompt, run in zip(self.prompts(), self.golden["runs"]):
            # Where the template does not show tools, we do.
            if "messages" in prompt and ("tools" not in prompt or self.shows_tools()):
                rendered = server.send("/apply-template", prompt)["prompt"]
                assert rendered == run["text"], f"{rendered!r} for {run['text']!r}"
            tokens = server.send("/tokenize", {"content": run["text"], "add_special": False, "parse_special": True})["tokens"]
            assert tokens == run["prompt"], f"{tokens} for {run['prompt']}"
        return f"{len(self.golden['runs'])} prompts"

    def greedy(self, server):
        def continued(run):
            answer = server.send("/v1/generate", {"prompt_token_ids": run["prompt"], "max_tokens": self.golden["max_tokens"],
                                                  "temperature": 0, "ignore_eos": True})
            return answer["token_ids"]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            outputs = [pool.submit(continued, run) for run in self.golden["runs"]]
            return check_greedy(outputs, self.golden["runs"], NEAR_TIE)

    # ---- what the model is asked, and what it must answer

    def questions(self):
        if not self.has_template:
            return {"chat": text("The Eiffel Tower is in the city of", 16), "counting": text(COUNTING),
                    "schema": text("Paris, as JSON with its name and when it was founded: ", 80, response_format=FORM),
                    "story": text(STORY + "The clock was made by")}
        asked = {"chat": chat(user("Where is the Eiffel Tower?")), "counting": chat(user("Go on: " + COUNTING)),
                 "schema": chat(user("Describe Paris as JSON."), max_tokens=80, response_format=FORM),
                 "story": chat(user(STORY + "Who made the clock?"))}
        if self.shows_tools():
            asked["tool call"] = chat(user("How warm is it in Oslo right now?"), tools=TOOLS, max_tokens=80)
        return asked

    def shows_tools(self):
        return any("get_weather" in run["text"] for run in self.golden["runs"])

    def next_turn(self, choices):
        if not self.has_template:
            return text(STORY + "The clock was made by" + answer_of(choices) + "\n\nThe reading room")
        return chat(user(STORY + "Who made the clock?"), {"role": "assistant", "content": answer_of(choices)},
                    user("And how many lamps are there?"))

    def chats(self, server, choices):
        said = answer_of(choices)
        assert "Paris" in said, said
        if not self.has_template:
            try:
                server.ask(chat(user("Hi")))
            except RuntimeError as error:
                assert "no chat template" in str(error), error
            else:
                raise AssertionError("a model without a template took a chat")
        return repr(said[:60])

    def schema(self, choices):
        assert choices[0]["finish_reason"] == "stop", choices
        jsonschema.validate(json.loads(answer_of(choices)), CITY)
        return answer_of(choices)

    def tool_call(self, server, choices):
        message = choices[0]["message"]
        (call,) = message["tool_calls"]
        assert choices[0]["finish_reason"] == "tool_calls" and call["function"]["name"] == "get_temperature", choices
        assert json.loads(call["function"]["arguments"]) == {"city": "Oslo"}, call
        result = {"role": "tool", "tool_call_id": call["id"], "content": "-17"}
        after, _ = server.ask(chat(user("How warm is it in Oslo right now?"), message, result, tools=TOOLS))
        # The smaller Qwen2.5-Coder calls again.
        assert "17" in (answer_of(after) or "") or after[0]["message"].get("tool_calls"), after
        return repr(answer_of(after) or after[0]["message"]["tool_calls"])[:80]

    # ---- the same answers in other ways

    def speculation(self, server, asked, want):
        notes = []
        for source in server.health()["model"]["draft_sources"]:
            answers = {name: server.ask(question, speculation={"source": source, "depth": 4}) for name, question in asked.items()}
            wrong = [name for name, (choices, _) in answers.items() if choices_of(choices) != choices_of(want[name])]
            assert not wrong, f"{source} changes {', '.join(wrong)}"
            drafted, accepted = (sum(usage["speculation"][key] for _, usage in answers.values()) for key in ("drafted", "accepted"))
            assert accepted > 0, f"{source}: nothing was accepted of {drafted}"
            notes.append(f"{source}: {accepted} of {drafted} accepted")
        assert notes, "there is no source of drafts"
        return ", ".join(notes)

    def restart(self, directory, asked, want, next_turn):
        with self.server("--cache-dir", directory, "--cache-disk-worth", "0") as server:
            choices, _ = server.ask(asked["story"])
            assert choices == want["story"], "the first turn's answer"
            deadline = time.monotonic() + 60
            while server.health()["cache"]["disk"]["bytes"] == 0 and time.monotonic() < deadline:
                time.sleep(0.1)  # a thread of its own writes what was kept
            time.sleep(0.5)
            server.stop(signal.SIGKILL)
        with self.server("--cache-dir", directory, "--cache-disk-worth", "0") as server:
            choices, usage = server.ask(next_turn)
            found = usage["prompt_tokens_details"]["cached_tokens"]
            assert choices == want["next turn"], f"{answer_of(choices)!r} for {answer_of(want['next turn'])!r}"
            assert found >= 256 and server.health()["cache"]["disk_hits"] > 0, f"{found} tokens were found on disk"
            return f"{found} of {usage['prompt_tokens']} tokens were on disk"

    def run(self):
        with self.server("--precise", "--no-cache", "--spec", "off") as server:
            self.check("template", self.template, server)
            self.check("greedy", self.greedy, server)
        asked, want = self.questions(), {}
        with self.server("--no-cache", "--spec", "off") as server:
            for name, question in asked.items():
                want[name], _ = server.ask(question)
            next_turn = self.next_turn(want["story"])
            want["next turn"], _ = server.ask(next_turn)
            self.check("chat", self.chats, server, want["chat"])
            self.check("schema", self.schema, want["schema"])
            if "tool call" in asked:
                self.check("tool call", self.tool_call, server, want["tool call"])
        with self.server("--no-cache") as server:
            self.check("speculation", self.speculation, server, asked, want)
        with tempfile.TemporaryDirectory() as directory:
            self.check("restart", self.restart, directory, asked, want, next_turn)


def choices_of(choices):
    """Without the ids of calls, which are drawn anew for each answer."""
    return json.loads(json.dumps(choices), object_hook=lambda value: {k: v for k, v in value.items() if k != "id"})


def main():
    arguments = sys.argv[1:]
    names = real_models.GROUPS["all" if "--all" in arguments else "small"]
    passed = failed = skipped = 0
    for name in names:
        if not (HERE / "data" / f"{name}.json").exists():
            print(f"skipped {name}: its reference is not made yet (tools/eval_model.py)")
            skipped += 1
            continue
        if not real_models.is_there(name) and name in real_models.GROUPS["small"]:
            print(f"skipped {name}: {real_models.path_of(name)} is not there (tools/fetch_real_models.py)")
            skipped += 1
            continue
        check = Check(arguments[0], name)
        try:
            check.run()
        except Exception as error:  # noqa: BLE001: the rest of this model cannot be checked
            check.failed += 1
            print(f"FAILED {name}: {type(error).__name__}: {error}", flush=True)
        passed, failed = passed + check.passed, failed + check.failed
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
