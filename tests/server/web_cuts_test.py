"""However the network cuts a recorded stream into pieces, and after whichever event it ends, the page's own code reads the same
events from it. The pieces are given to the page in place of its connection, so each is read by itself."""

import base64
import itertools
import random

import pytest

import web_recording
from web_fake_server import Fake

# Runs an answer for each of [path, data as base64, positions of cuts, how it ends]; time goes on by a second with each piece.
RUN = """
const [base, cases, done] = arguments, read = (name) => import(`${base}web/${name}.js`);
const pieces = (data, cuts) => [0, ...cuts].map((from, at) => data.slice(from, cuts[at] ?? data.length));
(async () => {
  const {AnswerRun} = await read("answer_run"), {CompletionRun} = await read("completion_run"), {answerTurn} = await read("conversation");
  const real = {fetch: window.fetch, now: performance.now};
  const results = [];
  let clock = 1e6;
  try {
    for (const [path, text, cuts, ending] of cases) {
      const left = pieces(Uint8Array.from(atob(text), (one) => one.charCodeAt(0)), cuts);
      window.fetch = async () => new Response(new ReadableStream({pull(controller) {
        clock += 1000;
        if (left.length) return controller.enqueue(left.shift());
        clock -= 1000;
        if (ending === "broken") controller.error(new TypeError("network error"));
        else controller.close();
      }}, {highWaterMark: 0}), {headers: {"Content-Type": "text/event-stream"}});
      performance.now = () => clock;
      const turn = answerTurn("answer", "question");
      let kind = null;
      try {
        await new (path === "/v1/completions" ? CompletionRun : AnswerRun)({}, turn, () => {}).go();
      } catch (error) {
        kind = error.kind ?? String(error);
      }
      const {items, status, cut, usage, seconds, generating} = turn;
      results.push({items, status, cut: cut ?? null, usage, seconds, generating, kind});
    }
  } finally {
    Object.assign(window, {fetch: real.fetch});
    delete performance.now;
  }
  return results;
})().then(done, (error) => done(String(error.stack)));"""


class Reader:
    """The page's code in a browser, which reads what a test gives it."""

    def __init__(self, browser):
        self.b = browser
        self.fake = Fake(None).start()
        self.opened = False

    def read(self, cases):
        """cases: [(exchange, data, positions of cuts, how it ends)] -> what became of the answer of each."""
        if not self.opened:
            self.b.open(self.fake.url)
            self.b.driver.set_script_timeout(300)  # streams byte by byte, on a busy machine
            self.opened = True
        found = self.b.driver.execute_async_script(RUN, self.fake.url, [
            [exchange.path, base64.b64encode(data).decode(), list(cuts), end] for exchange, data, cuts, end in cases])
        assert isinstance(found, list), found
        return found


PAGE = Reader
STREAMS = [(f"{name} {at}", exchange) for name in web_recording.names()
           for at, exchange in enumerate(web_recording.load(name)) if exchange.is_stream]


def within(data, text, at):
    """Positions `at` bytes behind the beginning of each such text."""
    return [place + at for place in range(len(data)) if data.startswith(text, place)]


def within_signs(data):
    """Positions within signs of UTF-8 that have several bytes."""
    return [place for place in range(1, len(data)) if data[place] & 0xC0 == 0x80]


CUTS = {
    "whole": lambda data, random: [],
    "each byte by itself": lambda data, random: range(1, len(data)),
    "within signs": lambda data, random: within_signs(data),
    "within the name of a field": lambda data, random: sorted(within(data, b"data: ", 2) + within(data, b"event: ", 3)),
    "between a field and its value": lambda data, random: within(data, b"data: ", 5),
    "between the ends of two lines": lambda data, random: within(data, b"\n\n", 1),
    "behind each line": lambda data, random: within(data, b"\n", 1)[:-1],
    "anywhere": lambda data, random: sorted(random.sample(range(1, len(data)), min(40, len(data) - 1))),
}


def expected(exchange, data):
    """What the page must make of the beginning of a stream: its items, and the answer as far as an event has told of its end."""
    events = web_recording.events_of(data)
    if exchange.path == "/v1/completions":
        text = "".join(choice["text"] for event in events for choice in event["choices"])
        items, ended = [("message", text)] if text else [], any(event.get("usage") for event in events)
        return items, "completed" if ended else "incomplete", None if ended else "cut"
    items = list(map(web_recording.brief, web_recording.items_of(events)))
    last = events[-1]["type"] if events else ""
    failed = "error" in (last, *(event["type"] for event in events[-2:-1]))
    kind = "failed" if failed else None if last in web_recording.ENDS else "cut"
    return items, "completed" if last == "response.completed" else "incomplete", kind


def check(name, exchange, data, found):
    items, status, kind = expected(exchange, data)
    about = (name, len(data), found)
    assert list(map(web_recording.brief, found["items"])) == items, about
    assert (found["status"], found["kind"]) == (status, kind), about
    assert not [item for item in found["items"] if item.get("status") == "in_progress"], about


@pytest.mark.parametrize("manner", CUTS)
def test_a_stream_says_the_same_in_any_pieces(page, seed, manner):
    rng = random.Random(seed)
    assert manner != "within signs" or any(within_signs(exchange.data) for _, exchange in STREAMS)
    cases = [(exchange, exchange.data, CUTS[manner](exchange.data, rng), exchange.end) for _, exchange in STREAMS]
    for (name, exchange), found in zip(STREAMS, page.read(cases), strict=True):
        check(name, exchange, exchange.data, found)


@pytest.mark.parametrize("end", ["complete", "broken"])
def test_a_stream_that_ends_early_leaves_what_came(page, end):
    """After each of its events, and in the middle of the next one."""
    for name, exchange in STREAMS:
        whole, ends = exchange.data, [0, *within(exchange.data, b"\n\n", 2)]
        beginnings = [whole[:place] for place in ends] + [whole[:place + 30] for place in ends[:-1]]
        cases = [(exchange, data, (), end) for data in beginnings]
        for data, found in zip(beginnings, page.read(cases), strict=True):
            check(name, exchange, data[:data.rfind(b"\n\n") + 2] if b"\n\n" in data else b"", found)


def stream_of(name, at=0):
    return dict(STREAMS)[f"{name} {at}"]


def test_speed_is_of_the_time_in_which_the_model_writes(page):
    """Not while a tool runs, however long that takes, and also for an answer that is nothing but a call."""
    slow, asks, goes_on = stream_of("slow_tool"), stream_of("consent"), stream_of("consent", 1)
    cases = [(one, one.data, list(itertools.accumulate(map(len, one.chunks[:-1]))), one.end) for one in (slow, asks, goes_on)]
    found = page.read(cases)

    def seconds(exchange, text):  # those of the chunks in which this is said
        return [at for at, chunk in enumerate(exchange.chunks) if text in chunk]
    added, ready = b"event: response.output_item.added", b"event: response.mcp_call_arguments.done"
    assert seconds(slow, ready)[0] < seconds(slow, b": still working")[0] < seconds(slow, b"event: response.mcp_call.failed")[0]
    written = [seconds(slow, ready)[0] - seconds(slow, added)[-1],
               len(asks.chunks) - 1 - seconds(asks, added)[-1], len(goes_on.chunks) - 1 - seconds(goes_on, added)[-1]]
    assert [one["generating"] for one in found] == written, (found, written)
    assert [one["seconds"] for one in found] == [len(slow.chunks), len(asks.chunks), len(goes_on.chunks)]
