#!/usr/bin/env python3
"""Kept conversations with the real program: killed while it writes, resumed, in two processes, ten thousand of them.

usage: sessions_test.py PROGRAM MODEL_DIR [--kills 100]
Prints figures and "N passed, N failed"."""

import argparse
import hashlib
import json
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

from conclude import conclude

WORDS = [f"{a}{b}{c}" for a in ("ba", "do", "ki", "lu", "me", "na") for b in ("ra", "se", "ti", "vo", "zu") for c in ("n", "r", "s", "x")]


class Server:
    def __init__(self, program, folder, *flags):
        self.command = [program, "serve", "--port", "0", "--sessions", os.path.join(folder, "sessions"),
                        "--cache-dir", os.path.join(folder, "states"), "--cache-disk-worth", "0", *flags]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.base = self.process.stdout.readline().split(" on ")[-1].strip()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def ask(self, path, body=None, key=None, method=None):
        headers = {"Content-Type": "application/json", **({"x-api-key": key} if key else {})}
        request = urllib.request.Request(self.base + path, None if body is None else json.dumps(body).encode(), headers, method=method)
        with urllib.request.urlopen(request, timeout=120) as response:
            text = response.read().decode()
        return json.loads(text) if response.headers["content-type"].split(";")[0] == "application/json" else text


def message(random_):
    """A message whose text tells whether it is whole."""
    text = " ".join(random_.choice(WORDS) for _ in range(random_.choice((3, 30, 3000))))
    return {"role": "user", "content": text + " " + hashlib.sha256(text.encode()).hexdigest()}


def is_whole(text):
    body, _, digest = text.rpartition(" ")
    return hashlib.sha256(body.encode()).hexdigest() == digest


def write_until_killed(server, session, acknowledged, random_):
    """Adds messages; those that the server acknowledged are noted."""
    while True:
        one = message(random_)
        try:
            answer = server.ask(f"/sessions/{session}/messages", {"messages": [one]})
        except (OSError, urllib.error.URLError, ValueError):
            return
        # The head may be another writer's by now.
        id = next(kept["id"] for kept in reversed(answer["messages"]) if kept["content"] == one["content"])
        acknowledged.append((session, id, one["content"]))


def test_kills(program, folder, kills):
    """No acknowledged message is lost, and none is there in part."""
    server = Server(program, folder)
    acknowledged, random_ = [], random.Random(5)
    for _ in range(kills):
        sessions = [server.ask("/sessions", {})["id"] for _ in range(2)]
        writers = [threading.Thread(target=write_until_killed, args=(server, session, acknowledged, random.Random(session)))
                   for session in sessions for _ in range(2)]
        for writer in writers:
            writer.start()
        time.sleep(random_.uniform(0.02, 0.15))
        server.kill()
        for writer in writers:
            writer.join()
        server.start()
    server.kill()
    db = sqlite3.connect(os.path.join(folder, "sessions", "sessions.db"))
    stored = {(session, f"msg_{id}"): text for session, id, text in db.execute("SELECT session, id, text FROM messages")}
    lost = [a for a in acknowledged if stored.get((a[0], a[1])) != a[2]]
    halves = [text for text in stored.values() if not is_whole(text)]
    indexed = db.execute("SELECT count(*) FROM words").fetchone()[0]
    counts = db.execute("SELECT count(*) FROM sessions s WHERE messages != (SELECT count(*) FROM messages m WHERE m.session = s.id)").fetchone()[0]
    sound = db.execute("PRAGMA integrity_check").fetchone()[0]
    db.execute("INSERT INTO words (words) VALUES ('integrity-check')")
    figures = f"{kills} kills: {len(acknowledged)} messages acknowledged, {len(stored)} stored, {len(lost)} lost, {len(halves)} in part"
    good = not lost and not halves and counts == 0 and sound == "ok" and indexed == len(stored) and len(acknowledged) > kills
    return good, figures


QUESTIONS = ["What is the capital of France?", "And what is 17 plus 25?", "Name three rivers.", "Say it in other words.", "Thank you. What did I ask first?"]
ABOUT = "You answer the questions of a traveller who is curious about towns, rivers and numbers. " * 8


def respond(server, session, text, effort):
    return server.ask("/responses", {"model": "default", "input": text, "conversation": session, "temperature": 0.7, "seed": 3, "max_output_tokens": 60,
                                     "reasoning": {"effort": effort}})


def test_resumed(program, model, folder):
    """After kill -9 and a restart before every turn: the same tokens, and the same share of them from the cache."""
    texts, cached = {}, {}
    for kind in ("whole", "killed"):
        server = Server(program, os.path.join(folder, kind), "--model", model)
        session = server.ask("/sessions", {"messages": [{"role": "system", "content": ABOUT}]})["id"]
        for i, question in enumerate(QUESTIONS):
            answer = respond(server, session, question, "low" if i == 1 else "none")
            texts.setdefault(kind, []).append([[part["text"] for part in item["content"]] for item in answer["output"]])
            cached.setdefault(kind, []).append(answer["usage"]["input_tokens_details"]["cached_tokens"])
            if kind == "killed":
                time.sleep(0.5)  # states are written in the background
                server.kill()
                server.start()
        kept = server.ask(f"/sessions/{session}")["messages"]
        texts[kind].append([(m["role"], m["content"], m.get("reasoning_content")) for m in kept])
        server.kill()
    same = texts["whole"] == texts["killed"]
    found = sum(cached["killed"][1:]) / sum(cached["whole"][1:])
    return same and found >= 0.98, f"the same tokens: {same}; found in the cache: {cached}"


def test_ten_thousand(program, folder):
    """Lists and searches of ten thousand conversations take less than 50 ms."""
    server, random_ = Server(program, folder), random.Random(7)
    for part in range(20):
        lines = []
        for i in range(500):
            lines.append(json.dumps({"session": {"title": f"Talk {part * 500 + i}"}}))
            for turn in range(6):
                words = [random_.choice(WORDS) for _ in range(40)] + (["uniqueword"] if (part, i, turn) == (11, 77, 3) else [])
                lines.append(json.dumps({"role": ("user", "assistant")[turn % 2], "content": " ".join(words)}))
        server.ask("/sessions/import", {"jsonl": "\n".join(lines)})
    took = {}
    for name, path in {"list": "/sessions?limit=50", "rare word": "/sessions?query=uniqueword", "common word": "/sessions?query=baran",
                       "three words": "/sessions?query=baran+dosen+kitis", "beginning": "/sessions?query=ba", "title": "/sessions?query=Talk+7777",
                       "no match": "/sessions?query=xyzzy"}.items():
        times = []
        for _ in range(9):
            begin = time.perf_counter()
            found = server.ask(path)
            times.append(time.perf_counter() - begin)
        took[name] = (round(1000 * statistics.median(times), 1), len(found["data"]))
    last = server.ask("/sessions?limit=1")["last_id"]
    size = os.path.getsize(os.path.join(folder, "sessions", "sessions.db"))
    server.kill()
    good = all(ms < 50 for ms, _ in took.values()) and took["rare word"][1] == 1 and took["title"][1] == 1 and took["no match"][1] == 0 and last
    return good, f"10,000 conversations, {size >> 20} MiB; ms, found: {took}"


def test_two_servers(program, folder):
    """Two processes and the command line use one file."""
    servers = [Server(program, folder), Server(program, folder)]
    session = servers[0].ask("/sessions", {"title": "shared"})["id"]
    seen = servers[1].ask(f"/sessions/{session}")["title"]

    def add(server):
        for i in range(30):
            server.ask(f"/sessions/{session}/messages", {"messages": [{"role": "user", "content": f"{id(server)} {i}"}]})

    threads = [threading.Thread(target=add, args=(server,)) for server in servers]
    for thread in threads:
        thread.start()
    listed = subprocess.run([program, "sessions", "ls", "--json", "--sessions", os.path.join(folder, "sessions")], capture_output=True, text=True)
    for thread in threads:
        thread.join()
    count = len(servers[0].ask(f"/sessions/{session}")["messages"])
    for server in servers:
        server.kill()
    modes = {oct(os.stat(os.path.join(root, name)).st_mode & 0o777) for root, _, names in os.walk(os.path.join(folder, "sessions")) for name in names}
    good = seen == "shared" and count == 60 and listed.returncode == 0 and json.loads(listed.stdout)[0]["id"] == session and modes == {"0o600"}
    return good, f"{count} messages of 60 one below the other, files {modes}, {listed.stderr}"


def records(folder):
    return sorted(name for _, _, names in os.walk(folder) for name in names if name.endswith((".block", ".checkpoint")))


def test_forgotten(program, model, folder):
    """One key's texts are not found by another's; a deleted conversation leaves no states and no sampled turns."""
    keys = os.path.join(folder, "keys")
    with open(keys, "w") as file:
        file.write("ann key-of-ann\nbob key-of-bob\nteam1 key-of-team1 cache=all\nteam2 key-of-team2 cache=all\n")
    os.chmod(keys, 0o600)
    server = Server(program, folder, "--model", model, "--api-key-file", keys)
    states = os.path.join(folder, "states")
    text = "The quetzalcoatl sleeps beneath the ninety-first pine. " * 60
    checks = {}

    def respond(key, more=None, said=text, **fields):
        body = {"input": said, "max_output_tokens": 8, "temperature": 0, "reasoning": {"effort": "none"}, **(more or {}), **fields}
        answer = server.ask("/responses", body, key)
        return answer["id"], answer["usage"]["input_tokens_details"]["cached_tokens"]

    def settled():
        for _ in range(100):
            found = records(states)
            time.sleep(0.3)
            if found and found == records(states):
                return found
        return records(states)

    try:
        session = server.ask("/sessions", {}, "key-of-ann")["id"]
        respond("key-of-ann", {"conversation": session})
        checks["another key finds nothing"] = respond("key-of-bob", store=False)[1] == 0
        first = respond("key-of-team1", store=False)[1]
        checks["keys of all find each other's"] = first == 0 and respond("key-of-team2", store=False)[1] > 100
        checks["one finds its own"] = respond("key-of-ann", {"conversation": session}, "Go on, please.")[1] > 100
        others = len(settled())
        other = respond("key-of-ann", said=text + "Another end. " * 60)[0]  # goes on from what they have in common
        more = set(settled())
        checks["states on disk"] = 0 < others < len(more)
        server.ask("/sessions/" + session, key="key-of-ann", method="DELETE")
        left = set(records(states))
        checks["removed before the answer"] = len(left) < len(more) and left < more
        checks["the other goes on"] = respond("key-of-ann", {"previous_response_id": other}, "Go on, please.")[1] > 100
        server.ask("/responses/" + other, key="key-of-ann", method="DELETE")
        # The second response of that conversation still has it.
        checks["not yet"] = respond("key-of-ann", said=text + "Another end. " * 60, store=False)[1] > 100
        server.kill()
        server.start()
        whole = server.ask("/sessions", {}, "key-of-bob")["id"]
        respond("key-of-bob", {"conversation": whole}, "A text of bob's alone. " * 60)
        before = set(settled())
        server.kill()
        server.start()
        server.ask("/sessions/" + whole, key="key-of-bob", method="DELETE")
        checks["after a restart"] = set(records(states)) < before
        tree = server.ask("/sessions", {}, "key-of-ann")["id"]
        respond("key-of-ann", {"conversation": tree}, "A text that the branch has. " * 60)
        point = server.ask("/sessions/" + tree, key="key-of-ann")["messages"][-1]["id"]
        early = set(settled())
        respond("key-of-ann", {"conversation": tree}, "What only the first one was asked. " * 60)
        later = set(settled()) - early
        branch = server.ask(f"/sessions/{tree}/branch", {"message": point}, "key-of-ann")["id"]
        server.ask("/sessions/" + tree, key="key-of-ann", method="DELETE")
        checks["a branch keeps no later states"] = bool(later) and not later & set(records(states))
        checks["and goes on from its own"] = respond("key-of-ann", {"conversation": branch}, "Go on, please.")[1] > 100
        cut = server.ask("/sessions", {}, "key-of-bob")["id"]
        odd = "A very odd text about llamas. " * 60
        body = {"conversation": cut, "input": odd, "stream": True, "max_output_tokens": 2000, "ignore_eos": True}
        request = urllib.request.Request(server.base + "/responses", json.dumps(body).encode(), {"Content-Type": "application/json", "x-api-key": "key-of-bob"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            while b"delta" not in answer.readline():
                pass
        settled()
        server.ask("/sessions/" + cut, key="key-of-bob", method="DELETE")
        checks["of an answer that was cut"] = respond("key-of-bob", said=odd, store=False)[1] == 0
        checks["gone"] = respond("key-of-bob", said="A text of bob's alone. " * 60, store=False)[1] == 0
    finally:
        server.kill()
    # On the command line, with the usual directory of the cache.
    environment = {**os.environ, "XDG_CACHE_HOME": os.path.join(folder, "cache")}
    place = ["--sessions", os.path.join(folder, "chats")]
    subprocess.run([program, "chat", "-m", model, "--temp", "0", "--thinking", "off", "--max-tokens", "8", "--cache-disk-worth", "0", *place],
                   input=text + "\n", env=environment, capture_output=True, text=True, timeout=120)
    kept = records(environment["XDG_CACHE_HOME"])
    subprocess.run([program, "sessions", "rm", "-y", "quetzal", *place], env=environment, capture_output=True, timeout=60)
    checks["chat's states"] = bool(kept) and not records(environment["XDG_CACHE_HOME"])
    bad = [name for name, good in checks.items() if not good]
    return not bad, f"failed: {bad}" if bad else "what is deleted is gone from the cache, and no key finds another's"


def test_one_large_session(program, folder):
    """Somebody reads, exports and extends a session of 120 MB while others list and write theirs."""
    keys = os.path.join(folder, "keys")
    with open(keys, "w") as file:
        file.write("ann key-of-ann\nbob key-of-bob\n")
    os.chmod(keys, 0o600)
    server = Server(program, folder, "--api-key-file", keys)

    def memory():
        with open(f"/proc/{server.process.pid}/status") as status:
            return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))

    try:
        large = server.ask("/sessions", {}, "key-of-bob")["id"]
        for _ in range(4):
            server.ask(f"/sessions/{large}/messages", {"messages": [{"role": "user", "content": "z" * 30_000_000}]}, "key-of-bob")
        own = server.ask("/sessions", {}, "key-of-ann")["id"]
        refused = None
        try:
            server.ask(f"/sessions/{large}/messages", {"messages": [{"role": "user", "content": "z" * 30_000_000}]}, "key-of-bob")
        except urllib.error.HTTPError as error:
            refused = error.code
        threads = [threading.Thread(target=server.ask, args=(f"/sessions/{large}{end}", None, "key-of-bob"))
                   for end in ("", "/export", "", "/export", "", "/export")]
        [thread.start() for thread in threads]
        waits = []
        while any(thread.is_alive() for thread in threads):
            begin = time.time()
            server.ask("/sessions", key="key-of-ann")
            server.ask(f"/sessions/{own}/messages", {"messages": [{"role": "user", "content": "short"}]}, "key-of-ann")
            waits.append(time.time() - begin)
            time.sleep(0.01)
        peak = memory()
    finally:
        server.kill()
    waits.sort()
    worst = waits[-1] if waits else 0
    good = refused == 400 and len(waits) > 3 and worst < 3
    return good, f"another key's two requests took {statistics.median(waits):.2f} s, at most {worst:.2f} s; memory {peak:.0f} MB; beyond 128 MiB: {refused}"


def test_full_disk(program, folder):
    """A disk that is full gets 507, changes nothing, and deleting works once there is room."""
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder], capture_output=True).returncode:
        return True, "not tried: no file system can be mounted here"
    server, filling = Server(program, folder), os.path.join(folder, "filling")

    def status(path, body=None, method=None):
        try:
            return server.ask(path, body, method=method) and 200
        except urllib.error.HTTPError as error:
            return error.code

    try:
        session = server.ask("/sessions", {"messages": [{"role": "user", "content": "some words " * 60_000}]})["id"]
        with open(filling, "ab", 0) as file:
            try:
                while True:
                    file.write(b"x" * 4096)
            except OSError:
                pass
        statuses = [status("/sessions", {"messages": [{"role": "user", "content": "w " * 1_000_000}]}), status(f"/sessions/{session}", method="DELETE"),
                    status(f"/sessions/{session}")]
        os.remove(filling)
        statuses += [status(f"/sessions/{session}", method="DELETE"), status(f"/sessions/{session}")]
    finally:
        server.kill()
        subprocess.run(["umount", folder])
    # Where the log has room, the session may be removed at once.
    return statuses in ([507, 507, 200, 200, 404], [507, 200, 404, 404, 404]), f"answers: {statuses}"


def test_command_line(program, model, folder):
    """chat keeps and resumes; sessions lists, shows, exports, imports, renames and removes."""
    place = ["--sessions", os.path.join(folder, "sessions")]

    def run(*words, text=""):
        return subprocess.run([program, *words], input=text, capture_output=True, text=True, timeout=120)

    fixed = ["--temp", "0", "--thinking", "off", "--cache-dir", os.path.join(folder, "states"), "--cache-disk-worth", "0"]
    whole = run("chat", "-m", model, *fixed, text="\n".join(QUESTIONS[:3]) + "\n").stdout
    parts = [run("chat", "-m", model, *fixed, *place, text=QUESTIONS[0] + "\n").stdout]
    for question in QUESTIONS[1:3]:
        parts.append(run("chat", "-m", model, *fixed, *place, "--resume", text=question + "\n/stats\n").stdout)
    said = "".join("\n".join(line for line in part.splitlines() if not line.startswith("prompt ")) + "\n" for part in parts)
    checks = {"the same tokens": said.strip() == whole.strip()}
    checks["listed"] = QUESTIONS[0] in run("sessions", "ls", "capital", *place).stdout
    checks["shown"] = "## Assistant" in run("sessions", "show", *place).stdout
    lines = run("sessions", "export", *place).stdout
    checks["imported"] = run("sessions", "import", "-", *place, text=lines).returncode == 0
    first = json.loads(run("sessions", "ls", "--json", *place).stdout)
    checks["two"] = len(first) == 2 and first[0]["messages"] == first[1]["messages"] == 6
    checks["renamed"] = run("sessions", "rename", first[0]["id"], "A copy", *place).returncode == 0 and "A copy" in run("sessions", "ls", *place).stdout
    checks["removed"] = run("sessions", "rm", "-y", "A copy", *place).returncode == 0 and "A copy" not in run("sessions", "ls", *place).stdout
    checks["unknown"] = "there is no session" in run("sessions", "rm", "-y", "nothing", *place).stderr
    checks["nothing without being asked"] = not os.path.exists(os.path.join(folder, "data"))
    bad = [name for name, good in checks.items() if not good]
    return not bad, f"failed: {bad}; {said!r} against {whole!r}" if bad else "chat and sessions on the command line"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--kills", type=int, default=100)
    options = parser.parse_args()
    checks, figures = {}, []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_DATA_HOME"] = os.path.join(folder, "data")
        for name, test in {"kills": lambda f: test_kills(options.program, f, options.kills),
                           "resumed": lambda f: test_resumed(options.program, options.model, f),
                           "ten thousand": lambda f: test_ten_thousand(options.program, f),
                           "two servers": lambda f: test_two_servers(options.program, f),
                           "forgotten": lambda f: test_forgotten(options.program, options.model, f),
                           "full disk": lambda f: test_full_disk(options.program, f),
                           "one large session": lambda f: test_one_large_session(options.program, f),
                           "command line": lambda f: test_command_line(options.program, options.model, f)}.items():
            begin = time.time()
            place = os.path.join(folder, name.replace(" ", "_"))
            os.makedirs(place)
            good, what = test(place)
            checks[name] = (good, what)
            figures.append(f"{name} ({time.time() - begin:.1f} s): {what}")
    return conclude(checks, "\n".join(figures))


if __name__ == "__main__":
    sys.exit(main())
