#!/usr/bin/env python3
"""A server, and the clients of OpenAI, Anthropic and Ollama, as their users install them: try_clients.py PROGRAM MODEL QUESTION

Each asks once for the whole answer and once for a stream. Prints the answer, which is the same from all. For Python 3.9 or later."""

import subprocess
import sys

import anthropic
import ollama
import openai

MOST = 24  # tokens


def openai_answers(url, messages):
    create = openai.OpenAI(base_url=f"{url}/v1", api_key="none").chat.completions.create
    options = {"model": "default", "messages": messages, "max_tokens": MOST, "temperature": 0}
    yield create(**options).choices[0].message.content
    yield "".join(part.choices[0].delta.content or "" for part in create(**options, stream=True) if part.choices)


def anthropic_answers(url, messages):
    client = anthropic.Anthropic(base_url=url, api_key="none")
    options = {"model": "default", "messages": messages, "max_tokens": MOST, "extra_body": {"temperature": 0}}  # newer clients have no name for it
    yield "".join(part.text for part in client.messages.create(**options).content if part.type == "text")
    with client.messages.stream(**options) as stream:
        yield "".join(stream.text_stream)


def ollama_answers(url, messages):
    client = ollama.Client(host=url)
    options = {"model": "default", "messages": messages, "options": {"num_predict": MOST, "temperature": 0}}
    yield client.chat(**options).message.content
    yield "".join(part.message.content or "" for part in client.chat(**options, stream=True))


def main(program, model, question):
    messages = [{"role": "user", "content": question}]
    with subprocess.Popen([program, "serve", "--model", model, "--port", "0"], stdout=subprocess.PIPE, text=True) as server:
        try:
            line = server.stdout.readline()  # hybrid-146m on http://127.0.0.1:36979/v1
            url = line.split()[-1].removesuffix("/v1") if line else sys.exit("the server did not start")
            answers = {f"{client.__name__} {i}": answer for client in (openai_answers, anthropic_answers, ollama_answers)
                       for i, answer in enumerate(client(url, messages))}
        finally:
            server.terminate()
    if not all(answers.values()) or len(set(answers.values())) != 1:
        sys.exit(f"the answers differ: {answers}")
    print(next(iter(answers.values())))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
