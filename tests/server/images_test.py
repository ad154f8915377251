#!/usr/bin/env python3
"""Images in the requests of every API, by the official clients and as hostile clients send them, on a real server.

usage: images_test.py http://127.0.0.1:11436/v1      a server that already runs
       images_test.py build/anabranch MODEL_DIR      starts (and stops) one on a free port

Models that take images answer the clients' examples; the others say that they cannot. Prints one line for each check
and "N passed, N failed"; the exit status is 1 when one failed.
"""

import base64
import http.server
import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import anthropic
import ollama
import openai

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from openai_client_test import free_port, health, run_checks
from pictures import png

QUESTION = "Which colour is this?"
REFUSED = "This model cannot read images"
MOST_BYTES, MOST_IMAGES = 20 << 20, 64


IMAGE = base64.b64encode(png()).decode()
URL = "data:image/png;base64," + IMAGE


class Checks:
    def __init__(self, base):
        self.base = base
        self.root = base.removesuffix("/v1")
        self.openai = openai.OpenAI(base_url=base, api_key="none", max_retries=0, timeout=300)
        self.anthropic = anthropic.Anthropic(base_url=self.root, api_key="none", max_retries=0, timeout=300)
        self.ollama = ollama.Client(host=self.root, timeout=300)
        self.model = health(base)["model"]["id"]
        model = self.get("/v1/models/" + self.model)
        self.sees = "image" in model["architecture"]["input_modalities"]

    def get(self, path):
        with urllib.request.urlopen(self.root + path, timeout=30) as answer:
            return json.load(answer)

    def post(self, path, body):
        """Status, JSON and seconds of the answer."""
        request = urllib.request.Request(self.root + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        begun = time.monotonic()
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                return answer.status, json.load(answer), time.monotonic() - begun
        except urllib.error.HTTPError as error:
            return error.code, json.load(error), time.monotonic() - begun

    def chat(self, url, **fields):
        content = [{"type": "text", "text": QUESTION}, {"type": "image_url", "image_url": {"url": url} | fields}]
        return self.post("/v1/chat/completions", {"messages": [{"role": "user", "content": content}], "max_tokens": 8})

    def answered(self, ask, error_class):
        """The answer of a model that takes images; of others their refusal, which comes at once, and then nothing."""
        if self.sees:
            return ask()
        begun = time.monotonic()
        try:
            ask()
        except error_class as error:
            assert getattr(error, "status_code", 400) == 400 and REFUSED in str(error), error
            assert time.monotonic() - begun < 1, "a refusal must not take long"
            return None
        raise AssertionError("taken by a model that reads text only")

    def refused(self, url, part, **fields):
        status, body, _ = self.chat(url, **fields)
        assert status == 400 and part in body["error"]["message"], body
        assert body["error"]["param"] == "messages[0].content[1]", body

    # --- each method named check_* is one check ---

    def check_what_models_take(self):
        listed = next(m for m in self.get("/v1/models")["data"] if m["id"] == self.model)
        assert listed["architecture"]["output_modalities"] == ["text"], listed
        assert self.get("/props")["modalities"] == {"vision": self.sees, "audio": False}
        assert ("vision" in self.ollama.show(self.model).capabilities) == self.sees

    def check_chat_completions(self):
        content = [{"type": "text", "text": QUESTION}, {"type": "image_url", "image_url": {"url": URL, "detail": "low"}}]
        answer = self.answered(lambda: self.openai.chat.completions.create(
            model=self.model, max_tokens=64, messages=[{"role": "user", "content": content}]), openai.BadRequestError)
        assert answer is None or answer.choices[0].message.role == "assistant", answer

    def check_chat_completions_as_a_stream(self):
        content = [{"type": "image_url", "image_url": {"url": URL}}, {"type": "text", "text": QUESTION}]
        chunks = self.answered(lambda: list(self.openai.chat.completions.create(
            model=self.model, max_tokens=64, stream=True, messages=[{"role": "user", "content": content}])),
            openai.BadRequestError)
        assert chunks is None or chunks[-1].choices[0].finish_reason, chunks

    def check_responses(self):
        content = [{"type": "input_text", "text": QUESTION}, {"type": "input_image", "image_url": URL, "detail": "auto"}]
        first = self.answered(lambda: self.openai.responses.create(
            model=self.model, max_output_tokens=64, input=[{"role": "user", "content": content}]), openai.BadRequestError)
        if first is None:
            return
        second = self.openai.responses.create(model=self.model, max_output_tokens=64, input="And the other half?",
                                              previous_response_id=first.id)
        assert second.usage.input_tokens > first.usage.input_tokens, "the image is still there"
        items = self.openai.responses.input_items.list(first.id).data
        assert items[0].content[1].image_url == URL, items

    def check_messages(self):
        content = [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}},
                   {"type": "text", "text": QUESTION}]
        messages = [{"role": "user", "content": content}]
        answer = self.answered(lambda: self.anthropic.messages.create(
            model=self.model, max_tokens=64, messages=messages), anthropic.BadRequestError)
        count = self.answered(lambda: self.anthropic.messages.count_tokens(model=self.model, messages=messages),
                              anthropic.BadRequestError)
        if answer is not None:
            usage = answer.usage
            assert usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens == count.input_tokens

    def check_results_of_tools(self):
        """Agents send screenshots with every later turn: models that read text only are told that there was one."""
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}}
        messages = [{"role": "user", "content": "Look."},
                    {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "shot", "input": {}}]},
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [image]}]}]
        answer = self.anthropic.messages.create(model=self.model, max_tokens=16, messages=messages)
        assert answer.role == "assistant", answer

    def check_ollama(self):
        chat = self.answered(lambda: self.ollama.chat(self.model, options={"num_predict": 32}, messages=[
            {"role": "user", "content": QUESTION, "images": [png()]}]), ollama.ResponseError)
        assert chat is None or chat.done, chat
        text = self.answered(lambda: self.ollama.generate(self.model, QUESTION, images=[png()], options={"num_predict": 32}),
                             ollama.ResponseError)
        assert text is None or text.done, text

    def check_hostile_images(self):
        for url, part in (("", "data URL"), ("picture.png", "data URL"), ("file:///etc/passwd", "data URL"),
                          ("data:image/png;base64,", "empty"), ("data:image/png;base64,****", "offset 0"),
                          ("data:image/png;base64,QUJ", "multiple of 4"), ("data:image/png;base64,QU JD===", "base64"),
                          ("data:image/png,QUJD", "base64"), ("data:text/html;base64,QUJD", "image/"),
                          ("data:" + "x" * 100_000, "image/"), ("data:image/png;base64," + "\u00e9" * 4, "base64")):
            self.refused(url, part)
        self.refused(URL, "detail", detail="enormous")
        if self.sees:  # what is no picture is found when it is decoded
            for data in (b"not a picture", png()[:40], b"\x89PNG\r\n\x1a\n" + bytes(100)):
                status, body, _ = self.chat("data:image/png;base64," + base64.b64encode(data).decode())
                assert status == 400, (data, body)

    def check_sizes(self):
        too_large = base64.b64encode(bytes(MOST_BYTES + 1)).decode()
        self.refused("data:image/png;base64," + too_large, "20 MiB")
        part = {"type": "image_url", "image_url": {"url": URL}}
        for count in (MOST_IMAGES + 1, 5000):
            status, body, seconds = self.post("/v1/chat/completions",
                                              {"messages": [{"role": "user", "content": [part] * count}]})
            assert status == 400 and "64 images" in body["error"]["message"], body
            assert seconds < 1, seconds

    def check_a_large_image_fits_into_a_body(self):
        status, body, _ = self.chat("data:image/png;base64," + base64.b64encode(bytes(MOST_BYTES)).decode())
        assert status == 400 and "MiB" not in body["error"]["message"], body
        if not self.sees:
            assert REFUSED in body["error"]["message"], body

    def check_web_addresses_are_refused(self):
        for url in ("http://127.0.0.1:1/a.png", "https://example.com/a.png", "HTTPS://example.com/a.png"):
            self.refused(url, "--allow-image-urls")
        source = {"type": "url", "url": "https://example.com/a.png"}
        status, body, _ = self.post("/v1/messages", {"model": self.model, "max_tokens": 8, "messages": [
            {"role": "user", "content": [{"type": "image", "source": source}]}]})
        assert status == 400 and body["type"] == "error" and "--allow-image-urls" in body["error"]["message"], body

    def check_files_are_refused(self):
        status, body, _ = self.post("/v1/responses", {"input": [{"role": "user", "content": [
            {"type": "input_image", "file_id": "file_1"}]}]})
        assert status == 400 and body["error"]["param"] == "input[0].content[0].file_id", body

    def check_conversations_keep_images(self):
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"},
                                                              {"type": "input_image", "image_url": URL, "detail": "low"}]}
        conversation = self.openai.conversations.create(items=[item])
        kept = self.openai.conversations.items.list(conversation.id).data[0]
        assert kept.content[1].image_url == URL and kept.content[1].detail == "low", kept
        self.openai.conversations.delete(conversation.id)

    def refusal(self, why):
        """Nothing is fetched, nor even considered, for a model that would not see it."""
        return why if self.sees else "cannot read images"

    def check_addresses_of_this_machine_are_never_asked(self):
        """Not even where the operator names the host: what the name resolves to decides."""
        if len(sys.argv) != 3:
            return "left out: the server is not ours"
        asked = []

        class Images(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append(self.path)

        images = http.server.HTTPServer(("127.0.0.1", 0), Images)
        threading.Thread(target=images.serve_forever, daemon=True).start()
        port = free_port()
        hosts = f"localhost:{images.server_port},127.0.0.1:{images.server_port}"
        process = subprocess.Popen([*sys.argv[1:2], "serve", "--model", sys.argv[2], "--port", str(port), "--no-cache",
                                    "--context", "2048", "--allow-image-urls", hosts], stdout=subprocess.PIPE, text=True)
        try:
            assert " on http" in process.stdout.readline()
            other = Checks.__new__(Checks)
            other.root = f"http://127.0.0.1:{port}"
            for host in ("localhost", "127.0.0.1"):
                other.refused(f"http://{host}:{images.server_port}/a.png", self.refusal("may not be connected to"))
            other.refused("http://example.com/a.png", self.refusal("only from the hosts"))
            assert not asked, asked
        finally:
            process.kill()
            process.wait()
            images.shutdown()
        wrong = subprocess.run([*sys.argv[1:2], "serve", "--model", sys.argv[2], "--port", "0", "--allow-image-urls",
                                "http://a/b"], capture_output=True, text=True, timeout=60)
        assert wrong.returncode != 0 and "is no host" in wrong.stderr, wrong
        return None


if __name__ == "__main__":
    sys.exit(run_checks(Checks, __doc__))
