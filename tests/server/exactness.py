"""Questions that are asked in many ways, and the models that answer them; whatever the way, an answer must be the same."""

import base64
import json
import pathlib
import shutil
import threading

from pictures import drawing

from harness import clients
from harness.server import Server

DATA = pathlib.Path(__file__).resolve().parents[1] / "models/data"
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
        "surprises": text(begin + "The mayor said that", mirostat=2, mirostat_tau=3, temperature=0.9, seed=6),
        "no repetition": text("1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2, 3,", dry_multiplier=0.8, dry_sequence_breakers=["\n"],
                              typical_p=0.9, top_n_sigma=2, dynatemp_range=0.4, min_tokens=tokens // 2, **sampled),
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


def ask(server, question, **more):
    """The choices of an answer, and its usage."""
    path, body = question
    answer = server.ask(path, body | more)
    return answer["choices"], answer["usage"]


class Checkpoint:
    """A model, what it is asked, and what it answers with one thread, no drafts and nothing kept (`want`)."""

    def __init__(self, path, draft=None, flags=(), repeats=7, tokens=24):
        self.path, self.flags = str(path), flags
        self.draft = ["--draft", str(draft)] if draft else []
        self.asked = questions(repeats, tokens)
        with self.serve("--threads", "1", "--no-cache", "--spec", "off") as server:
            if not has_template(server):
                self.asked = {name: question for name, question in self.asked.items() if "prompt" in question[1]}
            elif reads_images(server):
                self.asked |= picture_questions(self.asked["thought"])
            self.want = self.choices(server, self.asked)
            self.asked |= with_turns(self.asked, self.want)
            self.want |= self.choices(server, [name for name in self.asked if name not in self.want])
            self.want |= self.choices(server, GROWING)

    def serve(self, *flags):
        return Server(*self.flags, *flags, model=self.path)

    def question(self, name):
        return GROWING[name] if name in GROWING else self.asked[name]

    def ask_all(self, server, names=None, **more):
        return {name: ask(server, self.question(name), **more) for name in names or self.asked}

    def choices(self, server, names):
        return {name: choices for name, (choices, _) in self.ask_all(server, names).items()}

    def ask_together(self, server, names=None, **more):
        answers, errors = {}, []

        def one(name):
            try:
                answers[name] = ask(server, self.question(name), **more)
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

    def compare(self, answers):
        wrong = [name for name, (choices, _) in answers.items() if choices != self.want[name]]
        assert not wrong, ", ".join(f"{name} ({first_difference(self.want[name], answers[name][0])})" for name in wrong)

    def drafts(self, server):
        """{source: (accepted, drafted)} of all questions, whose answers must be the same with every source."""
        found = {}
        for source in server.health()["model"]["draft_sources"]:
            answers = self.ask_all(server, speculation={"source": source, "depth": 4})
            self.compare(answers)
            found[source] = tuple(sum(usage["speculation"][key] for _, usage in answers.values()) for key in ("accepted", "drafted"))
        return found


def reads_images(server):
    return "image" in server.ask("/v1/models")["data"][0]["architecture"]["input_modalities"]


def has_template(server):
    try:
        server.ask("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1})
        return True
    except clients.Refused as error:
        assert "no chat template" in str(error), error
        return False


def cached_tokens(answers):
    return sum(usage["prompt_tokens_details"]["cached_tokens"] for _, usage in answers.values())


def first_difference(want, got, path=""):
    if type(want) is not type(got) or not isinstance(want, (dict, list)) or len(want) != len(got):
        return f"{path}: {str(want)[:60]!r} became {str(got)[:60]!r}"
    for key in want if isinstance(want, dict) else range(len(want)):
        if want[key] != (got.get(key) if isinstance(got, dict) else got[key]):
            return first_difference(want[key], got[key] if isinstance(got, list) else got.get(key), f"{path}/{key}")
    return path


# Special tokens of the tiny models behind <eos>, <think> and </think>.
IMAGE_TOKENS = {"qwen3_5_vision": ("<unused>", "<|image_pad|>", "<|vision_start|>", "<|vision_end|>"),
                "qwen3_vl": ("<unused>", "<|image_pad|>", "<|vision_start|>", "<|vision_end|>"),
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
    layers = text.get("num_hidden_layers") or len(text["layers_block_type"])
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
