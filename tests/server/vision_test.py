"""A model that reads pictures, over HTTP: a conversation of ten turns with three pictures, whose states are kept, also over
kill -9 (images_test.py has the official clients). The model is the default one with a random tower (vision_model.py)."""

import base64
import json
import signal
import subprocess

import pytest

import vision_model
from exactness import DATA as CHECKPOINTS, copy_tiny
from harness import paths
from harness.waiting import file_sizes, settled
from pictures import drawing

LEAST_FOUND = 0.98  # of the tokens that a turn repeats
OPENING = 8  # tokens at a prompt's end that open the answer; the template leaves the empty thought out of earlier turns
PICTURES = {0: (3, 480, 400), 4: (5, 300, 500), 7: (8, 512, 512)}  # of some turns: seed, width, height
TURNS = 10


def question(turn):
    text = {"type": "text", "text": f"Question {turn}: say something about it, in a few words."}
    if turn not in PICTURES:
        return {"role": "user", "content": text["text"]}
    url = "data:image/png;base64," + base64.b64encode(drawing(*PICTURES[turn])).decode()
    return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}, text]}


@pytest.fixture(scope="module")
def sees(tmp_path_factory):
    return vision_model.make(paths.MODEL, str(tmp_path_factory.mktemp("vision") / "sees"))


def wait_until_written(directory):
    """States are written behind the answers: until no file changes any more."""
    settled(lambda: file_sizes(directory), still=1)


def ask(server, messages):
    """The choices of an answer, and its usage."""
    answer = server.ask("/v1/chat/completions", {"messages": messages, "max_tokens": 24, "temperature": 0, "logprobs": True,
                                                 "top_logprobs": 2, "enable_thinking": False, "ignore_eos": True})
    return answer["choices"], answer["usage"]


def test_a_conversation_with_pictures_is_kept_over_restarts(sees, serve, tmp_path):
    messages, repeated = [], 0
    cold = serve("--no-cache", "--spec", "off", model=sees)
    server = serve("--cache-dir", tmp_path, "--cache-disk-worth", "0", model=sees)
    for turn in range(TURNS):
        if turn in (3, 6, 8):  # before, between and after pictures
            wait_until_written(tmp_path)
            server.restart(signal.SIGKILL if turn != 6 else signal.SIGTERM)
        messages.append(question(turn))
        choices, usage = ask(server, messages)
        found = usage["prompt_tokens_details"]["cached_tokens"]
        assert found >= LEAST_FOUND * repeated, f"turn {turn}: {found} of {repeated} repeated tokens were kept"
        assert choices == ask(cold, messages)[0], f"turn {turn}: not the same tokens as cold"
        repeated = usage["prompt_tokens"] - OPENING
        messages.append({"role": "assistant", "content": choices[0]["message"]["content"]})
    listed = subprocess.run([paths.PROGRAM, "cache", "stats", "--json", "--cache-dir", tmp_path], capture_output=True, text=True)
    images = json.loads(listed.stdout)["images"]
    assert images["files"] == len(PICTURES) and images["bytes"] > 100_000, images


@pytest.fixture(scope="module")
def server(serve_for_all, sees):
    return serve_for_all("--cache-disk", "0", model=sees)


def url_of(png):
    return "data:image/png;base64," + base64.b64encode(png).decode()


def test_another_picture_finds_nothing_of_a_conversation(server):
    """Pictures count as the same only if every pixel is."""
    def usage(png):
        content = [{"type": "image_url", "image_url": {"url": url_of(png)}}, {"type": "text", "text": "What is it?"}]
        return ask(server, [{"role": "user", "content": content}])[1]
    first = usage(drawing(3, 256, 256))
    again, other = (usage(drawing(seed, 256, 256))["prompt_tokens_details"]["cached_tokens"] for seed in (3, 4))
    assert again > 0.9 * first["prompt_tokens"]
    assert other < 20


DATA = url_of(drawing(2, 96, 64))


@pytest.mark.parametrize("urls, status", [
    pytest.param([DATA.partition(",")[2]], 400, id="base64 without a data URI"), pytest.param([DATA], 200, id="a data URI"),
    pytest.param([DATA] * 2, 200, id="two images"), pytest.param([], 200, id="no image"), pytest.param(["malformed"], 400, id="malformed"),
    pytest.param(["https://google.com/404"], 400, id="a page that is not there"), pytest.param(["https://ggml.ai"], 400, id="a page")])
def test_cases_of_llama_server(server, urls, status):
    """After llama.cpp's tools/server/tests/unit/test_vision_api.py; web addresses are refused here unless they are allowed."""
    parts = [{"type": "text", "text": "What is this:\n"}, *({"type": "image_url", "image_url": {"url": url}} for url in urls)]
    got, answer = server.status("/v1/chat/completions", {
        "temperature": 0.0, "top_k": 1, "max_tokens": 8, "messages": [{"role": "user", "content": parts}]})
    assert got == status, answer
    assert status == 400 or answer["choices"][0]["message"]["role"] == "assistant"


def test_words_that_look_like_a_pictures_tokens_are_words(server):
    _, usage = ask(server, [{"role": "user", "content": "<|vision_start|><|image_pad|><|vision_end|>"}])
    assert usage["prompt_tokens"] > 15


def test_turns_that_are_left_out_take_their_pictures_along(sees, serve):
    server = serve("--no-cache", "--context", "1500", model=sees)

    def picture(seed, text):
        return {"role": "user", "content": [{"type": "input_image", "image_url": url_of(drawing(seed, 200, 160))},
                                            {"type": "input_text", "text": text}]}

    def answer(items):
        response = server.ask("/v1/responses", {"input": items, "truncation": "auto", "max_output_tokens": 24, "temperature": 0,
                                                "reasoning": {"effort": "none"}})
        return response["output"], response["usage"]["input_tokens"]

    last = picture(5, "What is this?")
    alone, tokens = answer([last])
    shortened, same = answer([picture(3, "one two three " * 500), {"role": "assistant", "content": "Well."}, last])
    texts = [[item["content"][0]["text"] for item in items if item["type"] == "message"] for items in (alone, shortened)]
    assert (texts[0], tokens) == (texts[1], same)


def test_qwen3_vl_sees(serve, tmp_path):
    """Its tower's inner layers, too: the tiny model of the goldens."""
    copy_tiny("qwen3_vl", tmp_path / "sees")
    server = serve("--no-cache", model=str(tmp_path / "sees"))
    assert server.ask("/props")["modalities"]["vision"]

    def answer(*urls):
        parts = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
        return ask(server, [{"role": "user", "content": [*parts, {"type": "text", "text": "What is it?"}]}])
    one, other = (url_of(drawing(seed, 64, 96)) for seed in (3, 4))
    first, usage = answer(one)
    again, _ = answer(one)
    changed, _ = answer(other)
    both, more = answer(one, other)
    assert first == again and first != changed and both != first
    assert more["prompt_tokens"] > usage["prompt_tokens"] + 90  # 8 x 12 tokens


@pytest.mark.parametrize("model", ["model", "model.gguf"])
def test_show_says_that_qwen3_vl_sees(model):
    path = str(CHECKPOINTS / "qwen3_vl" / model)
    shown = subprocess.run([paths.PROGRAM, "show", path, "--json"], capture_output=True, text=True, check=True)
    assert json.loads(shown.stdout)["vision_tower"] == "yes"
