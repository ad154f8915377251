"""Token ids of chat prompts and of answers: run by run.py with a Python that has tokenizers and Jinja2, so that what a
cache could have reused is counted by something else than the server that is measured.

    python token_worker.py MODEL_DIRECTORY

Reads a JSON object a line and answers each with one: {"messages", "tools", "variables"} with {"ids"}, and {"answer":
[the bytes of each token]} with {"ids"}."""

import json
import sys
from pathlib import Path

from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer


def make_template(source):
    """As Transformers renders chat templates."""
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment.from_string(source)


def with_parsed_arguments(message):
    calls = [{**call, "function": {**call["function"], "arguments": json.loads(call["function"]["arguments"])}}
             for call in message.get("tool_calls", [])]
    return {**message, "tool_calls": calls} if calls else message


def byte_of_character():
    """Byte-level BPE writes each byte as one printable character (GPT-2, Radford et al. 2019)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


def ids_by_bytes(tokenizer):
    byte_of, added = byte_of_character(), tokenizer.get_added_tokens_decoder()
    ids = {}
    for text, token in tokenizer.get_vocab(with_added_tokens=True).items():
        if token in added:
            ids[added[token].content.encode()] = token
        elif all(character in byte_of for character in text):
            ids.setdefault(bytes(byte_of[character] for character in text), token)
    return ids


def main():
    folder = Path(sys.argv[1])
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    template = make_template((folder / "chat_template.jinja").read_text())
    known = ids_by_bytes(tokenizer)
    for line in sys.stdin:
        asked = json.loads(line)
        if "answer" in asked:
            ids = [known.get(bytes(token), -1) for token in asked["answer"]]
        else:
            messages = [with_parsed_arguments(message) for message in asked["messages"]]
            text = template.render(messages=messages, tools=asked["tools"] or None, add_generation_prompt=True,
                                   **asked["variables"])
            ids = tokenizer.encode(text, add_special_tokens=False).ids
        print(json.dumps({"ids": ids}), flush=True)


main()
