#!/usr/bin/env python3
"""Workers that give each other kept states answer with the same tokens as one worker.

usage: state_transfer_test.py PROGRAM MODEL_DIR

One worker reads prompts (prefill), another writes the answers (decode) as vllm-router asks for it with
--vllm-pd-disaggregation; a third does both and has no others. Then the decode worker's peers are another precision, or
programs that send damaged records, half of one, other records, nonsense, nothing for a long time, or close the
connection; a request names a worker that is no peer; two workers share a cache directory, which a third empties
meanwhile. Every answer and its log probabilities must be those of the third worker. Prints a line for each check and
"N passed, N failed".
"""

import contextlib
import http.client
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
from conclude import conclude  # noqa: E402
from soak_test import free_port  # noqa: E402

KEY = "fleet-key"
TIMEOUT_S = 1.0
WORDS = "In the year 1923 the town council of Millbrook voted, after long talks, to build a library on the hill. "
TO_DECODE = {"do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None, "remote_block_ids": None,
             "remote_host": None, "remote_port": None}


class Worker:
    def __init__(self, program, model, directory, name, *flags, cache=("--cache-disk", "0")):
        self.port, self.log = free_port(), pathlib.Path(directory) / f"{name}.log"
        self.process = subprocess.Popen(
            [program, "serve", "-m", model, "--port", str(self.port), "-t", "1", *cache, *flags],
            stdout=subprocess.DEVNULL, stderr=open(self.log, "w"),
            env=os.environ | {"ANABRANCH_API_KEY": KEY, "XDG_CACHE_HOME": str(directory)})
        for _ in range(1200):
            with contextlib.suppress(OSError):
                if self.ask("GET", "/health")[0] == 200:
                    return
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise SystemExit(f"{name} did not start:\n{self.log.read_text()}")

    def ask(self, method, path, body=None, key=KEY):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request(method, path, json.dumps(body) if body is not None else None,
                           {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {}))
        response = connection.getresponse()
        data = response.read()
        connection.close()
        with contextlib.suppress(ValueError):
            return response.status, json.loads(data)
        return response.status, data

    def peers(self):
        return self.ask("GET", "/health")[1]["cache"]["peers"]

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


def answer_of(worker, question, **more):
    """(what was answered, the answer's other fields)"""
    path, body = question
    status, answer = worker.ask("POST", path, body | more)
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
        self.worker, self.mode, self.asked = worker, mode, 0
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
        status, answer = self.server.worker.ask("POST", self.path, body)
        mode = self.server.mode
        data = json.dumps(answer).encode()
        if mode == "nonsense":
            data = b"\x00\xff{{{[" * 1000
        elif mode == "other numbers":
            data = json.dumps({"blocks": 10**9, "points": [[-1, "x"]]}).encode()
        elif mode == "endless":
            data = b" " * (3 << 20)
        elif mode == "slow":
            time.sleep(8 * TIMEOUT_S)
        self.answer(status, data)

    def do_GET(self):
        self.server.asked += 1
        status, data = self.server.worker.ask("GET", self.path)
        mode = self.server.mode
        if mode == "damaged":
            data = data[:-100] + bytes([data[-100] ^ 4]) + data[-99:]
        elif mode == "other record":
            data = data if self.server.asked == 1 else self.server.first
        elif mode == "slow record" and self.server.asked == 2:
            time.sleep(8 * TIMEOUT_S)
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


def check_flow(checks, alone, prefill, decode):
    sampled = {"temperature": 1.0, "top_p": 0.95}
    chat = ("/v1/chat/completions", {"messages": [{"role": "user", "content": WORDS * 40 + "Who voted?"}], "max_tokens": 24,
                                     "temperature": 0.7, "seed": 5, "logprobs": True, "enable_thinking": False})
    questions = {"greedy": text(40, 1), "seeded": text(24, 2, seed=7, **sampled), "longer": text(80, 3),
                 "undrafted": text(30, 4, speculation="off", seed=3, **sampled), "salted": text(20, 5, cache_salt="a"),
                 "chat": chat, "choices": text(25, 6, n=2, seed=9, **sampled), "short": text(2, 7)}
    for name, question in questions.items():
        expected, _ = answer_of(alone, question)
        _, first = answer_of(prefill, question, max_tokens=1, min_tokens=1, stream=False, kv_transfer_params=TO_DECODE)
        params = first.get("kv_transfer_params", {})
        before = decode.peers()
        got, whole = answer_of(decode, question, kv_transfer_params=params)
        usage, after = whole.get("usage", {}), decode.peers()
        fetched = after["tokens"] - before["tokens"]
        here = usage.get("prompt_tokens", 0) - usage.get("prompt_tokens_details", {}).get("cached_tokens", 0)
        checks[f"{name}: the same tokens"] = got == expected, f"{got}\n{expected}"
        wanted = fetched == 0 if name == "short" else fetched > 100 and here < 32
        checks[f"{name}: states came"] = wanted, f"{fetched} tokens came, {here} were computed: {after}"
        checks[f"{name}: named"] = params.get("remote_port") == prefill.port and len(params.get("remote_block_ids", [])) == 1, params
    again = text(40, 1, max_tokens=8)
    expected, before = answer_of(alone, again)[0], decode.peers()["hits"]
    checks["kept states are not fetched again"] = \
        answer_of(decode, again)[0] == expected and decode.peers()["hits"] == before, decode.peers()
    plain = text(50, 8)
    expected = answer_of(alone, plain)[0]
    answer_of(prefill, plain)
    checks["without parameters"] = \
        answer_of(decode, plain)[0] == expected and decode.peers()["hits"] == before + 1, decode.peers()
    salted = text(50, 8, cache_salt="another")
    got = answer_of(decode, salted)[0]
    checks["another salt finds nothing"] = got == expected and decode.peers()["hits"] == before + 1, decode.peers()


def check_pages(checks, alone, prefill):
    _, first = answer_of(prefill, text(10, 20), max_tokens=1, kv_transfer_params=TO_DECODE)
    params = first["kv_transfer_params"]
    fingerprint, key = params["remote_engine_id"], params["remote_block_ids"][0]
    question = {"version": "0", "fingerprint": fingerprint, "keys": [key]}
    name = f"{key}-{key}-00000005.checkpoint"
    for what, worker, method, path, body, status, shown in (
            ("off", alone, "POST", "/v1/states/lookup", question, 404, "states_not_shared"),
            ("off: a record", alone, "GET", f"/v1/states/{fingerprint}/{name}", None, 404, "states_not_shared"),
            ("another version", prefill, "POST", "/v1/states/lookup", question, 409, "other_version"),
            ("no question", prefill, "POST", "/v1/states/lookup", {"keys": 3}, 400, "invalid_request"),
            ("no record's name", prefill, "GET", f"/v1/states/{fingerprint}/{key}.block", None, 400, "invalid_request"),
            ("no such record", prefill, "GET", f"/v1/states/{fingerprint}/{name}", None, 404, "state_not_found"),
            ("another fingerprint", prefill, "GET", f"/v1/states/{'0' * 32}/{name}", None, 409, "other_states")):
        got, answer = worker.ask(method, path, body)
        checks[f"page: {what}"] = got == status and answer["error"]["code"] == shown, f"{got} {answer}"
    got, answer = prefill.ask("POST", "/v1/states/lookup", question, key=None)
    checks["page: without a key"] = got == 401, f"{got} {answer}"


def check_bad_peers(checks, alone, prefill, decode, precise, bad):
    for i, mode in enumerate(MODES):
        question = text(45, 30 + i)
        expected = answer_of(alone, question)[0]
        answer_of(prefill, question)
        params = {"do_remote_prefill": True, "remote_host": "127.0.0.1", "remote_port": bad[mode].server_address[1]}
        before, begun = decode.peers(), time.monotonic()
        got = answer_of(decode, question, kv_transfer_params=params)[0]
        seconds, after = time.monotonic() - begun, decode.peers()
        failed = after["failed"] == before["failed"] + 1 and after["hits"] == before["hits"]
        checks[f"{mode}: computed here"] = got == expected and failed, f"{after} {before} {got}\n{expected}"
        checks[f"{mode}: in time"] = "slow" not in mode or seconds < 6 * TIMEOUT_S, f"{seconds:.1f} s"
    trap = BadPeer(prefill, "trap")
    question = text(45, 50)
    expected = answer_of(alone, question)[0]
    params = {"do_remote_prefill": True, "remote_host": "127.0.0.1", "remote_port": trap.server_address[1]}
    got = answer_of(decode, question, kv_transfer_params=params)[0]
    checks["no peer is not asked"] = got == expected and trap.asked == 0 and "is no --state-peer" in decode.log.read_text(), got
    for i in range(2):
        question = text(45, 60 + i)
        expected = answer_of(alone, question)[0]
        params = {"do_remote_prefill": True, "remote_host": "127.0.0.1", "remote_port": precise.port}
        got = answer_of(decode, question, kv_transfer_params=params)[0]
        checks[f"another precision: computed here, {i}"] = got == expected, f"{got}\n{expected}"
    told = decode.log.read_text().count("workers share states only with the same model files")
    checks["another precision is told once"] = told == 1, told
    question = text(45, 70)
    expected = answer_of(alone, question)[0]
    answer_of(prefill, question)
    prefill.process.kill()
    prefill.process.wait()
    checks["the prefill worker is gone"] = answer_of(decode, question)[0] == expected, ""


def check_directory(checks, program, model, directory, alone):
    """Two workers on one directory find what the other one wrote after they were started."""
    shared = str(pathlib.Path(directory) / "shared")
    cache = ("--cache-dir", shared, "--cache-disk", "300MB", "--cache-disk-worth", "0")
    one, two = (Worker(program, model, directory, f"shared{i}", cache=cache) for i in (1, 2))
    question = text(40, 80)
    expected = answer_of(alone, question)[0]
    answer_of(one, question)
    end = time.monotonic() + 10
    while time.monotonic() < end:
        listed = subprocess.run([program, "cache", "stats", "--json", "--cache-dir", shared], capture_output=True, text=True)
        if "checkpoint" in "".join(str(p) for p in pathlib.Path(shared).rglob("*.checkpoint")) and listed.returncode == 0:
            break
        time.sleep(0.05)
    time.sleep(0.5)  # the records behind the first checkpoint
    got, whole = answer_of(two, question)
    cached = whole.get("usage", {}).get("prompt_tokens_details", {}).get("cached_tokens", 0)
    checks["directory: the other's records are found"] = got == expected and cached > 500, f"{cached} {got}"
    question = text(40, 81)
    expected = answer_of(alone, question)[0]
    answer_of(one, question)
    time.sleep(0.5)
    answer_of(two, text(5, 82))  # it knows the records now
    for path in pathlib.Path(shared).rglob("*-*-*.*"):
        path.unlink(missing_ok=True)
    checks["directory: what vanished is a miss"] = answer_of(two, question)[0] == expected, ""
    results = [None] * 8
    questions = [text(30, 90 + i // 2, seed=1, temperature=0.9) for i in range(8)]  # both write the same records

    def run(i):
        results[i] = answer_of((one, two)[i % 2], questions[i])[0]

    threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    good = all(results[i] == results[i + 1] == answer_of(alone, questions[i])[0] for i in range(0, 8, 2))
    checks["directory: both write"] = good, ""
    one.stop()
    two.stop()
    verify = subprocess.run([program, "cache", "verify", "--cache-dir", shared], capture_output=True, text=True)
    left = list(pathlib.Path(shared).rglob("tmp-*"))
    checks["directory: every record is whole"] = verify.returncode == 0 and not left, f"{verify.stdout}{verify.stderr}{left}"


def main():
    program, model = sys.argv[1:3]
    checks, directory, begun = {}, tempfile.mkdtemp(), time.monotonic()
    workers = []

    def worker(name, *flags):
        workers.append(Worker(program, model, directory, name, *flags))
        return workers[-1]

    try:
        alone, prefill = worker("alone"), worker("prefill", "--share-states")
        precise = worker("precise", "--share-states", "--precise")
        bad = {mode: BadPeer(prefill, mode) for mode in MODES}
        ports = [prefill.port, precise.port] + [peer.server_address[1] for peer in bad.values()]
        # Without parameters all peers are asked, so the bad ones are peers of a worker of their own.
        decode = worker("decode", "--state-peer", f"http://127.0.0.1:{prefill.port}")
        check_flow(checks, alone, prefill, decode)
        check_pages(checks, alone, prefill)
        many = worker("many", "--state-peer-timeout", str(TIMEOUT_S),
                      *(flag for port in ports for flag in ("--state-peer", f"http://127.0.0.1:{port}/")))
        check_bad_peers(checks, alone, prefill, many, precise, bad)
        check_directory(checks, program, model, directory, alone)
        checks["all workers live"] = all(w.process.poll() is None for w in workers if w is not prefill), ""
        summary = f"{len(workers) + 2} workers, {time.monotonic() - begun:.0f} s"
    finally:
        for each in workers:
            if each.process.poll() is None:
                each.stop()
        shutil.rmtree(directory, ignore_errors=True)
    return conclude(checks, summary)


if __name__ == "__main__":
    sys.exit(main())
