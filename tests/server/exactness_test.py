#!/usr/bin/env python3
"""Answers over HTTP do not depend on how they were computed: complete texts and log-probabilities are compared.

usage: exactness_test.py PROGRAM MODEL_DIR [CHECKPOINT ...] [--repeats N] [--tokens N] [--draft MODEL] [--flags "..."]

Without checkpoints, the tiny random ones of tests/models/data are asked, one of each kind; MODEL_DIR gives nothing then.
Each question is asked of a server that computes it on one thread without drafts and without a cache. The other answers
must equal this one:

  threads      cold, on two threads
  ngram, ...   with drafts of each source that the model has; a tiny model is also its own draft model
  first        by a server that keeps states; a second question begins like one before it
  second       again, from the kept states
  together     all at once, with drafts as the server likes
  crowded      long answers, with memory for fewer than there are, so that some are interrupted
  restarted    by a new server with the states on disk
  killed       the same after kill -9

The questions: prompts that cross blocks of keys and values and leave sliding windows behind (--repeats: of a paragraph of
about 90 bytes), greedy and with seeds, several choices, a JSON schema, a thought with a budget, two turns that go on
from an earlier answer, and pictures where the model reads them; without the chats where the model has no template. Prints a line for each checkpoint and way, and "N passed, N failed".
"""

import argparse
import base64
import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

sys.dont_write_bytecode = True
from pictures import drawing  # noqa: E402
from soak_test import free_port  # noqa: E402

DATA = pathlib.Path(__file__).resolve().parents[1] / "models/data"
TINY = ("llama_tied", "qwen35_nested_untied_grouped", "qwen35_moe_nested_mtp", "gemma3", "gemma4_shared_kv", "qwen3_5_vision",
        "gemma3_vision")
PARAGRAPH = "In the year 1923 the town council of Millbrook voted, after long talks, to build a library. "
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "year": {"type": "integer"},
                                           "open": {"type": "boolean"}}, "required": ["name", "year", "open"]}
BLOCK = 256  # tokens: a sequence's memory grows by them
GROWING = {f"growing {i}": ("/v1/completions", {"prompt": f"{i}. A bridge", "max_tokens": 2 * BLOCK + 50, "temperature": 1.0,
                                                "seed": i, "logprobs": 1, "ignore_eos": True}) for i in range(4)}


def questions(repeats, tokens):
    """{name: (path, body)}"""
    begin = PARAGRAPH * repeats

    def text(prompt, **more):
        return "/v1/completions", {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "logprobs": 2,
                                   "ignore_eos": True} | more

    def chat(prompt, **more):
        return "/v1/chat/completions", {"messages": [{"role": "user", "content": prompt}], "max_tokens": tokens,
                                        "temperature": 0, "logprobs": True, "top_logprobs": 2,
                                        "enable_thinking": False} | more

    sampled = {"temperature": 0.8, "top_p": 0.95, "seed": 5}
    form = {"type": "json_schema", "json_schema": {"name": "library", "schema": SCHEMA, "strict": True}}
    return {
        "plain": text(begin + "The library"),
        "like it": text(begin + "The mayor said that", **sampled),
        "longer": text(begin * 2 + "Nobody knew", repetition_penalty=1.1),
        "choices": text(begin[:len(begin) // 2] + "Either", n=3, **sampled | {"temperature": 1.0}),
        "numbers": text("1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2, 3,"),
        "form": chat(begin + "Tell me about it.", response_format=form, **sampled),
        "thought": chat(begin[:len(begin) // 3] + "When?", enable_thinking=True, max_thinking_tokens=tokens // 3),
    }


def picture(seed, width, height):
    """A part of a message."""
    data = base64.b64encode(drawing(seed, width, height)).decode()
    return {"type": "image_url", "image_url": {"url": "data:image/png;base64," + data}}


def picture_questions(chat):
    """chat: a question whose messages are replaced."""
    def of(*content, **more):
        return chat[0], chat[1] | {"messages": [{"role": "user", "content": list(content)}]} | more

    def text(words):
        return {"type": "text", "text": words}
    one, two = picture(1, 60, 44), picture(2, 90, 130)
    return {
        "picture": of(text(PARAGRAPH * 3), one, text("What is it?")),
        # States are kept at 1,024 tokens, but not within a picture that is seen as a whole.
        "picture at 1,024": of(text("x" * 1010), one, two, text("And now?")),
        "two pictures": of(one, two, text("What are they?"), temperature=0.8, seed=3),
        "same picture": of(text("Once more: "), two, text(PARAGRAPH), two, text("Is it the same?")),
    }


def with_turns(asked, answers):
    """Questions that go on from these answers."""
    path, body = asked["longer"]
    text = {"text goes on": (path, body | {"prompt": body["prompt"] + answers["longer"][0]["text"] + " Then"})}
    if "form" not in asked:
        return text
    chat_path, chat = asked["form"]
    turns = chat["messages"] + [{"role": "assistant", "content": answers["form"][0]["message"]["content"]},
                                {"role": "user", "content": "And then?"}]
    if "picture" in asked:
        path, seen = asked["picture"]
        text["another picture"] = path, seen | {"messages": seen["messages"] + [
            {"role": "assistant", "content": answers["picture"][0]["message"]["content"]},
            {"role": "user", "content": [picture(4, 200, 40), {"type": "text", "text": "And this?"}]}]}
    return text | {"next turn": (chat_path, {k: v for k, v in chat.items() if k != "response_format"} | {"messages": turns})}


class Server:
    def __init__(self, program, model, *flags):
        self.port = free_port()
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([program, "-q", "serve", "--model", model, "--port", str(self.port), *flags],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, text=True)
        if " on http" not in self.process.stdout.readline():
            self.process.wait()
            self.log.seek(0)
            raise RuntimeError("the server did not start: " + self.log.read().strip()[-500:])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop(signal.SIGKILL)

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        if self.process.wait() not in (0, -signal.SIGKILL):
            raise RuntimeError(f"the server ended with status {self.process.returncode}")

    def send(self, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.request("POST" if body else "GET", path, json.dumps(body) if body else None,
                           {"Content-Type": "application/json"})
        response = connection.getresponse()
        data = response.read()
        if response.status != 200:
            raise RuntimeError(f"{path}: {response.status} {data[:300]}")
        return json.loads(data)

    def ask(self, question, **more):
        """-> its choices, and its usage."""
        path, body = question
        answer = self.send(path, body | more)
        return answer["choices"], answer["usage"]

    def health(self):
        return self.send("/health")


class Check:
    """One checkpoint, asked in all ways."""

    def __init__(self, program, model, name, options, draft=""):
        self.program, self.model, self.name, self.flags = program, model, name, options.flags.split()
        self.draft = ["--draft", draft] if draft else []
        self.asked = questions(options.repeats, options.tokens)
        self.want, self.drafts, self.passed, self.failed = {}, {}, 0, 0

    def server(self, *flags):
        return Server(self.program, self.model, *self.flags, *flags)

    def compare(self, way, answers, note=""):
        wrong = [name for name, (choices, _) in answers.items() if choices != self.want[name]]
        self.result(way, not wrong, note if not wrong else "differs: " + ", ".join(
            f"{name} ({first_difference(self.want[name], answers[name][0])})" for name in wrong))

    def result(self, way, good, note):
        self.passed += good
        self.failed += not good
        print(f"{'ok    ' if good else 'FAILED'} {self.name}, {way}" + (f": {note}" if note else ""), flush=True)

    def ask_all(self, server, names=None, **more):
        return {name: server.ask(self.question(name), **more) for name in names or self.asked}

    def question(self, name):
        return GROWING[name] if name in GROWING else self.asked[name]

    def ask_together(self, server, names=None, **more):
        answers, errors = {}, []

        def one(name):
            try:
                answers[name] = server.ask(self.question(name), **more)
            except Exception as error:  # raised again below
                errors.append(error)
        threads = [threading.Thread(target=one, args=(name,)) for name in names or self.asked]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return answers

    def cold(self):
        plain = {"cache": False, "speculation": "off"}
        with self.server("--threads", "1", "--no-cache", "--spec", "off") as server:
            if not has_template(server):
                self.asked = {name: question for name, question in self.asked.items() if "prompt" in question[1]}
            elif reads_images(server):
                self.asked |= picture_questions(self.asked["thought"])
            answers = self.ask_all(server)
            self.asked |= with_turns(self.asked, {name: choices for name, (choices, _) in answers.items()})
            answers |= self.ask_all(server, [name for name in self.asked if name not in answers])
            answers |= self.ask_all(server, GROWING)
            self.want = {name: choices for name, (choices, _) in answers.items()}
        with self.server("--threads", "2", "--no-cache", *self.draft) as server:
            self.compare("threads", self.ask_all(server, **plain))
            health = server.health()
            for source in health["model"]["draft_sources"]:
                answers = self.ask_all(server, speculation={"source": source, "depth": 4})
                drafted, accepted = (sum(usage["speculation"][key] for _, usage in answers.values())
                                     for key in ("drafted", "accepted"))
                self.drafts[source] = accepted, drafted
                self.compare(source, answers, f"{accepted} of {drafted} accepted")
                if drafted == 0:
                    self.result(source, False, "nothing was drafted")

    def cached(self, directory):
        def found(answers):
            return sum(usage["prompt_tokens_details"]["cached_tokens"] for _, usage in answers.values())
        keeps = ("--cache-dir", directory, "--cache-disk-worth", "0")
        with self.server(*keeps) as server:
            model = server.health()["model"]
            answers = self.ask_all(server)
            self.compare("first", answers, f"{found(answers)} tokens cached")
            for way in ("second", "restarted", "killed"):
                answers = self.ask_all(server)
                self.compare(way, answers, f"{found(answers)} tokens cached")
                if found(answers) == 0:
                    self.result(way, False, "nothing was cached")
                if way == "second":
                    self.compare("together", self.ask_together(server))
                server.stop(signal.SIGTERM if way == "second" else signal.SIGKILL)
                if way != "killed":
                    server.__init__(self.program, self.model, *self.flags, *keeps)
        return model

    def crowded(self, model):
        """Memory for three short ones, which then grow: the youngest must give its memory back."""
        bytes_of = model["sequence_bytes"]
        each = bytes_of["fixed"] + bytes_of["drafts_fixed"] + 2 * BLOCK * (bytes_of["per_token"] + bytes_of["drafts_per_token"])
        with self.server("--memory", f"{3 * each}B", "--cache-ram", "1GB", "--cache-disk", "0B") as server:
            for _ in range(5):  # on a busy machine one may end before the others begin
                self.compare("crowded", self.ask_together(server, GROWING))
                preempted = server.health()["engine"]["preempted"]
                if preempted > 0:
                    break
            self.result("crowded", preempted > 0, f"{preempted} times a request was interrupted")

    def run(self):
        with tempfile.TemporaryDirectory() as directory:
            try:
                self.cold()
                self.crowded(self.cached(directory))
            except Exception as error:
                self.result("all", False, f"{type(error).__name__}: {error}")
        return self.passed, self.failed


def reads_images(server):
    return "image" in server.send("/v1/models")["data"][0]["architecture"]["input_modalities"]


def has_template(server):
    try:
        server.ask(("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}))
        return True
    except RuntimeError as error:
        assert "no chat template" in str(error), error
        return False


def first_difference(want, got, path=""):
    if type(want) is not type(got) or not isinstance(want, (dict, list)) or len(want) != len(got):
        return f"{path}: {str(want)[:60]!r} became {str(got)[:60]!r}"
    for key in want if isinstance(want, dict) else range(len(want)):
        if want[key] != (got.get(key) if isinstance(got, dict) else got[key]):
            return first_difference(want[key], got[key] if isinstance(got, list) else got.get(key), f"{path}/{key}")
    return path


# Special tokens of the tiny models behind <eos>, <think> and </think>.
IMAGE_TOKENS = {"qwen3_5_vision": ("<unused>", "<|image_pad|>", "<|vision_start|>", "<|vision_end|>"),
                "gemma3_vision": ("<unused>", "<image_soft_token>", "<start_of_image>", "<end_of_image>")}


def byte_tokenizer(more=()):
    """256 bytes under GPT-2's names, <eos>, <think> and </think>."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    names = [chr(b) for b in printable] + [chr(256 + i) for i in range(256 - len(printable))]
    added = [{"id": 256 + i, "content": name, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for i, name in enumerate(("<eos>", "<think>", "</think>", *more))]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}
    return {"version": "1.0", "added_tokens": added, "normalizer": None, "pre_tokenizer": byte_level, "post_processor": None,
            "decoder": byte_level, "model": {"type": "BPE", "vocab": {name: i for i, name in enumerate(names)}, "merges": []}}


def copy_tiny(name, directory):
    """A golden checkpoint with a tokenizer, a template, and layers to draft with."""
    shutil.copytree(DATA / name / "model", directory)
    tokens = IMAGE_TOKENS.get(name, ())
    image = "<start_of_image>" if "gemma3" in name else "<|vision_start|><|image_pad|><|vision_end|>"
    parts = f"{{% for p in m.content %}}{{% if p.type == 'image' %}}{image}{{% else %}}{{{{ p.text }}}}{{% endif %}}{{% endfor %}}"
    content = f"{{% if m.content is string %}}{{{{ m.content }}}}{{% else %}}{parts}{{% endif %}}" if tokens else "{{ m.content }}"
    template = f"{{% for m in messages %}}{content}\n{{% endfor %}}{{% if enable_thinking %}}<think>{{% endif %}}"
    (directory / "tokenizer.json").write_text(json.dumps(byte_tokenizer(tokens)))
    (directory / "chat_template.jinja").write_text(template)
    config = json.loads((directory / "config.json").read_text())
    text = config.get("text_config", config)
    layers = text["num_hidden_layers"]
    text["max_position_embeddings"] = 4096
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "speculation.json").write_text(json.dumps(
        {"version": 1, "layers": layers, "exit_layers": list(range(layers - 1)), "skip_layers": [layers - 2]}))


def drop_mtp_head(directory):
    for path in directory.glob("*.safetensors"):
        data = path.read_bytes()
        begin = 8 + int.from_bytes(data[:8], "little")
        kept, tensors = b"", {}
        for name, tensor in json.loads(data[8:begin]).items():
            if name != "__metadata__" and not name.startswith("mtp."):
                first, last = tensor["data_offsets"]
                tensors[name] = tensor | {"data_offsets": [len(kept), len(kept) + last - first]}
                kept += data[begin + first:begin + last]
        header = json.dumps(tensors).encode()
        path.write_bytes(len(header).to_bytes(8, "little") + header + kept)
    for path in directory.glob("*.index.json"):
        path.unlink()


def check_head_from_the_original(program, whole, options):
    """A model without its MTP head gets it back with convert --mtp-from: it answers and drafts as before."""
    with tempfile.TemporaryDirectory() as directory:
        model = pathlib.Path(directory, "without")
        shutil.copytree(whole.model, model)
        drop_mtp_head(model)
        subprocess.run([program, "-q", "convert", "--mtp-from", whole.model, str(model)], check=True, stdout=subprocess.DEVNULL)
        check = Check(program, str(model), whole.name + ", head from the original", options)
        check.cold()
        check.result("mtp", check.want == whole.want and check.drafts["mtp"] == whole.drafts["mtp"], "as with its own head")
    return check.passed, check.failed


def check_tiny(program, options):
    passed = failed = 0
    with tempfile.TemporaryDirectory() as directory:
        for name in TINY:
            model = pathlib.Path(directory, name)
            copy_tiny(name, model)
            check = Check(program, str(model), name, options, str(model))
            good, bad = check.run()
            if "moe" in name:
                more, worse = check_head_from_the_original(program, check, options)
                good, bad = good + more, bad + worse
            passed, failed = passed + good, failed + bad
    return passed, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model", help="ignored where checkpoints are named")
    parser.add_argument("checkpoints", nargs="*")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--draft", default="", help="a draft model for the checkpoints that are named")
    parser.add_argument("--flags", default="", help="further flags of the server")
    options = parser.parse_args()
    passed = failed = 0
    for checkpoint in options.checkpoints:
        name = os.path.basename(os.path.normpath(checkpoint))
        good, bad = Check(options.program, checkpoint, name, options, options.draft).run()
        passed, failed = passed + good, failed + bad
    if not options.checkpoints:
        passed, failed = check_tiny(options.program, options)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
