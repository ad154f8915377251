"""Images in the requests of every API, by the official clients and as hostile clients send them, on a real server. Models that
take images answer the clients' examples; the others say that they cannot."""

import base64
import http.server
import signal
import subprocess
import threading
import time

import anthropic
import ollama
import openai
import pytest

import vision_model
from harness import paths
from pictures import png

QUESTION = "Which colour is this?"
REFUSED = "This model cannot read images"
MOST_BYTES, MOST_IMAGES = 20 << 20, 64


IMAGE = base64.b64encode(png()).decode()
URL = "data:image/png;base64," + IMAGE


@pytest.fixture(scope="module", params=["reads text", "reads images"])
def api(request, serve_for_all, tmp_path_factory):
    path = paths.MODEL
    if request.param == "reads images":
        path = vision_model.make(paths.MODEL, str(tmp_path_factory.mktemp("vision") / "sees"))
    found = Api(serve_for_all(model=path))
    found.path = path
    assert found.sees == (request.param == "reads images")
    return found


class Api:
    """The official clients of a server whose model takes images, or none."""

    def __init__(self, server):
        self.server = server
        self.openai = openai.OpenAI(base_url=server.v1, api_key="none", max_retries=0, timeout=300)
        self.anthropic = anthropic.Anthropic(base_url=server.root, api_key="none", max_retries=0, timeout=300)
        self.ollama = ollama.Client(host=server.root, timeout=300)
        self.model = server.health()["model"]["id"]
        model = server.ask("/v1/models/" + self.model)
        self.sees = "image" in model["architecture"]["input_modalities"]

    def chat(self, url, **fields):
        content = [{"type": "text", "text": QUESTION}, {"type": "image_url", "image_url": {"url": url} | fields}]
        return self.server.status("/v1/chat/completions", {"messages": [{"role": "user", "content": content}], "max_tokens": 8})

    def answered(self, ask, error_class):
        """The answer of a model that takes images; of others their refusal, for which no token is computed, and then nothing."""
        if self.sees:
            return ask()
        before = self.server.engine()["requests"]
        with pytest.raises(error_class) as error:
            ask()
        assert getattr(error.value, "status_code", 400) == 400 and REFUSED in str(error.value), error.value
        assert self.server.engine()["requests"] == before
        return None

    def refused(self, url, part, **fields):
        status, body = self.chat(url, **fields)
        assert status == 400 and part in body["error"]["message"], body
        assert body["error"]["param"] == "messages[0].content[1]", body

    def refusal(self, why):
        """Nothing is fetched, nor even considered, for a model that would not see it."""
        return why if self.sees else "cannot read images"


def test_every_api_says_what_the_model_takes(api):
    listed = next(m for m in api.server.ask("/v1/models")["data"] if m["id"] == api.model)
    assert listed["architecture"]["output_modalities"] == ["text"], listed
    assert api.server.ask("/props")["modalities"] == {"vision": api.sees, "audio": False}
    assert ("vision" in api.ollama.show(api.model).capabilities) == api.sees


def test_chat_completions_take_images(api):
    content = [{"type": "text", "text": QUESTION}, {"type": "image_url", "image_url": {"url": URL, "detail": "low"}}]
    answer = api.answered(lambda: api.openai.chat.completions.create(
        model=api.model, max_tokens=64, messages=[{"role": "user", "content": content}]), openai.BadRequestError)
    assert answer is None or answer.choices[0].message.role == "assistant", answer


def test_streamed_chat_completions_take_images(api):
    content = [{"type": "image_url", "image_url": {"url": URL}}, {"type": "text", "text": QUESTION}]
    chunks = api.answered(lambda: list(api.openai.chat.completions.create(
        model=api.model, max_tokens=64, stream=True, messages=[{"role": "user", "content": content}])),
        openai.BadRequestError)
    assert chunks is None or chunks[-1].choices[0].finish_reason, chunks


def test_responses_take_images_and_keep_them(api):
    content = [{"type": "input_text", "text": QUESTION}, {"type": "input_image", "image_url": URL, "detail": "auto"}]
    first = api.answered(lambda: api.openai.responses.create(
        model=api.model, max_output_tokens=64, input=[{"role": "user", "content": content}]), openai.BadRequestError)
    if first is None:
        return
    second = api.openai.responses.create(model=api.model, max_output_tokens=64, input="And the other half?",
                                          previous_response_id=first.id)
    assert second.usage.input_tokens > first.usage.input_tokens, "the image is still there"
    items = api.openai.responses.input_items.list(first.id).data
    assert items[0].content[1].image_url == URL, items


def test_messages_take_images_and_count_them(api):
    content = [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}},
               {"type": "text", "text": QUESTION}]
    messages = [{"role": "user", "content": content}]
    answer = api.answered(lambda: api.anthropic.messages.create(
        model=api.model, max_tokens=64, messages=messages), anthropic.BadRequestError)
    count = api.answered(lambda: api.anthropic.messages.count_tokens(model=api.model, messages=messages),
                          anthropic.BadRequestError)
    if answer is not None:
        usage = answer.usage
        assert usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens == count.input_tokens


def test_images_in_results_of_tools_are_taken_by_every_model(api):
    """Agents send screenshots with every later turn: models that read text only are told that there was one."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}}
    messages = [{"role": "user", "content": "Look."},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "shot", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [image]}]}]
    answer = api.anthropic.messages.create(model=api.model, max_tokens=16, messages=messages)
    assert answer.role == "assistant", answer


def test_ollamas_routes_take_images(api):
    chat = api.answered(lambda: api.ollama.chat(api.model, options={"num_predict": 32}, messages=[
        {"role": "user", "content": QUESTION, "images": [png()]}]), ollama.ResponseError)
    assert chat is None or chat.done, chat
    text = api.answered(lambda: api.ollama.generate(api.model, QUESTION, images=[png()], options={"num_predict": 32}),
                         ollama.ResponseError)
    assert text is None or text.done, text


def test_hostile_images_are_refused(api):
    for url, part in (("", "data URL"), ("picture.png", "data URL"), ("file:///etc/passwd", "data URL"),
                      ("data:image/png;base64,", "empty"), ("data:image/png;base64,****", "offset 0"),
                      ("data:image/png;base64,QUJ", "multiple of 4"), ("data:image/png;base64,QU JD===", "base64"),
                      ("data:image/png,QUJD", "base64"), ("data:text/html;base64,QUJD", "image/"),
                      ("data:" + "x" * 100_000, "image/"), ("data:image/png;base64," + "\u00e9" * 4, "base64")):
        api.refused(url, part)
    api.refused(URL, "detail", detail="enormous")
    if api.sees:  # what is no picture is found when it is decoded
        for data in (b"not a picture", png()[:40], b"\x89PNG\r\n\x1a\n" + bytes(100)):
            status, body = api.chat("data:image/png;base64," + base64.b64encode(data).decode())
            assert status == 400, (data, body)


def test_images_that_are_too_large_or_too_many_are_refused(api):
    too_large = base64.b64encode(bytes(MOST_BYTES + 1)).decode()
    api.refused("data:image/png;base64," + too_large, "20 MiB")
    part = {"type": "image_url", "image_url": {"url": URL}}
    for count in (MOST_IMAGES + 1, 5000):
        begun = time.monotonic()
        status, body = api.server.status("/v1/chat/completions",
                                          {"messages": [{"role": "user", "content": [part] * count}]})
        assert status == 400 and "64 images" in body["error"]["message"], body
        assert time.monotonic() - begun < 20  # 5,000 images would take minutes to decode


def test_a_large_image_fits_into_a_body(api):
    status, body = api.chat("data:image/png;base64," + base64.b64encode(bytes(MOST_BYTES)).decode())
    assert status == 400 and "MiB" not in body["error"]["message"], body
    if not api.sees:
        assert REFUSED in body["error"]["message"], body


def test_web_addresses_are_refused(api):
    for url in ("http://127.0.0.1:1/a.png", "https://example.com/a.png", "HTTPS://example.com/a.png"):
        api.refused(url, "--allow-image-urls")
    source = {"type": "url", "url": "https://example.com/a.png"}
    status, body = api.server.status("/v1/messages", {"model": api.model, "max_tokens": 8, "messages": [
        {"role": "user", "content": [{"type": "image", "source": source}]}]})
    assert status == 400 and body["type"] == "error" and "--allow-image-urls" in body["error"]["message"], body


def test_ids_of_files_are_refused(api):
    status, body = api.server.status("/v1/responses", {"input": [{"role": "user", "content": [
        {"type": "input_image", "file_id": "file_1"}]}]})
    assert status == 400 and body["error"]["param"] == "input[0].content[0].file_id", body


def test_conversations_keep_images(api):
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"},
                                                          {"type": "input_image", "image_url": URL, "detail": "low"}]}
    conversation = api.openai.conversations.create(items=[item])
    kept = api.openai.conversations.items.list(conversation.id).data[0]
    assert kept.content[1].image_url == URL and kept.content[1].detail == "low", kept
    api.openai.conversations.delete(conversation.id)


def test_addresses_of_this_machine_are_never_asked(api, serve):
    """Not even where the operator names the host: the address that the name resolves to decides."""
    asked = []

    class Images(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)

    images = http.server.HTTPServer(("127.0.0.1", 0), Images)
    threading.Thread(target=images.serve_forever, daemon=True).start()
    hosts = f"localhost:{images.server_port},127.0.0.1:{images.server_port}"
    try:
        other = Api(serve("--no-cache", "--context", "2048", "--allow-image-urls", hosts, model=api.path))
        for host in ("localhost", "127.0.0.1"):
            other.refused(f"http://{host}:{images.server_port}/a.png", api.refusal("may not be connected to"))
        other.refused("http://example.com/a.png", api.refusal("only from the hosts"))
        assert not asked, asked
    finally:
        images.shutdown()
    wrong = subprocess.run([paths.PROGRAM, "serve", "--model", api.path, "--port", "0", "--allow-image-urls", "http://a/b"],
                           capture_output=True, text=True, timeout=120)
    assert wrong.returncode != 0 and "is no host" in wrong.stderr, wrong


def test_sigint_ends_it_in_order(api):
    assert api.server.stop(signal.SIGINT) == 0
