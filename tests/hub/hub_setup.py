"""What the tests of the hub share: a store of their own beside a hub of their own."""

import contextlib
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile

from harness import passed_on, paths
from harness.waiting import file_sizes
from test_hub import Hub, Repo

TOKEN = "hf_test"
NAME = "org/model-4bit"


def content(size, seed):
    return random.Random(seed).randbytes(size)


def small_repo(**more):
    """A model of two shards, with files that are not needed."""
    index = {"metadata": {}, "weight_map": {"model.layers.0.mlp.up_proj.weight": "model-00001-of-00002.safetensors",
                                            "mtp.fc.weight": "model-00002-of-00002.safetensors"}}
    files = {"config.json": b'{"model_type": "qwen3_5"}', "tokenizer.json": content(5000, 1), "tokenizer_config.json": b"{}",
             "chat_template.jinja": b"{{ messages }}", "README.md": b"# A model", ".gitattributes": b"*.safetensors",
             "model.safetensors.index.json": json.dumps(index).encode(),
             "model-00001-of-00002.safetensors": content(300_000, 2), "model-00002-of-00002.safetensors": content(200_000, 3),
             "consolidated.safetensors": content(2000, 4), "pytorch_model.bin": content(2000, 5),
             "onnx/model.safetensors": content(2000, 6)}
    return Repo(files, **more)


NEEDED = {"config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "model.safetensors.index.json",
          "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}
SHARD = "model-00001-of-00002.safetensors"


class Cache:
    """A store of its own, and the program that uses it."""

    def __init__(self, folder, hub):
        self.home, self.hub = folder, hub
        self.store = os.path.join(folder, "hub")
        self.repo = os.path.join(self.store, "models--" + NAME.replace("/", "--"))

    def environment(self, **more):
        own = {"HF_HOME": self.home, "HF_ENDPOINT": self.hub.url, "HOME": self.home, "PATH": os.environ["PATH"],
               "XDG_CACHE_HOME": self.home}
        return {**passed_on.variables(), **own, **more}

    def start(self, *args, prefix=(), **more):
        return subprocess.Popen([*prefix, paths.PROGRAM, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env=self.environment(**more))

    def run(self, *args, timeout=600, **more):
        process = self.start(*args, **more)
        out, err = process.communicate(timeout=timeout)
        self.check()
        return process.returncode, out.decode(), err.decode()

    def pull(self, name=NAME, **more):
        code, out, err = self.run("pull", name, **more)
        assert code == 0, (code, out, err)
        done = json.loads(out.splitlines()[-1])
        assert done["event"] == "done", out
        return done

    def refused(self, *texts, name=NAME, code=1, **more):
        """The error has these texts, and nothing is left under a final name."""
        got, out, err = self.run("pull", name, **more)
        assert got == code and err.startswith("error: "), (got, out, err)
        for text in texts:
            assert text in err, err
        return err

    def blobs(self, partial=False):
        folder = os.path.join(self.repo, "blobs")
        names = os.listdir(folder) if os.path.isdir(folder) else []
        return sorted(n for n in names if n.endswith(".incomplete") == partial)

    def partial_sizes(self):
        """{name: bytes} of the downloads that are under way or were left."""
        return {os.path.basename(path): size for path, size in file_sizes(os.path.join(self.repo, "blobs")).items() if path.endswith(".incomplete")}

    def check(self):
        """Whatever has happened: what has its final name has the content that the name promises."""
        for folder, _, names in os.walk(self.store):
            for name in names:
                path = os.path.join(folder, name)
                if os.path.basename(folder) == "blobs" and not name.endswith(".incomplete"):
                    with open(path, "rb") as file:
                        data = file.read()
                    right = (hashlib.sha256(data) if len(name) == 64 else
                             hashlib.sha1(b"blob %d\0" % len(data) + data)).hexdigest()
                    assert name == right, f"{path} has another hash"
                if "/snapshots/" in path:
                    assert not os.path.islink(path) or os.path.exists(path), f"{path} leads nowhere"

    def check_model(self, repo, files=NEEDED):
        self.check()
        snapshot = os.path.join(self.repo, "snapshots", repo.commit)
        found = {os.path.relpath(os.path.join(f, n), snapshot) for f, _, names in os.walk(snapshot) for n in names}
        assert found == set(files), found
        for name in files:
            link = os.path.join(snapshot, name)
            up = "../" * (name.count("/") + 2)
            assert os.readlink(link) == f"{up}blobs/{repo.etag(name)}", os.readlink(link)
            with open(link, "rb") as file:
                assert file.read() == repo.files[name], name
        with open(os.path.join(self.repo, "refs/main")) as file:
            assert file.read() == repo.commit


@contextlib.contextmanager
def setup(repo=None, name=NAME, repos=None, **hub):
    repo = repo or small_repo()
    with tempfile.TemporaryDirectory() as folder, Hub(repos or {name: repo}, **hub) as server:
        yield Cache(folder, server), server, repo


def first(kind, path, *faults):
    """Faults of the first requests of one kind for one path."""
    return lambda k, p, number, _: faults[number] if (k, p) == (kind, path) and number < len(faults) else None


def always(kind, path, fault):
    return lambda k, p, *_: fault if (k, p) == (kind, path) else None


def python_hub(cache, code, **more):
    """Runs Python with huggingface_hub against the same hub and store; returns what it prints as JSON."""
    done = subprocess.run([sys.executable, "-c", "import json, sys\nfrom huggingface_hub import *\n" + code], capture_output=True,
                          text=True, timeout=600,
                          env={**cache.environment(), "HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_TELEMETRY": "1", **more})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
