"""The arithmetic of bench/streams on made-up times."""

import os
import socketserver
import sys
import threading
import time

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench")
sys.path[:0] = [os.path.join(BENCH, "streams"), os.path.join(BENCH, "peers")]
import clients  # noqa: E402
import figures  # noqa: E402
from programs import Failure  # noqa: E402


def test_percentiles_are_values_that_occurred():
    values = list(range(100, 0, -1))
    assert figures.percentile(values, 50) == 50 and figures.percentile(values, 99) == 99
    assert figures.percentile([3], 99) == 3 and figures.percentile([1, 9], 99) == 9 and figures.percentile([], 50) is None


def test_only_chunks_with_text_are_events():
    assert figures.brings_text({"choices": [{"text": "a"}]})
    assert not figures.brings_text({"choices": [{"text": "", "finish_reason": "length"}]})
    assert not figures.brings_text({"choices": [], "usage": {"prompt_tokens": 3}})


def test_load():
    answers = [{"sent": 10.0, "events": [11.0, 12.0, 14.0], "whole": True},  # 4 tokens each, one of them without text
               {"sent": 10.5, "events": [13.5, 14.5, 15.0], "whole": True},
               {"sent": 14.0, "events": [14.5], "whole": False}, {"sent": 15.0, "events": [], "whole": False}]
    got = figures.of_load(answers, 13.5, 17.5, 4)
    assert got == {"tok_s": 4 / 3, "answers": 2, "ttft_p50_s": 1.0, "ttft_p99_s": 3.0, "gap_p50_s": 1.0, "gap_p99_s": 2.0,
                   "gap_max_s": 2.0}, got


def test_gaps_that_the_server_counted():
    text = ('anabranch_token_gap_seconds_count 10\nanabranch_token_gap_seconds_sum 0.5\n'
            'anabranch_token_gap_seconds_bucket{le="0.06"} 9\nanabranch_token_gap_seconds_bucket{le="+Inf"} 10\n')
    assert figures.gaps_counted(text) == (9, 10) and figures.gaps_counted("") is None


def test_stall():
    # The prompt comes at 10 and is read at 20; gaps are 1 before, 2 and once 2.5 beside it, 5 after it.
    steady = [float(t) for t in range(2, 10)] + [11.0, 13.0, 15.5, 17.5, 19.5, 24.5]
    late = [4.0, 5.0, 6.0]  # its first token is where the others' gaps begin to count
    got = figures.of_stall([[0.0, 1.5, *steady], late], 10.0, 20.0)
    assert got["gap_before_p50_s"] == got["gap_before_p99_s"] == 1.0 and got["gap_beside_p50_s"] == 2.0 and got["ratio"] == 2.5, got
    assert figures.of_stall([[1.0, 2.0]], 10.0, 20.0)["ratio"] is None


class Streamer(socketserver.StreamRequestHandler):
    """Answers with three tokens, one of them without text, in pieces that split lines."""

    def handle(self):
        while self.rfile.readline().strip():
            pass
        if self.server.broken:
            self.wfile.write(b"HTTP/1.1 500 Internal Server Error\r\n\r\n")
            return
        text = b"HTTP/1.1 200 OK\r\n\r\n"
        for piece in (b'"a"', b'""', b'" b"'):
            text += b'data: {"choices":[{"index":0,"text":' + piece + b"}]}\n\n"
        text += b"data: [DONE]\n\n"
        try:
            for at in range(0, len(text), 40):
                self.wfile.write(text[at:at + 40])
                time.sleep(0.001)  # as tokens come
        except OSError:
            pass


def ask_streamer(broken):
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Streamer) as server:
        server.daemon_threads, server.broken = True, broken
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            return clients.run(server.server_address[1], lambda client, turn: {"prompt": [client, turn]}, 3, 0.3)
        finally:
            server.shutdown()


def test_clients_ask_again_until_the_window_ends():
    answers, begin, end = ask_streamer(broken=False)
    assert end - begin >= 0.3
    whole = [answer for answer in answers if answer["whole"]]
    assert len(whole) > 3 and all(len(answer["events"]) == 2 for answer in whole)
    got = figures.of_load(answers, begin, end, 3)
    assert got["tok_s"] > 3 * len(whole) * 0.7 / (end - begin), (got, len(whole))


def test_a_failing_server_is_told():
    try:
        ask_streamer(broken=True)
    except Failure as failure:
        assert "500" in str(failure)
    else:
        raise AssertionError("no failure")


def test_tables():
    load = {"model": "m", "server": "s", "streams": 8, "tok_s": 61.94, "ttft_p50_s": 0.1, "ttft_p99_s": 0.25,
            "gap_p50_s": 0.0304, "gap_p99_s": None, "gap_max_s": 0.0021, "answers": 16}
    report = {"prompt": 4096, "prompt_tokens": 512, "tokens": 128, "load": [load], "stall": []}
    line = figures.text(report).splitlines()[4]
    assert [cell.strip() for cell in line.strip("|").split("|")] == ["m", "s", "8", "61.9", "100",
                                                                         "250", "30.4", "-", "2.1", "-", "16"]
