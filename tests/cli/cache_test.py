"""`cache` and its subcommands, alone and beside a server."""

import json
import os
import signal
import tempfile
import time

from commands import refused, run
from harness import paths
from harness.waiting import wait_for


def cache(*args, folder, status=0, stdin=""):
    code, out, err = run("cache", *args, "--cache-dir", folder, stdin=stdin)
    assert code == status, f"exit status {code}: {out}{err}"
    return json.loads(out) if "--json" in args else out


def test_the_cache_is_listed_verified_and_cleared():
    with tempfile.TemporaryDirectory() as outside:
        folder = os.path.join(outside, "states")
        for command in ("ls", "stats", "verify", "clear"):  # nothing was ever kept there
            refused(folder, "cache", command, "--cache-dir", folder)
        os.mkdir(folder, 0o700)
        for command in ("ls", "stats", "verify", "clear"):
            cache(command, folder=folder)
            assert cache(command, "--json", folder=folder)["directory"] == folder
        long = "Once there was a ship. " * 100  # more than two blocks
        for question in ("Who?", "Where?"):
            run("generate", "-m", paths.MODEL, "-n", "4", "--temp", "0", "--raw", long + question, "--cache-dir", folder)
        run("generate", "-m", paths.MODEL, "-n", "4", "--temp", "0", "--raw", long, "--cache-dir", folder, "--precise")
        listed = cache("ls", "--json", folder=folder)["fingerprints"]
        assert [f["setting"] for f in listed] == ["cpu f32", "cpu f16"] and len(listed[1]["records"]) > 4, listed
        assert all(f["model"] == "hybrid-146m" and f["path"] == os.path.abspath(paths.MODEL) for f in listed), listed
        keys = {r["key"] for r in listed[1]["records"]}
        assert any(r["parent"] in keys for r in listed[1]["records"])
        text = cache("ls", folder=folder)
        assert "hybrid-146m, cpu f16" in text and "0-" in text and "s ago" in text, text
        stats = cache("stats", "--json", folder=folder)
        assert stats["records"] == sum(f["records"] for f in stats["fingerprints"]) == stats["blocks"] + stats["points"]
        assert stats["bytes_per_1k_tokens"] > 1e6 and stats["free_bytes"] >= stats["default_budget_bytes"] > 0, stats
        assert stats["oldest_use"] <= stats["newest_use"] <= time.time() + 1
        assert "per 1000 tokens" in cache("stats", folder=folder)
        # What vision towers made of images is counted beside them.
        assert stats["images"]["files"] == 0 and stats["total_bytes"] == stats["bytes"], stats
        images = os.path.join(folder, "images1-" + listed[1]["fingerprint"])
        os.mkdir(images)
        for name, size in (("a.image", 3000), ("b.image.7.tmp", 500), ("mine", 1)):
            with open(os.path.join(images, name), "wb") as file:
                file.write(bytes(size))
        counted = cache("stats", "--json", folder=folder)
        assert counted["images"]["files"] == 2 and counted["images"]["bytes"] == 3500, counted
        assert counted["bytes"] == stats["bytes"] and counted["total_bytes"] == stats["bytes"] + 3500, counted
        assert counted["total_budget_bytes"] == counted["default_budget_bytes"] + counted["images"]["default_budget_bytes"], counted
        assert cache("ls", "--json", folder=folder)["images"] == {"files": 2, "bytes": 3500}
        assert "2 encoded images (3.5 kB)" in cache("ls", folder=folder)
        assert "encoded images   2 of 3.5 kB" in cache("stats", folder=folder)
        os.unlink(os.path.join(images, "mine"))

        assert cache("verify", "--json", folder=folder)["good"] == stats["records"]
        files = {name: os.path.join(at, name) for at, _, names in os.walk(folder) for name in names}
        victim = next(path for name, path in sorted(files.items()) if name.endswith(".block"))
        with open(victim, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            last = file.read(1)
            file.seek(-1, os.SEEK_END)
            file.write(bytes([last[0] ^ 1]))
        bad = cache("verify", "--json", folder=folder, status=1)
        assert bad["damaged"] == 1 and bad["removed"] == 0 and victim in bad["problems"][0], bad
        assert "1 damaged" in cache("verify", "--delete", folder=folder, status=1) and not os.path.exists(victim)
        cache("verify", folder=folder)

        refused("--yes", "cache", "clear", "--cache-dir", folder, stdin="y\n")  # a pipe is no one to ask
        refused("hexadecimal", "cache", "clear", "--yes", "--fingerprint", "../x", "--cache-dir", folder)
        assert cache("clear", "--yes", "--older-than", "1", "--json", folder=folder)["removed"] == 0
        precise = listed[0]["fingerprint"]
        assert cache("clear", "--yes", "--fingerprint", precise[:12], "--json", folder=folder)["removed"] > 0
        assert [f["fingerprint"] for f in cache("ls", "--json", folder=folder)["fingerprints"]] == \
            [listed[1]["fingerprint"]]
        assert cache("clear", "--yes", "--json", folder=folder)["removed_images"] == {"files": 2, "bytes": 3500}
        assert os.listdir(folder) == []
        os.mkdir(images)
        open(os.path.join(images, "a.image"), "w").close()
        refused("--yes", "cache", "clear", "--cache-dir", folder, stdin="y\n")  # also of images alone
        cache("clear", "--yes", folder=folder)
        refused("cannot list", "cache", "ls", "--cache-dir", __file__)
        if os.geteuid() != 0:
            os.chmod(folder, 0)
            for command in ("ls", "stats", "verify", "clear"):
                refused("cannot list", "cache", command, "--cache-dir", folder)
            os.chmod(folder, 0o700)
    refused("", "cache")


def test_cache_is_cleared_under_a_server(serve, tmp_path):
    server = serve("--cache-dir", tmp_path, "--cache-disk-worth", "0", "--cache-ram", "1B")
    ask = {"prompt": "Tell me of the sea. " * 60, "max_tokens": 4, "temperature": 0}

    def answer():
        got = server.ask("/v1/completions", ask)
        return got["choices"][0]["text"], got["usage"]["prompt_tokens_details"]["cached_tokens"]

    def health():
        return server.health()["cache"]

    def wait_for_records():
        wait_for(lambda: cache("stats", "--json", folder=tmp_path)["points"] >= 2, "records are written", pause=0.1)

    cold, cached = answer()
    assert cached == 0 and health()["misses"]["nothing_alike"] == 1
    wait_for_records()
    again, cached = answer()
    got = health()
    assert again == cold and cached > 200 and got["disk_tokens"] == got["cached_tokens"] == cached, got
    cache("verify", folder=tmp_path)
    cache("clear", "--yes", folder=tmp_path)
    assert answer()[0] == cold
    got = health()
    assert got["misses"]["lost"] == 1 and got["lost_tokens"] > 0 and "cannot be read" in got["last_miss"], got
    wait_for_records()
    again, cached = answer()
    assert again == cold and cached > 200
    assert cache("ls", "--json", folder=tmp_path)["fingerprints"][0]["model"] == os.path.basename(paths.MODEL)
    server.stop(signal.SIGINT)
    assert "tokens were cached, " in server.log and "no cached prompt begins like it" not in server.log, server.log
