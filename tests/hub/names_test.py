"""Models by name wherever a path is accepted, against a hub on this machine."""

import json
import os
import shutil
import signal
import subprocess
import urllib.request

from harness import paths
from harness.waiting import wait_for
from hub_setup import NAME, setup
from test_hub import Repo

SMALL = paths.DRAFT
QUESTION = ("--temp", "0", "-n", "4", "--thinking", "off", "--json", "Hello")


def repo_of(folder, without=()):
    files = {}
    for name in set(os.listdir(folder)) - set(without):
        with open(os.path.join(folder, name), "rb") as file:
            files[name] = file.read()
    return Repo(files)


def tokens(cache, *args, **more):
    code, out, err = cache.run("generate", *args, "--no-cache", *QUESTION, **more)
    assert code == 0, err
    return json.loads(out.splitlines()[-1])["token_ids"], err


def test_a_model_that_is_not_stored_is_pulled():
    with setup(repo_of(SMALL)) as (cache, hub, repo):
        expected, _ = tokens(cache, "-m", SMALL)
        assert not hub.log
        code, _, err = cache.run("generate", "-m", NAME, "--offline", *QUESTION)
        assert code == 1 and "is not in " + cache.store in err and "--offline" in err and not hub.log, err
        found, err = tokens(cache, "-m", NAME)
        assert found == expected
        progress = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
        assert progress and all(p["event"] == "progress" and p["model"] == NAME for p in progress), err
        # From now on the hub is not asked.
        asked = len(hub.log)
        for more in ({}, {"HF_HUB_OFFLINE": "1"}, {"HF_ENDPOINT": "http://127.0.0.1:9"}):
            found, err = tokens(cache, "-m", NAME, **more)
            assert found == expected and "{" not in err
        assert len(hub.log) == asked
        # A snapshot that lacks a file is completed.
        os.unlink(f"{cache.repo}/snapshots/{repo.commit}/tokenizer.json")
        code, _, err = cache.run("generate", "-m", NAME, "--offline", *QUESTION)
        assert code == 1 and "tokenizer.json" in err, err
        assert tokens(cache, "-m", NAME)[0] == expected


def test_draft_models_and_bench():
    with setup(repo_of(SMALL)) as (cache, hub, repo):
        code, _, err = cache.run("generate", "-m", paths.MODEL, "--draft", NAME, "--spec", "draft", "--no-cache", *QUESTION)
        assert code == 0, err
        code, out, err = cache.run("bench", "-m", NAME, "--pp", "4", "--tg", "2", "--reps", "1", "--json", "--offline")
        assert code == 0 and json.loads(out)["model"] == NAME, (out, err)
        code, out, err = cache.run("doctor", "-m", NAME, "--json")
        assert code == 0 and json.loads(out)["model"]["problems"] == [], (out, err)


def test_doctor_downloads_nothing():
    with setup(repo_of(SMALL)) as (cache, hub, repo):
        code, _, err = cache.run("doctor", "-m", NAME)
        assert code == 1 and f"`anabranch pull {NAME}` downloads it" in err and not hub.log, err


def test_serve_uses_the_name():
    with setup(repo_of(SMALL)) as (cache, hub, repo):
        process = cache.start("serve", "-m", NAME, "-p", "0", "--no-cache")
        try:
            line = process.stdout.readline().decode()
            assert line.startswith(NAME + " on http://"), (line, process.stderr.read1())
            with urllib.request.urlopen(line.split(" on ")[1].strip() + "/models") as answer:
                assert [m["id"] for m in json.load(answer)["data"]] == [NAME]
        finally:
            process.terminate()
            process.communicate(timeout=300)


def test_requests_name_stored_models():
    """Each spelling means the same model; names of others, and paths, load nothing."""
    with setup(repo_of(SMALL)) as (cache, hub, repo):
        cache.pull()
        process = cache.start("serve", "-p", "0", "--no-cache")
        try:
            base = process.stdout.readline().decode().rsplit(" on ", 1)[1].strip()

            def ask(model):
                body = json.dumps({"model": model, "prompt": "A", "max_tokens": 1}).encode()
                request = urllib.request.Request(base + "/completions", body, {"Content-Type": "application/json"})
                with urllib.request.urlopen(request) as answer:
                    return json.load(answer)["model"]

            assert {ask(name) for name in (NAME, "hf.co/" + NAME, "https://huggingface.co/" + NAME, NAME + "@main")} == {NAME}
            for name in ("other/model", SMALL, "../" + NAME, "x" * 100_000):
                assert ask(name) == NAME  # the model that was used last
            with urllib.request.urlopen(base.replace("/v1", "/health")) as answer:
                assert [m["id"] for m in json.load(answer)["models"]] == [NAME]
        finally:
            process.terminate()
            process.communicate(timeout=300)


def test_an_existing_path_wins():
    with setup(repo_of(SMALL)) as (cache, hub, repo):
        os.makedirs(os.path.join(cache.home, "org"))
        os.symlink(SMALL, os.path.join(cache.home, NAME))
        done = subprocess.run([paths.PROGRAM, "generate", "-m", NAME, "--no-cache", *QUESTION], cwd=cache.home, env=cache.environment(),
                              capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 0 and not hub.log, done.stderr
        done = subprocess.run([paths.PROGRAM, "generate", "-m", NAME + "x", *QUESTION], cwd=cache.home, env=cache.environment(),
                              capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 1 and "there is no model-4bitx in org" in done.stderr and "did you mean model-4bit?" in done.stderr, done.stderr


def test_a_stored_model_beside_a_folder_of_the_same_name():
    with setup(repo_of(SMALL)) as (cache, hub, repo):
        ask = lambda name: subprocess.run([paths.PROGRAM, "generate", "-m", name, "--no-cache", *QUESTION], cwd=cache.home,
                                          env=cache.environment(), capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert ask(NAME).returncode == 0  # pulled
        os.makedirs(os.path.join(cache.home, "org"))
        hub.log.clear()
        for name in (NAME, NAME.upper(), NAME.split("/")[1]):
            done = ask(name)
            assert done.returncode == 0 and not hub.log, (name, done.stderr)


def test_control_c_during_the_download():
    for command in (("serve", "-m", NAME, "-p", "0"), ("bench", "-m", NAME), ("chat", "-m", NAME)):
        with setup(repo_of(SMALL), bytes_per_second=200_000) as (cache, hub, repo):
            process = cache.start(*command)
            wait_for(lambda: cache.blobs(partial=True), "the download begins")
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=300)
            assert process.returncode == -signal.SIGINT and b"goes on from here" in err, (process.returncode, err)
            cache.check()


def test_chat_changes_to_a_name():
    with setup(repo_of(SMALL)) as (cache, hub, repo):
        process = subprocess.run([paths.PROGRAM, "chat", "-m", paths.MODEL, "--no-cache"], input=f"/model nobody/has-this\n/model {NAME}\n",
                                 env=cache.environment(), capture_output=True, text=True, timeout=300)
        assert process.returncode == 0 and process.stdout.splitlines() == [NAME], process
        assert "nobody/has-this" in process.stderr, process.stderr


def test_convert_takes_names_and_only_the_head():
    with setup(repo_of(paths.MODEL)) as (cache, hub, repo):
        target = os.path.join(cache.home, "headless")
        shutil.copytree(paths.MODEL, target, ignore=shutil.ignore_patterns("mtp.safetensors"))
        code, out, err = cache.run("convert", target, "--mtp-from", NAME)
        assert code == 0, err
        assert {path for _, path, *_ in hub.requests("cdn")} == {"config.json", "mtp.safetensors", "model.safetensors.index.json"}
        assert os.path.exists(target + "/mtp.safetensors")
        # What is there of the model does not pass for all of it.
        code, _, err = cache.run("generate", "-m", NAME, "--offline", *QUESTION)
        assert code == 1 and "lacks model-00001-of-00002.safetensors" in err, err
    with setup(repo_of(SMALL)) as (cache, hub, repo):
        code, out, err = cache.run("convert", NAME, os.path.join(cache.home, "out"), "--bits", "8")
        assert code == 0 and tokens(cache, "-m", os.path.join(cache.home, "out")), err


def test_a_head_is_added_to_a_stored_model():
    with setup(repo_of(paths.MODEL, without=["mtp.safetensors"])) as (cache, hub, repo):
        code, out, err = cache.run("convert", NAME, "--mtp-from", paths.MODEL)
        assert code == 0, err
        cache.check()
        code, _, err = cache.run("generate", "-m", NAME, "--spec", "mtp", "--no-cache", "--offline", *QUESTION)
        assert code == 0, err
        # A later pull of the same commit leaves it there.
        code, _, err = cache.run("pull", NAME)
        assert code == 0, err
        assert os.path.exists(f"{cache.repo}/snapshots/{repo.commit}/mtp.safetensors")
        assert "mtp.fc" in open(f"{cache.repo}/snapshots/{repo.commit}/model.safetensors.index.json").read()
        code, _, err = cache.run("generate", "-m", NAME, "--spec", "mtp", "--no-cache", "--offline", *QUESTION)
        assert code == 0, err
