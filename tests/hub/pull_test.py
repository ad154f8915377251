"""`pull` against a hub on this machine (test_hub.py), one test per thing that can go wrong."""

import contextlib
import json
import os
import pty
import random
import shutil
import signal
import subprocess
import sys
import time

from harness import paths
from harness.waiting import stays, wait_for
from hub_setup import NAME, NEEDED, SHARD, TOKEN, always, content, python_hub, setup, small_repo
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
        process = subprocess.Popen([paths.PROGRAM, "pull", NAME], stdin=other, stdout=other, stderr=other, env=cache.environment())
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


def test_files_that_are_the_same_come_once():
    repo = small_repo()
    repo = Repo({**repo.files, "model-00002-of-00002.safetensors": repo.files[SHARD]})
    with setup(repo) as (cache, hub, repo):
        done = cache.pull()
        assert done["bytes"] - done["downloaded"] == len(repo.files[SHARD]), done
        cache.check_model(repo)


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
        wait_for(lambda: any(size > 30_000 for size in cache.partial_sizes().values()), "the download is under way")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
        assert process.returncode == 130 and b"goes on from here" in err, (process.returncode, err)
        cache.check()
        kept = cache.partial_sizes()
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
                time.sleep(rng.uniform(0, 0.15))  # it is killed at any moment
                process.kill()
                process.communicate()
                cache.check()
            cache.pull()
            cache.check_model(repo)


def test_two_processes_share_the_work():
    with setup(bytes_per_second=400_000) as (cache, hub, repo):
        processes = [cache.start("pull", NAME) for _ in range(3)]
        outputs = [p.communicate(timeout=300) for p in processes]
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
        stays(lambda: process.poll() is None and not hub.requests("cdn", SHARD), "it waits for the other process")
        holder.communicate(b"\n")
        assert process.wait(timeout=300) == 0
        process.stdout.close()
        process.stderr.close()
        cache.check_model(repo)
