"""`ls`, `show`, `rm`, and models of Ollama and LM Studio."""

import hashlib
import json
import os
import pty
import subprocess

import pytest

from harness import paths
from harness.needs import real_model
from hub_setup import NAME, SHARD, content, python_hub, setup, small_repo
from test_hub import Repo

HERE = os.path.dirname(os.path.abspath(__file__))

SMALL = paths.DRAFT
DATA = os.path.join(HERE, "../models/data")
QUESTION = ("--temp", "0", "-n", "3", "--json", "Hello")


def models(cache, **more):
    code, out, err = cache.run("ls", "--json", **more)
    assert code == 0, err
    return {m["name"]: m for m in json.loads(out)}


def ok(cache, *args, **more):
    code, out, err = cache.run(*args, **more)
    assert code == 0, (args, out, err)
    return out


def gguf_repo():
    files = {f"Model-{q}.gguf": content(5000, q) for q in ("Q4_0", "Q8_0")}
    files.update({f"BF16/Model-BF16-0000{i}-of-00002.gguf": content(3000, i) for i in (1, 2)})
    return Repo(files)


@pytest.fixture
def smollm2():
    """The path of a GGUF file."""
    return real_model("smollm2")


def test_ls():
    with setup(repos={NAME: small_repo(), "people/gguf": gguf_repo()}) as (cache, hub, _):
        assert "no models in" in ok(cache, "ls")
        done = cache.pull()
        cache.pull("people/gguf:Q8_0")
        cache.pull("people/gguf:BF16")
        found = models(cache)
        assert set(found) == {NAME, "people/gguf:Q8_0", "people/gguf:BF16"}, found
        own = found[NAME]
        assert own["path"] == done["path"] and own["bytes"] == done["bytes"] and own["commit"] == done["commit"]
        assert own["store"] == "hub" and own["format"] == "safetensors" and "problem" not in own
        assert found["people/gguf:BF16"]["bytes"] == 6000 and found["people/gguf:BF16"]["format"] == "GGUF BF16"
        text = ok(cache, "ls").splitlines()
        assert text[0].split() == ["name", "size", "format", "store", "modified"] and text[-1].startswith("3 models, "), text
        # What lacks a file, and what was never finished, is told.
        os.unlink(os.path.join(done["path"], SHARD))
        assert "lacks " + SHARD in models(cache)[NAME]["problem"]
        os.makedirs(cache.store + "/models--x--half/blobs")
        with open(cache.store + "/models--x--half/blobs/" + "a" * 64 + ".incomplete", "wb") as file:
            file.write(b"x" * 700)
        half = models(cache)["x/half"]
        assert half["bytes"] == 700 and "not finished" in half["problem"]


def test_ls_of_anything():
    """Other things in the store are left aside."""
    with setup() as (cache, hub, _):
        for folder in ("datasets--a--b/snapshots/" + "a" * 40, "models--old/snapshots/" + "a" * 40, "models--a--b/snapshots/main",
                       "models--../snapshots", "models--a--b--c/refs", "models--c--d/snapshots/" + "b" * 40):
            os.makedirs(os.path.join(cache.store, folder))
        os.symlink("/nowhere", cache.store + "/models--e--f")
        os.symlink(cache.store, cache.store + "/models--c--d/snapshots/" + "b" * 40 + "/loop")
        open(cache.store + "/models--g--h", "w").close()
        assert models(cache) == {}


def test_rm_asks():
    with setup() as (cache, hub, repo):
        cache.pull()
        code, _, err = cache.run("rm", NAME)
        assert code == 1 and "Remove org/model-4bit (" in err and "--yes" in err, err
        for answer, gone in (("n", False), ("y", True)):
            terminal, other = pty.openpty()
            process = subprocess.Popen([paths.PROGRAM, "rm", NAME], stdin=other, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       env=cache.environment())
            os.write(terminal, answer.encode() + b"\n")
            out, _ = process.communicate(timeout=300)
            os.close(other)
            os.close(terminal)
            assert process.returncode == (0 if gone else 1) and os.path.exists(cache.repo) != gone, out
        assert os.listdir(cache.store + "/.locks") == [] and models(cache) == {}
        code, _, err = cache.run("rm", "--yes", NAME)
        assert code == 1 and "is not in" in err, err


def test_rm_frees_only_what_nothing_else_needs():
    with setup() as (cache, hub, repo):
        cache.pull()
        newer = Repo({**repo.files, "config.json": b'{"model_type": "qwen3_5", "x": 1}'})
        hub.repos[NAME] = newer
        cache.pull()
        assert set(models(cache)) == {NAME, f"{NAME}@{repo.commit}"}
        out = ok(cache, "rm", "-y", f"{NAME}@{repo.commit}")
        assert f"{len(repo.files['config.json']) / 1e3:.1f} kB free" in out, out
        cache.check_model(newer)
        assert os.listdir(cache.repo + "/snapshots") == [newer.commit] and repo.etag("config.json") not in cache.blobs()
        scan = python_hub(cache, "info = scan_cache_dir()\nprint(json.dumps([len(info.repos), [str(w) for w in info.warnings]]))")
        assert scan == [1, []]
        cache.pull()
        ok(cache, "rm", "-y", NAME)
        assert not os.path.exists(cache.repo)


def test_rm_of_one_quantisation():
    with setup(gguf_repo()) as (cache, hub, repo):
        for quant in ("Q4_0", "Q8_0", "BF16"):
            cache.pull(f"{NAME}:{quant}")
        code, _, err = cache.run("rm", "-y", f"{NAME}:Q5_0")
        assert code == 1 and f"{NAME}:Q5_0 is not in" in err and "did you mean" in err, err
        ok(cache, "rm", "-y", f"{NAME}:bf16")
        assert set(models(cache)) == {f"{NAME}:Q4_0", f"{NAME}:Q8_0"} and len(cache.blobs()) == 2
        ok(cache, "rm", "-y", f"{NAME}/Model-Q4_0.gguf")
        assert set(models(cache)) == {f"{NAME}:Q8_0"}
        ok(cache, "rm", "-y", f"{NAME}:Q8_0")
        assert not os.path.exists(cache.repo)


def test_vision_towers_of_gguf_models():
    """They are found by name, counted with their models, and leave with the last one."""
    def read(path):
        with open(os.path.join(DATA, path), "rb") as file:
            return file.read()
    model, tower = read("qwen35_gguf/model.gguf"), read("qwen3_5_vision/mmproj.gguf")
    with setup(Repo({"a-Q8_0.gguf": model, "BF16/a-BF16.gguf": model + b"1", "mmproj-F16.gguf": tower})) as (cache, hub, repo):
        offer = json.loads(ok(cache, "show", NAME + ":BF16", "--json"))
        assert offer["quantisations"] == ["BF16", "Q8_0"] and offer["files"] == 2, offer
        cache.pull(NAME + ":Q8_0")
        cache.pull(NAME + ":BF16")
        found = models(cache)
        assert set(found) == {NAME + ":Q8_0", NAME + ":BF16"}, found
        assert found[NAME + ":Q8_0"]["bytes"] == len(model) + len(tower) == found[NAME + ":BF16"]["bytes"] - 1
        for name in found:
            assert json.loads(ok(cache, "show", name, "--json", "--offline"))["vision_tower"] == "yes", name
        out = ok(cache, "rm", "-y", NAME + ":Q8_0")
        assert f"{len(model) / 1e3:.1f} kB free" in out, out
        cache.check_model(repo, ["BF16/a-BF16.gguf", "mmproj-F16.gguf"])
        # The tower may go alone; the model then reads text only.
        ok(cache, "rm", "-y", NAME + "/mmproj-F16.gguf")
        assert json.loads(ok(cache, "show", NAME + ":BF16", "--json", "--offline"))["vision_tower"] == "no"
        assert models(cache)[NAME + ":BF16"]["bytes"] == len(model) + 1
        cache.pull(NAME + ":BF16")
        ok(cache, "rm", "-y", NAME + ":BF16")
        assert not os.path.exists(cache.repo)


def test_rm_stays_in_the_store():
    with setup() as (cache, hub, repo):
        cache.pull()
        precious = cache.home + "/precious"
        os.mkdir(precious)
        open(precious + "/file", "w").close()
        snapshot = f"{cache.repo}/snapshots/{repo.commit}"
        os.symlink(precious, snapshot + "/folder")
        os.symlink(precious + "/file", snapshot + "/link")
        os.symlink("../../../../precious/file", snapshot + "/relative")
        for name in ("../precious", "/", ".", cache.home, "a/../../precious"):
            code, _, err = cache.run("rm", "-y", name)
            assert code == 1 and "is no name" in err, (name, err)
        hub.repos[NAME] = Repo({**repo.files, "config.json": b"{ }"})
        cache.pull()
        ok(cache, "rm", "-y", f"{NAME}@{repo.commit}")
        ok(cache, "rm", "-y", NAME)
        assert os.listdir(precious) == ["file"] and not os.path.exists(cache.repo)


def test_show():
    facts = {"config": {"model_type": "qwen3_5"}, "safetensors": {"total": 19_000_000}}
    files = {name: open(os.path.join(SMALL, name), "rb").read() for name in os.listdir(SMALL)}
    repos = {NAME: Repo(files, facts=facts), "people/gguf": gguf_repo(), "org/closed": small_repo(gated=True)}
    with setup(repos=repos) as (cache, hub, _):
        offer = json.loads(ok(cache, "show", NAME, "--json"))
        assert offer["stored"] is False and offer["model_type"] == "qwen3_5" and offer["parameters"] == 19_000_000
        assert offer["page"] == f"{hub.url}/{NAME}" and offer["problems"] == [] and not offer["gated"]
        wanted = [f for f in files if f != "README.md"]
        assert offer["files"] == len(wanted) and abs(offer["file_mb"] - sum(len(files[f]) for f in wanted) / 1e6) < 1e-6, offer
        assert not os.path.exists(cache.store)
        code, _, err = cache.run("show", NAME, "--offline")
        assert code == 1 and "is not in" in err, err
        gguf = json.loads(ok(cache, "show", "people/gguf:Q8_0", "--json"))
        assert gguf["quantisations"] == ["BF16", "Q4_0", "Q8_0"] and gguf["files"] == 1 and gguf["parameters"] == "unknown"
        assert "runs here            yes" in ok(cache, "show", NAME)
        done = cache.pull()
        stored = json.loads(ok(cache, "show", NAME, "--json", "--offline"))
        assert stored["name"] == NAME and stored["path"] == done["path"] and stored["model_type"] == "qwen3_5", stored
        assert 15_000_000 < stored["parameters"] < 25_000_000 and stored["context_length"] > 0 and stored["problems"] == []
        assert json.loads(ok(cache, "show", SMALL, "--json"))["parameters"] == stored["parameters"]
        code, _, err = cache.run("show", "nobody/has-this")
        assert code == 1 and "has no model nobody/has-this" in err, err


# ---- Ollama and LM Studio

def ollama_model(directory, gguf, name, has_blob=True, digest=None, media="application/vnd.ollama.image.model", adapter=False):
    digest = digest or "sha256:" + hashlib.sha256(name.encode()).hexdigest()
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
                "layers": [{"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:" + "0" * 64, "size": 1},
                           {"mediaType": media, "digest": digest, "size": os.path.getsize(gguf)}]}
    if adapter:
        manifest["layers"].append({"mediaType": "application/vnd.ollama.image.adapter", "digest": digest, "size": 1})
    path = os.path.join(directory, "manifests", name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.makedirs(directory + "/blobs", exist_ok=True)
    with open(path, "w") as file:
        json.dump(manifest, file)
    if has_blob:
        os.symlink(gguf, os.path.join(directory, "blobs", digest.replace(":", "-")))


@pytest.mark.real
def test_ollama(smollm2):
    with setup() as (cache, hub, _):
        directory = cache.home + "/.ollama/models"
        for name in ("registry.ollama.ai/library/smollm2/135m", "registry.ollama.ai/library/smollm2/latest",
                     "registry.ollama.ai/someone/tiny/q4", "hf.co/org/name/Q4_K_M"):
            ollama_model(directory, smollm2, name)
        names = {"ollama:smollm2:135m", "ollama:smollm2:latest", "ollama:someone/tiny:q4", "ollama:hf.co/org/name:Q4_K_M"}
        found = models(cache)
        assert set(found) == names, found
        assert found["ollama:smollm2:135m"]["store"] == "Ollama" and found["ollama:smollm2:135m"]["bytes"] == os.path.getsize(smollm2)
        expected = json.loads(ok(cache, "generate", "-m", smollm2, "--no-cache", *QUESTION).splitlines()[-1])["token_ids"]
        for name in names | {"ollama:smollm2"}:
            assert json.loads(ok(cache, "generate", "-m", name, "--no-cache", *QUESTION).splitlines()[-1])["token_ids"] == expected
        assert json.loads(ok(cache, "show", "ollama:smollm2:135m", "--json"))["name"] == "smollm2:135m"
        for args, text in ((("rm", "-y", "ollama:smollm2"), "`ollama rm smollm2`"),
                           (("show", "ollama:smollm3"), "did you mean"), (("show", "ollama:../../x"), "is no name of an Ollama model"),
                           (("show", "ollama:"), "ollama:NAME")):
            code, _, err = cache.run(*args)
            assert code == 1 and text in err, (args, err)
        assert set(models(cache, OLLAMA_MODELS=cache.home + "/none")) == names
        os.rename(directory, cache.home + "/elsewhere")
        assert set(models(cache)) == set()
        assert set(models(cache, OLLAMA_MODELS=cache.home + "/elsewhere")) == names
        ok(cache, "generate", "-m", "ollama:smollm2", "--no-cache", *QUESTION, OLLAMA_MODELS=cache.home + "/elsewhere")


@pytest.mark.real
def test_ollama_models_that_cannot_be_used(smollm2):
    with setup() as (cache, hub, _):
        directory = cache.home + "/.ollama/models"
        library = "registry.ollama.ai/library/"
        ollama_model(directory, smollm2, library + "gone/latest", has_blob=False)
        ollama_model(directory, smollm2, library + "evil/latest", has_blob=False, digest="../../../../etc/passwd")
        ollama_model(directory, smollm2, library + "tensors/latest", media="application/vnd.ollama.image.tensor")
        ollama_model(directory, smollm2, library + "tuned/latest", adapter=True)
        with open(directory + "/manifests/" + library + "gone/broken", "w") as file:
            file.write("[")
        for name, text in (("gone", "which is not there"), ("evil", "describes no model"), ("tensors", "describes no model"),
                           ("gone:broken", "is no manifest"), ("tuned", "adds an adapter")):
            code, _, err = cache.run("show", "ollama:" + name)
            assert code == 1 and text in err, (name, err)
        found = models(cache)
        assert len(found) == 5 and all(m["problem"] for m in found.values()), found


@pytest.mark.real
def test_lm_studio(smollm2):
    for directory in (".lmstudio/models", ".cache/lm-studio/models", "moved/models"):
        with setup() as (cache, hub, _):
            os.makedirs(f"{cache.home}/{directory}/org")
            os.makedirs(f"{cache.home}/{directory}/people/smol")
            os.symlink(SMALL, f"{cache.home}/{directory}/org/small")
            os.symlink(smollm2, f"{cache.home}/{directory}/people/smol/SmolLM2-Q4_1.gguf")
            if directory.startswith("moved"):
                with open(cache.home + "/.lmstudio-home-pointer", "w") as file:
                    file.write(cache.home + "/moved\n")
            found = models(cache)
            assert set(found) == {"org/small", "people/smol:Q4_1"} and {m["store"] for m in found.values()} == {"LM Studio"}, found
            for name in found:
                ok(cache, "generate", "-m", name, "--no-cache", *QUESTION)
            assert not hub.log
            code, _, err = cache.run("rm", "-y", "org/small")
            assert code == 1 and "belongs to LM Studio" in err, err
