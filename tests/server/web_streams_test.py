"""The web page in headless Chromium with recorded streams of the real server: it shows what the server said, and its requests
are those of the recording. With --record, the same conversations are held with the real server, and become the recordings:

    pytest tests/server/web_streams_test.py --record --program build/anabranch"""

import contextlib
import json
import math
import re

import pytest

import web_recording
from web_conversations import CONVERSATIONS, real_server
from web_recorder import Recorder
from web_replay import Replay

pytestmark = pytest.mark.any_model

# What each answer shows, part by part.
SHOWN = """
const field = (one, name) => {
  const pre = [...one.querySelectorAll("pre.field")].find((field) => field.getAttribute("aria-label") === name);
  return pre ? pre.textContent : null;
};
const strong = (one) => [...one.querySelectorAll("strong")].map((part) => part.textContent);
const parts = (turn) => [...turn.querySelector(".parts").children].map((one) => {
  if (one.matches(".prose")) return ["message", one.innerText];
  if (one.matches(".thought")) return ["reasoning", one.querySelector(".prose").innerText];
  if (one.matches(".tool")) return ["mcp_call", ...one.querySelector(".tool-name").textContent.split(": "),
    ...["Arguments", "Result", "Error"].map((name) => field(one, name))];
  if (one.matches(".consent.decided")) return ["mcp_approval_request", one.querySelector(".tool-name").textContent];
  if (one.matches(".consent")) return ["mcp_approval_request", ...strong(one).reverse(), field(one, "Arguments")];
  if (one.querySelector(".call-note")) return ["function_call", ...strong(one), field(one, "Arguments")];
  return one.matches(".tool-list-error") && !one.hidden ? ["mcp_list_tools", one.textContent] : null;
}).filter(Boolean);
return [...document.querySelectorAll("#turns > li.answer")].map((turn) => ({
  parts: parts(turn), meta: turn.querySelector(".meta")?.textContent || "", ending: turn.querySelector(".ending").textContent,
  notice: turn.querySelector(".notice").innerText}));"""
# The conversation as the tab keeps it.
KEPT = """return Object.entries(sessionStorage).filter(([name]) => name.startsWith("anabranch.tab_")).map(([_, text]) => JSON.parse(text));"""


@pytest.fixture
def stage(request, browser, serve, tmp_path):
    """stage(name) -> opens the page with the recorded server, or, to record, with the real one."""
    @contextlib.contextmanager
    def recorded(name, conversation):
        recorder = Recorder(real_server(serve, conversation, tmp_path), conversation.pauses).start()
        try:
            yield recorder
        finally:
            recorder.stop()
        web_recording.save(name, recorder.exchanges)

    @contextlib.contextmanager
    def replayed(name, conversation, **options):
        replay = Replay(web_recording.load(name), TOOLS if conversation.mcp else (), model="hybrid-146m",
                        chat=conversation.model != "base", images=conversation.model == "sees", **options)
        replay.start()
        try:
            yield replay
        finally:
            replay.stop()

    @contextlib.contextmanager
    def open_page(name, **options):
        conversation = CONVERSATIONS[name]
        record = request.config.option.record
        if record and options:
            pytest.skip("this is no conversation of its own")
        with recorded(name, conversation) if record else replayed(name, conversation, **options) as server:
            browser.open(server.url, remembered=conversation.remembered())
            browser.see("hybrid-146m", "#model")
            conversation.drive(browser, server)
            yield server
            assert not server.differences, "\n".join(server.differences)
            assert not server.left, [(one.method, one.path) for one in server.left]
            found = browser.problems(conversation.console)
            assert not found, found
    return open_page


TOOLS = [{"id": "tools", "object": "mcp_server", "transport": "stdio", "state": "idle", "tools": []}]


def squeezed(text):
    return " ".join(text.split())


def as_shown(item):
    """An item as SHOWN has it; None for what is not shown."""
    kind, *fields = web_recording.brief(item)
    if kind == "mcp_list_tools":
        server, error = fields
        return [kind, f"The tools of {server} are not available: {error}"] if error else None
    return [kind, *fields]


def same(found, expected):
    """JSON is shown indented, and text without the spaces at its ends."""
    with contextlib.suppress(ValueError, TypeError):
        return json.loads(found) == json.loads(expected)
    return found == expected or (found is not None and expected is not None and squeezed(found) == squeezed(expected))


def check_shown(b, server, conversation):
    expected = web_recording.shown(server.exchanges)
    if conversation.keep:  # the page was loaded again
        expected = list(filter(web_recording.has_come, expected))
    b.js("for (const one of document.querySelectorAll('#turns details')) one.open = true")
    b.frames()
    found = b.js(SHOWN)
    assert len(found) == len(expected), (found, expected)
    for answer, page in zip(expected, found, strict=True):
        parts = [part for part in map(as_shown, answer.items) if part]
        if conversation.keep:  # what was decided is not told again after a reload
            parts = [part for part in parts if part[0] != "mcp_approval_request"]
        assert len(parts) == len(page["parts"]), (page["parts"], parts)
        for one, other in zip(page["parts"], parts, strict=True):
            if one[0] == "mcp_approval_request" and len(one) == 2:  # it was decided
                other = [one[0], other[2]]
            assert len(one) == len(other) and all(map(same, one, other)), (one, other)
        tokens = answer.usage.get("output_tokens")
        cut = answer.cut == "max_output_tokens" and not conversation.keep  # the server keeps no reason
        assert not tokens or f" {tokens:,} token" in page["meta"], (page["meta"], tokens)
        assert ("limit of tokens" in page["ending"]) == cut, (page["ending"], answer.cut)
        assert ("not finished" in page["meta"]) == (answer.status != "completed" and not cut), (page["meta"], answer.status)
        drafts = answer.drafts
        if drafts["drafted"] and not conversation.keep:  # the server does not keep these
            assert f"{math.floor(100 * drafts['accepted'] / drafts['drafted'] + 0.5)} % of the drafts accepted" in page["meta"], (page["meta"], drafts)
        if answer.error:
            assert answer.error in squeezed(page["notice"]), (page["notice"], answer.error)
    assert conversation.notice in found[-1]["notice"] and bool(conversation.notice) == bool(found[-1]["notice"]), found[-1]


def check_times(b, server):
    """What the page says of an answer that it read from the server: the time from the question to its end."""
    session = [exchange.json() for exchange in server.exchanges if exchange.method == "GET"][-1]
    times = {message["response_id"]: message["seconds"] for message in session["messages"] if message["role"] == "assistant"}
    [meta] = [one["meta"] for one in b.js(SHOWN)]
    seconds = float(re.search(r"· ([\d.]+) s ·", meta)[1])
    assert abs(seconds - sum(times.values())) < 0.051, (meta, times)


def check_kept(b, server):
    """What the tab keeps of all answers, versions that are not shown among them, is exactly what came."""
    [kept] = b.js(KEPT)
    turns = [turn for turn in kept["turns"] if turn["role"] == "assistant"]
    said = web_recording.said(server.exchanges)
    expected = [answer for answer in said if web_recording.has_come(answer) or answer is said[-1]]
    assert len(turns) == len(expected), (turns, expected)
    for turn, answer in zip(turns, expected, strict=True):
        items = [web_recording.brief(item) for item in turn["items"] if item["type"] != "mcp_approval_response"]
        assert items == list(map(web_recording.brief, answer.items)), (items, answer.items)
        assert not [item for item in turn["items"] if item.get("status") == "in_progress"], turn["items"]
        assert (turn["usage"] or {}) == answer.usage, (turn["usage"], answer.usage)
        assert (turn["status"] == "completed") == (answer.status == "completed"), (turn["status"], answer.status)
        assert turn.get("cut") == answer.cut, (turn, answer)


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_the_page_shows_what_the_server_said(stage, browser, name):
    conversation = CONVERSATIONS[name]
    with stage(name) as server:
        check_shown(browser, server, conversation)
        if conversation.keep:
            check_times(browser, server)
        else:
            check_kept(browser, server)


@pytest.mark.parametrize("name", ["limit", "kept_question"])
def test_the_page_shows_the_same_when_bytes_come_one_by_one(stage, browser, name):
    with stage(name, cut=lambda exchange: [bytes([byte]) for byte in exchange.data]) as server:
        check_shown(browser, server, CONVERSATIONS[name])
