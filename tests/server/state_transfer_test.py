"""Workers that give each other cache entries answer with the same tokens as one worker.

One worker reads prompts (prefill), another writes the answers (decode) as vllm-router asks for it with
--vllm-pd-disaggregation; a third does both and has no others. Then the decode worker's peers are another precision, or
programs that send damaged records, half of one, other records, nonsense, nothing for a long time, or close the
connection; a request names a worker that is no peer; two workers share a cache directory, which a third empties
meanwhile. Every answer and its log probabilities must be those of the third worker.
"""

import contextlib
import http.server
import json
import subprocess
import threading
import time

import pytest

from harness import paths
from harness.waiting import file_sizes, settled

pytestmark = [pytest.mark.slow, pytest.mark.any_model]

KEY = "fleet-key"
TIMEOUT_S = 1.0  # of the decode worker for its peers
SLOW_S = 300  # a peer that takes as long as this
WORDS = "In the year 1923 the town council of Millbrook voted, after long talks, to build a library on the hill. "
TO_DECODE = {"do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None, "remote_block_ids": None,
             "remote_host": None, "remote_port": None}


def answer_of(worker, question, **more):
    """(what was answered, the answer's other fields)"""
    path, body = question
    status, answer = worker.status(path, body | more)
    if status != 200:
        return answer, {}
    choices = [{k: c.get(k) for k in ("text", "message", "logprobs", "finish_reason")} for c in answer["choices"]]
    return choices, answer


def text(words, at, **more):
    return "/v1/completions", {"prompt": f"{at}. " + WORDS * words, "max_tokens": 16, "temperature": 0, "logprobs": 1,
                               "ignore_eos": True} | more


class BadPeer(http.server.ThreadingHTTPServer):
    """Asks a real worker, and spoils what it answers."""

    daemon_threads = True

    def __init__(self, worker, mode):
        self.worker, self.mode, self.asked, self.over = worker, mode, 0, threading.Event()
        super().__init__(("127.0.0.1", 0), BadHandler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass  # the worker closes connections, too


class BadHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        status, answer = self.server.worker.status(self.path, body)
        mode = self.server.mode
        data = json.dumps(answer).encode()
        if mode == "nonsense":
            data = b"\x00\xff{{{[" * 1000
        elif mode == "other numbers":
            data = json.dumps({"blocks": 10**9, "points": [[-1, "x"]]}).encode()
        elif mode == "endless":
            data = b" " * (3 << 20)
        elif mode == "slow":
            self.server.over.wait(SLOW_S)
        self.answer(status, data)

    def do_GET(self):
        self.server.asked += 1
        with self.server.worker.open(self.path) as response:
            status, data = response.status, response.read()
        mode = self.server.mode
        if mode == "damaged":
            data = data[:-100] + bytes([data[-100] ^ 4]) + data[-99:]
        elif mode == "other record":
            data = data if self.server.asked == 1 else self.server.first
        elif mode == "slow record" and self.server.asked == 2:
            self.server.over.wait(SLOW_S)
        self.server.first = data
        cut = mode == "dies" and self.server.asked == 2
        self.answer(status, data, len(data) // 2 if cut else len(data))

    def answer(self, status, data, sent=None):
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(data[:sent])
        if sent not in (None, len(data)):
            self.close_connection = True


MODES = ("damaged", "other record", "dies", "nonsense", "other numbers", "endless", "slow", "slow record")


class Workers:
    """Of which one asks no other; started when they are first named."""

    def __init__(self, serve):
        self.serve = serve
        self.alone, self.prefill = self.worker(), self.worker("--share-states")
        self.bad = {mode: BadPeer(self.prefill, mode) for mode in MODES}

    def worker(self, *flags, cache=("--cache-disk", "0")):
        return self.serve("-t", "1", *cache, *flags, environment={"ANABRANCH_API_KEY": KEY}, key=KEY)

    def expected(self, question):
        return answer_of(self.alone, question)[0]


@pytest.fixture(scope="module")
def workers(serve_for_all):
    workers = Workers(serve_for_all)
    yield workers
    for peer in workers.bad.values():
        peer.over.set()
        peer.shutdown()


@pytest.fixture(scope="module")
def decode(workers):
    """Without parameters all peers are asked, so the bad ones are peers of a worker of their own."""
    return workers.worker("--state-peer", workers.prefill.root, "--state-peer-timeout", "60")


@pytest.fixture(scope="module")
def precise(workers):
    return workers.worker("--share-states", "--precise")


@pytest.fixture(scope="module")
def many(workers, precise):
    """A worker whose peers are the good one and all bad ones."""
    ports = [workers.prefill.port, precise.port] + [peer.server_address[1] for peer in workers.bad.values()]
    return workers.worker("--state-peer-timeout", TIMEOUT_S, *(flag for port in ports for flag in ("--state-peer", f"http://127.0.0.1:{port}/")))


def peers(worker):
    return worker.health()["cache"]["peers"]


SAMPLED = {"temperature": 1.0, "top_p": 0.95}
QUESTIONS = {
    "greedy": text(40, 1), "seeded": text(24, 2, seed=7, **SAMPLED), "longer": text(80, 3),
    "undrafted": text(30, 4, speculation="off", seed=3, **SAMPLED), "salted": text(20, 5, cache_salt="a"),
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": WORDS * 40 + "Who voted?"}], "max_tokens": 24,
                                      "temperature": 0.7, "seed": 5, "logprobs": True, "enable_thinking": False}),
    "choices": text(25, 6, n=2, seed=9, **SAMPLED), "short": text(2, 7)}


@pytest.mark.parametrize("name", QUESTIONS)
def test_states_come_from_the_prefill_worker_and_change_nothing(workers, decode, name):
    question = QUESTIONS[name]
    _, first = answer_of(workers.prefill, question, max_tokens=1, min_tokens=1, stream=False, kv_transfer_params=TO_DECODE)
    params = first["kv_transfer_params"]
    assert params["remote_port"] == workers.prefill.port and len(params["remote_block_ids"]) == 1, params
    before = peers(decode)
    got, whole = answer_of(decode, question, kv_transfer_params=params)
    assert got == workers.expected(question)
    usage, after = whole["usage"], peers(decode)
    fetched = after["tokens"] - before["tokens"]
    here = usage["prompt_tokens"] - usage["prompt_tokens_details"]["cached_tokens"]
    assert fetched == 0 if name == "short" else fetched > 100 and here < 32, f"{fetched} tokens came, {here} were computed: {after}"


def test_kept_states_are_not_fetched_again(workers, decode):
    answer_of(workers.prefill, QUESTIONS["greedy"])
    answer_of(decode, QUESTIONS["greedy"])
    again, before = text(40, 1, max_tokens=8), peers(decode)["hits"]
    assert answer_of(decode, again)[0] == workers.expected(again) and peers(decode)["hits"] == before


def test_without_parameters_all_peers_are_asked_and_another_salt_finds_nothing(workers, decode):
    plain, salted, before = text(50, 8), text(50, 8, cache_salt="another"), peers(decode)["hits"]
    answer_of(workers.prefill, plain)
    assert answer_of(decode, plain)[0] == workers.expected(plain) and peers(decode)["hits"] == before + 1
    assert answer_of(decode, salted)[0] == workers.expected(salted) and peers(decode)["hits"] == before + 1


def test_pages_of_states_say_what_is_wrong(workers):
    _, first = answer_of(workers.prefill, text(10, 20), max_tokens=1, kv_transfer_params=TO_DECODE)
    fingerprint, key = first["kv_transfer_params"]["remote_engine_id"], first["kv_transfer_params"]["remote_block_ids"][0]
    question, lookup = {"version": "0", "fingerprint": fingerprint, "keys": [key]}, "/v1/states/lookup"
    name = f"{key}-{key}-00000005.checkpoint"
    for what, worker, path, body, status, shown in (
            ("off", workers.alone, lookup, question, 404, "states_not_shared"),
            ("off: a record", workers.alone, f"/v1/states/{fingerprint}/{name}", None, 404, "states_not_shared"),
            ("another version", workers.prefill, lookup, question, 409, "other_version"),
            ("no question", workers.prefill, lookup, {"keys": 3}, 400, "invalid_request"),
            ("no record's name", workers.prefill, f"/v1/states/{fingerprint}/{key}.block", None, 400, "invalid_request"),
            ("no such record", workers.prefill, f"/v1/states/{fingerprint}/{name}", None, 404, "state_not_found"),
            ("another fingerprint", workers.prefill, f"/v1/states/{'0' * 32}/{name}", None, 409, "other_states")):
        got, answer = worker.status(path, body)
        assert got == status and answer["error"]["code"] == shown, (what, got, answer)
    assert workers.prefill.status(lookup, question, key="no key")[0] == 401
    with workers.prefill.open(lookup, question, headers={"Authorization": ""}) as response:
        assert response.status == 401


def params_of(port):
    return {"do_remote_prefill": True, "remote_host": "127.0.0.1", "remote_port": port}


@pytest.mark.parametrize("mode", MODES)
def test_what_a_bad_peer_spoils_is_computed(workers, many, mode):
    question = text(45, 30 + MODES.index(mode))
    answer_of(workers.prefill, question)
    before, begun = peers(many), time.monotonic()
    got = answer_of(many, question, kv_transfer_params=params_of(workers.bad[mode].server_address[1]))[0]
    assert got == workers.expected(question)
    after = peers(many)
    assert after["failed"] == before["failed"] + 1 and after["hits"] == before["hits"], (before, after)
    assert time.monotonic() - begun < SLOW_S / 2, "it waited for the slow peer"


def test_who_is_no_peer_is_not_asked(workers, many):
    trap, question = BadPeer(workers.prefill, "trap"), text(45, 50)
    assert answer_of(many, question, kv_transfer_params=params_of(trap.server_address[1]))[0] == workers.expected(question)
    assert trap.asked == 0 and "is no --state-peer" in many.log
    trap.shutdown()


def test_a_worker_of_another_precision_is_told_of_once(workers, many, precise):
    for i in range(2):
        question = text(45, 60 + i)
        assert answer_of(many, question, kv_transfer_params=params_of(precise.port))[0] == workers.expected(question)
    assert many.log.count("workers share entries only with the same model files") == 1


def cached(whole):
    return whole["usage"]["prompt_tokens_details"]["cached_tokens"]


class Shared:
    """Two workers on one directory."""

    def __init__(self, workers, folder):
        self.folder = folder
        flags = ("--cache-dir", folder, "--cache-disk", "300MB", "--cache-disk-worth", "0")
        self.one, self.two = (workers.worker(cache=flags) for _ in range(2))

    def written(self):
        """Waits until all records are written."""
        settled(lambda: file_sizes(self.folder), still=1)


@pytest.fixture(scope="module")
def shared(workers, tmp_path_factory):
    return Shared(workers, tmp_path_factory.mktemp("shared"))


def test_workers_on_one_directory_find_what_the_other_wrote_after_they_started(workers, shared):
    question = text(40, 80)
    answer_of(shared.one, question)
    shared.written()
    got, whole = answer_of(shared.two, question)
    assert got == workers.expected(question) and cached(whole) > 500


def test_records_that_vanished_are_a_miss(workers, shared):
    question = text(40, 81)
    answer_of(shared.one, question)
    shared.written()
    answer_of(shared.two, text(5, 82))  # it knows the records now
    for path in shared.folder.rglob("*-*-*.*"):
        path.unlink(missing_ok=True)
    assert answer_of(shared.two, question)[0] == workers.expected(question)


def test_both_may_write_the_same_records_and_all_are_whole(workers, shared):
    results = [None] * 8
    questions = [text(30, 90 + i // 2, seed=1, temperature=0.9) for i in range(8)]

    def run(i):
        results[i] = answer_of((shared.one, shared.two)[i % 2], questions[i])[0]

    threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(0, 8, 2):
        assert results[i] == results[i + 1] == workers.expected(questions[i])
    shared.one.stop()
    shared.two.stop()
    verify = subprocess.run([paths.PROGRAM, "cache", "verify", "--cache-dir", shared.folder], capture_output=True, text=True)
    assert verify.returncode == 0, verify.stdout + verify.stderr
    assert not list(shared.folder.rglob("tmp-*"))


def test_when_the_prefill_worker_is_gone_prompts_are_computed(workers, many, decode, precise):
    question = text(45, 70)
    answer_of(workers.prefill, question)
    workers.prefill.kill()
    assert answer_of(many, question)[0] == workers.expected(question)
    for worker in (workers.alone, many, decode, precise):
        assert worker.process.poll() is None
