#!/usr/bin/env python3
"""`pull` against a hub on this machine (test_hub.py), one test per thing that can go wrong: pull_test.py BINARY MODEL_DIR.
The last line is "N passed, N failed"."""
import contextlib, json, os, pty, random, shutil, signal, subprocess, sys, tempfile, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from hub_setup import BINARY, NAME, NEEDED, SHARD, TOKEN, always, content, first, main, python_hub, setup, small_repo
from test_hub import Repo


# ---- what works

def test_a_model_is_stored_as_huggingface_stores_it():
    with setup() as (cache, hub, repo):
        done = cache.pull()
        cache.check_model(repo)
        assert done["path"] == os.path.join(cache.repo, "snapshots", repo.commit) and done["commit"] == repo.commit
        assert done["files"] == len(NEEDED) and done["bytes"] == done["downloaded"] == sum(len(repo.files[f]) for f in NEEDED)
        assert {path for _, path, *_ in hub.requests("cdn")} <= NEEDED  # nothing that is not needed
        before = len(hub.requests("cdn")) + len(hub.requests("resolve"))
        again = cache.pull()
        assert again["path"] == done["path"] and again["downloaded"] == 0
        assert len(hub.requests("cdn")) + len(hub.requests("resolve")) == before
        assert not cache.blobs(partial=True)


def test_a_new_commit_shares_what_has_not_changed():
    with setup() as (cache, hub, repo):
        cache.pull()
        newer = Repo({**repo.files, "config.json": b'{"model_type": "qwen3_5", "x": 1}'})
        hub.repos[NAME] = newer
        before = len(hub.requests("cdn"))
        assert cache.pull()["downloaded"] == len(newer.files["config.json"])
        assert len(hub.requests("cdn")) == before
        cache.check_model(newer)
        assert sorted(os.listdir(os.path.join(cache.repo, "snapshots"))) == sorted([repo.commit, newer.commit])


def test_large_files_come_in_ranges_side_by_side():
    files = {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": content(70 << 20, 1),
             "mtp.safetensors": content(20 << 20, 2)}
    with setup(Repo(files), bytes_per_second=30 << 20) as (cache, hub, repo):
        cache.pull()
        cache.check_model(repo, files)
        starts = {r[0] for _, path, r, _ in hub.requests("cdn", "model.safetensors") if r}
        assert {0, 16 << 20, 32 << 20, 48 << 20, 64 << 20} <= starts, starts
        assert hub.most_busy > 2, hub.most_busy
        # The redirect of the hub counts against its limits: it is asked for once, not for each range.
        assert len(hub.requests("resolve", "model.safetensors")) == 1


def test_one_quantisation_of_a_gguf_repository():
    files = {f"Model-{q}.gguf": content(5000, q) for q in ("Q4_0", "Q4_K_M", "Q8_0", "UD-Q2_K_XL")}
    files.update({f"BF16/Model-BF16-0000{i}-of-00002.gguf": content(3000, i) for i in (1, 2)})
    files.update({"README.md": b"#", "config.json": b"{}"})
    with setup(Repo(files)) as (cache, hub, repo):
        assert cache.pull()["path"].endswith("/Model-Q4_K_M.gguf")  # the usual one
        cache.check_model(repo, ["Model-Q4_K_M.gguf"])
        assert cache.pull(NAME + ":q8_0")["path"].endswith("/Model-Q8_0.gguf")
        cache.check_model(repo, ["Model-Q4_K_M.gguf", "Model-Q8_0.gguf"])
        assert cache.pull(NAME + ":Q2_K_XL")["files"] == 1
        assert cache.pull(NAME + "/Model-Q4_0.gguf")["files"] == 1
        done = cache.pull(NAME + ":BF16")
        assert done["files"] == 2 and done["path"].endswith("/BF16/Model-BF16-00001-of-00002.gguf")
        cache.check_model(repo, [f for f in files if f.startswith(("Model", "BF16"))])
        cache.refused("no Q5_K_M; it has ", "Q4_K_M", "BF16", name=NAME + ":Q5_K_M")
        cache.refused("did you mean Model-Q4_0.gguf?", name=NAME + "/Model-Q4_9.gguf")


def test_the_vision_tower_of_a_gguf_repository():
    towers = {f"mmproj-{kind}.gguf": content(2000, i) for i, kind in enumerate(("BF16", "F16", "F32"))}
    files = {"Model-Q4_K_M.gguf": content(5000, 7), "BF16/Model-BF16.gguf": content(6000, 8), **towers}
    with setup(Repo(files)) as (cache, hub, repo):
        done = cache.pull()
        assert done["files"] == 2 and done["bytes"] == 7000 and done["path"].endswith("/Model-Q4_K_M.gguf"), done
        cache.check_model(repo, ["Model-Q4_K_M.gguf", "mmproj-F16.gguf"])
        # The model of a folder has the same tower, which is there already.
        done = cache.pull(NAME + ":BF16")
        assert done["files"] == 2 and done["downloaded"] == 6000 and done["path"].endswith("/BF16/Model-BF16.gguf"), done
        cache.check_model(repo, ["Model-Q4_K_M.gguf", "BF16/Model-BF16.gguf", "mmproj-F16.gguf"])
        cache.refused("no model itself", name=NAME + "/mmproj-F32.gguf")
        cache.refused("no F16; it has BF16, Q4_K_M", name=NAME + ":F16")
        # A model that was pulled without its tower gets it from the next pull.
        os.unlink(f"{cache.repo}/snapshots/{repo.commit}/mmproj-F16.gguf")
        cache.pull()
        cache.check_model(repo, ["Model-Q4_K_M.gguf", "BF16/Model-BF16.gguf", "mmproj-F16.gguf"])


def test_revisions():
    with setup() as (cache, hub, repo):
        assert cache.pull(NAME + "@" + repo.commit)["commit"] == repo.commit
        assert not os.path.exists(os.path.join(cache.repo, "refs"))
        cache.pull(NAME + "@refs/pr/1")
        with open(os.path.join(cache.repo, "refs/refs/pr/1")) as file:
            assert file.read() == repo.commit
        code, _, err = cache.run("pull", NAME, "--revision", "refs/pr/1")
        assert code == 0, err
        cache.refused("has no revision v9", name=NAME + "@v9")
        code, _, err = cache.run("pull", NAME, "--revision", "../x")
        assert code == 1 and "--revision" in err, err


def test_the_token_goes_to_the_hub_only():
    with setup(small_repo(private=True), token=TOKEN) as (cache, hub, repo):
        cache.refused("has no model", "or it is private", "HF_TOKEN")
        cache.refused("with your token", "HF_TOKEN", HF_TOKEN="hf_wrong")
        cache.pull(HF_TOKEN=TOKEN)
        cache.check_model(repo)
        assert all(token for _, _, _, token in hub.requests("resolve"))
        assert hub.requests("cdn") and not any(token for _, _, _, token in hub.requests("cdn"))


def test_the_token_is_read_from_its_file():
    with setup(small_repo(private=True), token=TOKEN) as (cache, hub, repo):
        with open(os.path.join(cache.home, "token"), "w") as file:
            file.write(TOKEN + "\n")
        cache.pull()
        other = os.path.join(cache.home, "elsewhere")
        os.rename(os.path.join(cache.home, "token"), other)
        cache.refused("private")
        cache.pull(HF_TOKEN_PATH=other)
        cache.refused("characters that no token has", HF_TOKEN="hf_a\x07b")


def test_the_store_follows_the_environment():
    with setup() as (cache, hub, repo):
        for more, where in (({"HF_HUB_CACHE": cache.home + "/a"}, "/a"), ({"HF_HOME": cache.home + "/b"}, "/b/hub"),
                            ({"HF_HOME": "", "XDG_CACHE_HOME": cache.home + "/c"}, "/c/huggingface/hub"),
                            ({"HF_HOME": "", "XDG_CACHE_HOME": ""}, "/.cache/huggingface/hub"),
                            ({"HF_HUB_CACHE": "~/d"}, "/d")):
            assert cache.pull(**more)["path"].startswith(cache.home + where + "/models--org--"), more


def test_progress_is_json_lines_or_a_bar():
    files = {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": content(3_000_000, 1)}
    with setup(Repo(files), bytes_per_second=1_500_000) as (cache, hub, repo):
        code, out, err = cache.run("pull", NAME)
        events = [json.loads(line) for line in out.splitlines()]
        middle = [e for e in events if e["event"] == "progress" and 0 < e["done"] < e["total"]]
        assert code == 0 and not err and middle and events[-1]["event"] == "done", (out, err)
        assert any(e["bytes_per_second"] > 100_000 and "seconds_left" in e for e in middle if "bytes_per_second" in e), out
        shutil.rmtree(cache.store)
        terminal, other = pty.openpty()
        process = subprocess.Popen([BINARY, "pull", NAME], stdin=other, stdout=other, stderr=other, env=cache.environment())
        os.close(other)
        text = b""
        with contextlib.suppress(OSError):  # when the program ends
            while chunk := os.read(terminal, 4096):
                text += chunk
        assert process.wait() == 0, text
        os.close(terminal)
        assert b"] " in text and b" of 3.0 MB" in text and b"/s" in text and b" left" in text, text
        assert repo.commit.encode() in text.splitlines()[-1], text


def test_names_that_are_none():
    with setup() as (cache, hub, repo):
        for name in ("model", "org/", "/org/name", "../org/name", "org/na me", "org/name:", "org/name:Q4/x", "org/name@", "a/b/c",
                     "org/name/../x.gguf", "org/name@../../x", "org/n--m", "org/..", ".org/x", "http://x/org/name"):
            cache.refused("is no model's name", "ORG/NAME", name=name)
        assert not hub.log
        for name in ("hf.co/" + NAME, "https://huggingface.co/" + NAME):
            cache.pull(name)


# ---- what the hub refuses

def test_gated():
    with setup(small_repo(gated=True), token=TOKEN) as (cache, hub, repo):
        cache.refused("is gated", f"{hub.url}/{NAME}", "HF_TOKEN")
        cache.refused("is gated", "has no access", f"{hub.url}/{NAME}", HF_TOKEN="hf_other")
        assert not cache.blobs()
        cache.pull(HF_TOKEN=TOKEN)
        cache.check_model(repo)


def test_missing_with_the_nearest_name():
    repos = {NAME: small_repo(), "org/other": small_repo(), "people/Llama-3.2-1B": small_repo()}
    with setup(repos=repos, token=TOKEN) as (cache, hub, _):
        for token in ("", TOKEN):
            cache.refused("has no model org/modle-4bit", name="org/modle-4bit", HF_TOKEN=token)
        cache.refused("did you mean org/model-4bit?", name="org/modle-4bit", HF_TOKEN=TOKEN)
        cache.refused("did you mean people/Llama-3.2-1B?", name="wrong/Llama-3.2-1B", HF_TOKEN=TOKEN)
        assert not os.path.exists(cache.store)


def test_moved():
    with setup(name="org/new-name") as (cache, hub, repo):
        hub.moved[NAME] = "org/new-name"
        code, out, err = cache.run("pull", NAME)
        assert code == 0, err
        notes = [json.loads(line)["text"] for line in out.splitlines() if '"note"' in line]
        assert notes == ["org/model-4bit is called org/new-name now: use that name"], out
        cache.check_model(repo)


def test_repositories_without_a_model():
    for files, text in (({"pytorch_model.bin": b"x"}, "pytorch_model.bin, which cannot be read"),
                        ({"README.md": b"x"}, "is no language model"),
                        ({"model.safetensors": b"x" * 2000}, "has no config.json"),
                        ({"model.safetensors": b"x" * 2000, "config.json": b"{}"}, "has no tokenizer.json"),
                        ({"a-00001-of-00003-.gguf": b"x", "b-Q4_0-00001-of-00003.gguf": b"x"}, "only 1 of 3 parts")):
        with setup(Repo(files)) as (cache, hub, repo):
            cache.refused(text, name=NAME + (":Q4_0" if "parts" in text else ""))
            assert not cache.blobs() and not hub.requests("cdn")


def test_an_index_that_lies():
    for index, text in ((b'{"weight_map": {"a": "model-9.safetensors"}}', "lacks model-9.safetensors"),
                        (b'{"weight_map": {"a": "../../../model.safetensors"}}', "no .safetensors file beside it"),
                        (b'{"weight_map": {"a": 1}}', "no index"), (b"[", "no index"), (b"", "no index")):
        repo = small_repo()
        repo.files["model.safetensors.index.json"] = index
        with setup(repo) as (cache, hub, repo):
            cache.refused(text)
            assert not hub.requests("cdn") and not os.path.exists(os.path.join(cache.repo, "snapshots", repo.commit))


# ---- connections

def test_too_many_requests():
    for kind, path in (("api", NAME), ("resolve", SHARD), ("cdn", SHARD)):
        wait = {"status": 429, "headers": {"Retry-After": "1"}, "body": b"{}"}
        with setup(faults=first(kind, path, wait, wait)) as (cache, hub, repo):
            started = time.time()
            code, out, err = cache.run("pull", NAME)
            assert code == 0 and "asks to wait 1 s" in out, (out, err)
            assert time.time() - started >= 2
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
        while not hub.requests("cdn", SHARD):
            time.sleep(0.02)
        time.sleep(0.5)
        hub.outage(6)  # longer than the first tries together
        out, err = process.communicate(timeout=60)
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
    with setup(Repo(files), bytes_per_second=60_000) as (cache, hub, repo):
        cache.pull(HF_HUB_DOWNLOAD_TIMEOUT="1")
        cache.check_model(repo, files)
        assert len(hub.requests("cdn")) == 1
    with setup(faults=first("cdn", SHARD, {"stall": 30})) as (cache, hub, repo):
        cache.pull(HF_HUB_DOWNLOAD_TIMEOUT="1")
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
            began = time.time()
            cache.refused("bytes a second" if kind == "cdn" else "", HF_HUB_DOWNLOAD_TIMEOUT="1")
            assert time.time() - began < 30, kind
            hub.faults = lambda *_: None
            cache.pull()
            cache.check_model(repo)
    with setup(faults=always("cdn", SHARD, {"truncate": 1})) as (cache, hub, repo):
        cache.refused("broke again and again", SHARD)
        assert len(hub.requests("cdn", SHARD)) < 20


# ---- disk, other processes, ends

def test_files_before_the_weights_have_limits():
    for path, text in (("model.safetensors.index.json", "it is not downloaded"), ("tokenizer.json", "on the disk")):
        huge = lambda a: {**a, "siblings": [{**s, "size": 1 << 42} if s["rfilename"] == path else s for s in a["siblings"]]}
        with setup(faults=always("api", NAME, {"change": huge})) as (cache, hub, repo):
            cache.refused(text)
            assert not hub.requests("cdn") and not hub.requests("resolve", path), path


def test_a_disk_that_is_too_small():
    huge = lambda a: {**a, "siblings": [{**s, "size": 1 << 42} if s["rfilename"] == SHARD else s for s in a["siblings"]]}
    with setup(faults=always("api", NAME, {"change": huge})) as (cache, hub, repo):
        cache.refused("needs 4398.0 GB on the disk", "are free", "HF_HUB_CACHE")
        assert not hub.requests("cdn")


def test_a_disk_that_becomes_full():
    with setup() as (cache, hub, repo):
        limit = ("sh", "-c", 'trap "" XFSZ; ulimit -f 200; exec "$@"', "sh")  # 100 KiB or 200 KiB a file, by shell
        cache.refused("Free some space", ".incomplete at byte", prefix=limit)
        assert repo.etag(SHARD) not in cache.blobs() and repo.etag(SHARD) + ".incomplete" in cache.blobs(partial=True)
        cache.pull()
        cache.check_model(repo)


def test_directories_that_cannot_be_written():
    with setup() as (cache, hub, repo):
        with open(cache.store, "w"):
            pass
        cache.refused("cannot make the directory")
    # Nothing is written through links that lead out of the store.
    repo = Repo({"a/Model-Q4_0.gguf": content(2000, 1)})
    with setup(repo) as (cache, hub, repo):
        snapshot, outside = f"{cache.repo}/snapshots/{repo.commit}", cache.home + "/outside"
        os.makedirs(snapshot)
        os.mkdir(outside)
        os.symlink(outside, snapshot + "/a")
        cache.refused("it is no directory", name=NAME + ":Q4_0")
        assert not os.listdir(outside)
        os.unlink(snapshot + "/a")
        with open(cache.home + "/precious", "w") as file:
            file.write("precious")
        blob = f"{cache.repo}/blobs/{repo.etag('a/Model-Q4_0.gguf')}"
        os.unlink(blob)
        os.symlink(cache.home + "/precious", blob + ".incomplete")
        cache.refused("cannot write", name=NAME + ":Q4_0")
        assert open(cache.home + "/precious").read() == "precious"


def test_control_c_keeps_what_came():
    with setup(bytes_per_second=100_000) as (cache, hub, repo):
        process = cache.start("pull", NAME)
        deadline = time.time() + 30
        while not any(os.path.getsize(f"{cache.repo}/blobs/{b}") > 30_000 for b in cache.blobs(partial=True)):
            assert time.time() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=10)
        assert process.returncode == 130 and b"goes on from here" in err, (process.returncode, err)
        cache.check()
        kept = {b: os.path.getsize(f"{cache.repo}/blobs/{b}") for b in cache.blobs(partial=True)}
        assert kept
        hub.rate, hub.log = None, []
        cache.pull()
        cache.check_model(repo)
        for path in repo.files:
            if (size := kept.get(repo.etag(path) + ".incomplete", 0)) > 0:
                assert [r[0] for _, _, r, _ in hub.requests("cdn", path)] == [size]


def test_fifty_kills():
    """Killed at random times, then resumed: never a wrong or partial file under its final name."""
    rng = random.Random(7)
    for round in range(5):
        repo = small_repo()
        repo.files[SHARD] = content(2_000_000, round)
        repo.files["model-00002-of-00002.safetensors"] = content(1_000_000, 100 + round)
        with setup(repo, bytes_per_second=4_000_000) as (cache, hub, repo):
            for _ in range(10):
                process = cache.start("pull", NAME)
                time.sleep(rng.uniform(0, 0.15))
                process.kill()
                process.communicate()
                cache.check()
            cache.pull()
            cache.check_model(repo)


def test_two_processes_share_the_work():
    with setup(bytes_per_second=400_000) as (cache, hub, repo):
        processes = [cache.start("pull", NAME) for _ in range(3)]
        outputs = [p.communicate(timeout=60) for p in processes]
        assert [p.returncode for p in processes] == [0, 0, 0], outputs
        cache.check_model(repo)
        assert len(hub.requests("cdn", SHARD)) == 1, hub.requests("cdn", SHARD)
        assert any(b"another process downloads" in out for out, _ in outputs), outputs


# ---- huggingface_hub

def test_huggingface_hub_reads_what_was_pulled():
    with setup() as (cache, hub, repo):
        done = cache.pull()
        requests = len(hub.log)
        assert python_hub(cache, f"print(json.dumps(snapshot_download('{NAME}', local_files_only=True)))") == done["path"]
        path = python_hub(cache, f"print(json.dumps(hf_hub_download('{NAME}', 'config.json', local_files_only=True)))")
        assert path == done["path"] + "/config.json" and len(hub.log) == requests
        scan = python_hub(cache, """
info = scan_cache_dir()
repo, = info.repos
revision, = repo.revisions
print(json.dumps([repo.repo_id, repo.size_on_disk, revision.commit_hash, sorted(revision.refs),
                  sorted(f.file_name for f in revision.files), [str(w) for w in info.warnings]]))""")
        assert scan == [NAME, done["bytes"], repo.commit, ["main"], sorted(NEEDED), []], scan
        # It downloads only what is missing.
        path = python_hub(cache, f"print(json.dumps(snapshot_download('{NAME}', allow_patterns=['*.json', '*.safetensors', '*.md'],"
                                 "ignore_patterns=['consolidated*', 'onnx/*'])))")
        assert path == done["path"] and os.path.exists(path + "/README.md")
        assert len(hub.requests("cdn", SHARD)) <= 1


def test_what_huggingface_hub_stored_is_used():
    with setup() as (cache, hub, repo):
        path = python_hub(cache, f"print(json.dumps(snapshot_download('{NAME}')))")
        before = len(hub.requests("cdn"))
        done = cache.pull()
        assert done["path"] == path and done["downloaded"] == 0 and len(hub.requests("cdn")) == before
        cache.check_model(repo, repo.files)


def test_huggingface_hub_and_pull_lock_each_other_out():
    with setup() as (cache, hub, repo):
        lock = f"{cache.store}/.locks/models--{NAME.replace('/', '--')}/{repo.etag(SHARD)}.lock"
        os.makedirs(os.path.dirname(lock))
        holder = subprocess.Popen([sys.executable, "-c", f"""
import sys
from filelock import FileLock
with FileLock({lock!r}):
    print("locked", flush=True)
    sys.stdin.readline()"""], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert holder.stdout.readline() == b"locked\n"
        process = cache.start("pull", NAME)
        for line in process.stdout:
            if b"another process downloads" in line:
                break
        time.sleep(0.3)
        assert process.poll() is None and not hub.requests("cdn", SHARD)
        holder.communicate(b"\n")
        assert process.wait(timeout=30) == 0
        process.stdout.close()
        process.stderr.close()
        cache.check_model(repo)


if __name__ == "__main__":
    sys.exit(main(globals()))
