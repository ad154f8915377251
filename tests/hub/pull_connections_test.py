"""`pull` over connections that break, trickle or end, and from servers that send something else than they should."""

import json
import os
import subprocess
import tempfile
import time

from harness.waiting import wait_for
from hub_setup import NAME, SHARD, always, content, first, setup
from test_hub import Repo


# ---- connections

def test_too_many_requests():
    for kind, path in (("api", NAME), ("resolve", SHARD), ("cdn", SHARD)):
        wait = {"status": 429, "headers": {"Retry-After": "1"}, "body": b"{}"}
        with setup(faults=first(kind, path, wait, wait)) as (cache, hub, repo):
            started = time.monotonic()
            code, out, err = cache.run("pull", NAME)
            assert code == 0 and "asks to wait 1 s" in out, (out, err)
            assert time.monotonic() - started >= 2
            cache.check_model(repo)
    long = {"status": 429, "headers": {"Retry-After": "7200"}, "body": b"{}"}
    with setup(faults=always("resolve", SHARD, long)) as (cache, hub, repo):
        cache.refused("allows no more requests", "try again in 7200 s")
        assert len(hub.requests("resolve", SHARD)) == 1


def test_failures_that_pass():
    for kind, path in (("api", NAME), ("resolve", SHARD), ("cdn", SHARD)):
        with setup(faults=first(kind, path, {"status": 503, "body": b"no"}, {"status": 500}, {"status": 504})) as (cache, _, repo):
            cache.pull()
            cache.check_model(repo)


def test_failures_that_stay():
    with setup(faults=always("cdn", SHARD, {"status": 503})) as (cache, hub, repo):
        cache.refused("HTTP 503", SHARD)
        assert len(hub.requests("cdn", SHARD)) == 6
        hub.faults = lambda *_: None
        cache.pull()
        cache.check_model(repo)


def test_dropped_connections_are_resumed():
    drop = {"truncate": 50_000}
    with setup(faults=first("cdn", SHARD, drop, drop, {"truncate": 0}, drop)) as (cache, hub, repo):
        cache.pull()
        cache.check_model(repo)
        starts = [r[0] if r else 0 for _, _, r, _ in hub.requests("cdn", SHARD)]
        assert starts == [0, 50_000, 100_000, 100_000, 150_000], starts


def test_a_connection_that_drops_for_ever():
    with setup(faults=always("cdn", SHARD, {"truncate": 0})) as (cache, hub, repo):
        cache.refused("broke again and again", SHARD)
        assert not [b for b in cache.blobs() if b == repo.etag(SHARD)]


def test_an_outage_of_some_seconds():
    with setup(bytes_per_second=150_000) as (cache, hub, repo):
        process = cache.start("pull", NAME)
        wait_for(lambda: any(size > 10_000 for size in cache.partial_sizes().values()), "the download begins")
        hub.outage(6)  # longer than the first tries together
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0 and b"trying again in" in out, (out, err)
        cache.check_model(repo)


def test_an_address_that_expires():
    def faults(kind, path, number, start):
        if (kind, path) == ("cdn", "model.safetensors") and number in (2, 3, 4):
            return {"status": 403, "body": b"<Error>Request has expired</Error>"}
    files = {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": content(60 << 20, 1)}
    with setup(Repo(files), faults=faults) as (cache, hub, repo):
        cache.pull()
        cache.check_model(repo, files)
        assert len(hub.requests("resolve", "model.safetensors")) >= 2


def test_a_slow_link_and_a_stalled_one():
    files = {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": content(120_000, 1)}
    with setup(Repo(files), bytes_per_second=30_000) as (cache, hub, repo):
        cache.pull(HF_HUB_DOWNLOAD_TIMEOUT="3")
        cache.check_model(repo, files)
        assert len(hub.requests("cdn")) == 1
    with setup(faults=first("cdn", SHARD, {"stall": 30})) as (cache, hub, repo):
        cache.pull(HF_HUB_DOWNLOAD_TIMEOUT="3")
        cache.check_model(repo)
        assert [r and r[0] for _, _, r, _ in hub.requests("cdn", SHARD)] == [None, 150_000]


def test_a_server_without_ranges():
    files = {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": content(40 << 20, 1)}
    ignore = lambda kind, path, number, start: kind == "cdn" and {"ignore_range": True, "truncate": 1 << 20} if number == 1 else {
        "ignore_range": True}
    with setup(Repo(files), faults=ignore) as (cache, hub, repo):
        cache.pull()
        cache.check_model(repo, files)
        assert len(hub.requests("cdn")) == 3
    # And what an earlier download left is not put before a whole answer.
    with setup(faults=lambda *_: {"ignore_range": True}) as (cache, hub, repo):
        os.makedirs(cache.repo + "/blobs")
        with open(f"{cache.repo}/blobs/{repo.etag(SHARD)}.incomplete", "wb") as file:
            file.write(repo.files[SHARD][:1000])
        cache.pull()
        cache.check_model(repo)


def test_unreachable():
    with setup() as (cache, hub, repo):
        cache.refused("cannot reach http://127.0.0.1:9", "HF_ENDPOINT", HF_ENDPOINT="http://127.0.0.1:9")
        cache.refused("cannot reach https://hub.invalid", HF_ENDPOINT="https://hub.invalid")
        cache.refused("begins with https://", HF_ENDPOINT="ftp://hub")
        cache.refused("forbids the network", HF_HUB_OFFLINE="1")
        assert not hub.log


# ---- content that is not what it should be

def test_wrong_hash():
    flip = {"change": lambda c: bytes([c[0] ^ 1]) + c[1:]}
    for path in (SHARD, "tokenizer_config.json"):
        kind = "cdn" if path == SHARD else "resolve"
        with setup(faults=always(kind, path, flip)) as (cache, hub, repo):
            cache.refused("does not have the hash", path, repo.etag(path))
            assert repo.etag(path) not in cache.blobs() and not os.path.exists(f"{cache.repo}/snapshots/{repo.commit}/{path}")
            hub.faults = lambda *_: None
            cache.pull()
            cache.check_model(repo)


def test_a_damaged_beginning_is_fetched_again():
    with setup() as (cache, hub, repo):
        os.makedirs(cache.repo + "/blobs")
        with open(f"{cache.repo}/blobs/{repo.etag(SHARD)}.incomplete", "wb") as file:
            file.write(b"x" * 1000)
        code, out, err = cache.run("pull", NAME)
        assert code == 0 and "was damaged" in out, (out, err)
        cache.check_model(repo)
        # The same of one that is longer than the file, and of one with all bytes.
        for path in ("tokenizer.json", SHARD):
            for size in (len(repo.files[path]) + 1, len(repo.files[path])):
                blob = f"{cache.repo}/blobs/{repo.etag(path)}"
                os.unlink(blob)
                with open(blob + ".incomplete", "wb") as file:
                    file.write(b"x" * size)
                cache.pull()
                cache.check_model(repo)


def test_wrong_size():
    for change in (lambda c: c + b"x", lambda c: c[:-1]):
        with setup(faults=always("cdn", SHARD, {"change": change})) as (cache, hub, repo):
            cache.refused(SHARD, "bytes")
            assert repo.etag(SHARD) not in cache.blobs()


def test_a_blob_of_another_size_is_replaced():
    with setup() as (cache, hub, repo):
        cache.pull()
        with open(f"{cache.repo}/blobs/{repo.etag(SHARD)}", "ab") as file:
            file.write(b"x")
        cache.pull()
        cache.check_model(repo)


def test_bad_answers():
    def replace(**what):
        return lambda answer: {**answer, **what}

    def file(name, **more):
        return replace(siblings=[{"rfilename": name, "size": 5, "blobId": "a" * 40, **more}])
    for change, text in (
            (lambda _: b"<html>Sign in</html>", "cannot be used: JSON"), (lambda _: b"", "cannot be used"),
            (lambda _: b"[]", "not a JSON object"), (replace(sha="../../x"), "which is no commit"),
            (replace(siblings={}), "no list of files"), (replace(siblings=[1]), "is no path within a model"),
            (file("../evil.safetensors"), "'../evil.safetensors', which is no path"), (file("/etc/passwd"), "is no path"),
            (file("a/../../b"), "is no path"), (file("a\\..\\b"), "is no path"), (file("x" * 300), "is no path"),
            (file("a\nb"), "is no path"), (file("a", size=-1), "no size or no hash"), (file("a", blobId="../x"), "no size or no hash"),
            (file("a", lfs={"sha256": "A" * 64}), "no size or no hash"), (file("a", size=1 << 60), "bytes; at most"),
            (file("a", size="5"), "no size or no hash"),
            (lambda a: {**a, "siblings": a["siblings"] * 2}, "twice"),
            (replace(siblings=[{"rfilename": str(i), "size": 0, "blobId": "a" * 40} for i in range(20_001)]), "20001 files"),
            (lambda _: b"[" * 1000, "cannot be used"), (lambda a: json.dumps(a).encode() + b" " * (33 << 20), "too long")):
        with setup(faults=always("api", NAME, {"change": change})) as (cache, hub, repo):
            cache.refused(text)
            assert not os.path.exists(cache.store)


def test_redirects_that_are_refused():
    with setup() as (cache, hub, repo):
        for location in ("file:///etc/passwd", "ftp://127.0.0.1/x", "//"):
            hub.faults = always("resolve", SHARD, {"location": location})
            cache.refused("redirects (HTTP 302)" if location != "//" else "error")
        hub.faults = lambda kind, path, *_: path == SHARD and kind == "resolve" and {
            "location": f"{hub.url}/{NAME}/resolve/{repo.commit}/{SHARD}"} or None
        cache.refused("redirects in circles")
        hub.faults = lambda kind, *_: kind == "api" and {"location": f"{hub.url}/api/models/{NAME}/revision/main?blobs=true"} or None
        cache.refused("redirects in circles")


def test_https_is_not_left():
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = folder + "/c.pem", folder + "/k.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate], check=True,
                       stderr=subprocess.DEVNULL)
        with setup(tls=(certificate, key)) as (cache, hub, repo):
            cache.refused("is not trusted", "SSL_CERT_FILE")
            cache.refused("which is not encrypted: refused", f"redirects to {hub.cdn_url}", SSL_CERT_FILE=certificate)
            assert not hub.requests("cdn")
            hub.cdn_url = hub.url  # all over HTTPS
            hub.faults = lambda kind, path, *_: kind == "resolve" and path in repo.files and repo.in_lfs(path) and {
                "location": f"{hub.url}/api/resolve-cache/models/{NAME}/{repo.commit}/{path}"} or None


def test_a_link_that_trickles():
    """Bytes that come one by one are no progress: the pull ends, and what came is kept."""
    for kind, path in (("cdn", SHARD), ("api", NAME)):
        with setup(faults=always(kind, path, {"drip": 0.05})) as (cache, hub, repo):
            began = time.monotonic()
            cache.refused("bytes a second" if kind == "cdn" else "", HF_HUB_DOWNLOAD_TIMEOUT="1")
            assert time.monotonic() - began < 120, kind  # the whole shard would take hours
            hub.faults = lambda *_: None
            cache.pull()
            cache.check_model(repo)
    with setup(faults=always("cdn", SHARD, {"truncate": 1})) as (cache, hub, repo):
        cache.refused("broke again and again", SHARD)
        assert len(hub.requests("cdn", SHARD)) < 20
