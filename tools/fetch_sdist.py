#!/usr/bin/env python3
"""Fetches the source archive of a Python package with pip, by name, and checks its SHA-256. Nothing of it is run.

usage: fetch_sdist.py NAME VERSION SHA256 FOLDER

pip keeps a source archive only after a build backend gave it the package's name and version. The package's own backend
would need packages of its own and run code before anything is built, so pip is shown the archive's name and version by a
backend that is written here, under the name of scikit-build-core, which is the backend of the packages that we fetch so.
pip's settings (index, proxy, certificates) hold as always. Prints the path of the archive."""

import os
import subprocess
import sys
import tempfile

BACKEND = "scikit_build_core"  # of xgrammar and llama-cpp-python
ANSWER = '''import os


def prepare_metadata_for_build_wheel(directory, config_settings=None):
    folder = "{name}-{version}.dist-info"
    os.mkdir(os.path.join(directory, folder))
    with open(os.path.join(directory, folder, "METADATA"), "w") as file:
        file.write("Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
    return folder
'''


def fetch(name, version, sha256, folder):
    """The path of the archive in `folder`, whose SHA-256 pip has checked; SystemExit with pip's words otherwise."""
    with tempfile.TemporaryDirectory() as scratch:
        backend = os.path.join(scratch, "backend", BACKEND)
        os.makedirs(backend)
        with open(os.path.join(backend, "__init__.py"), "w"), open(os.path.join(backend, "build.py"), "w") as file:
            file.write(ANSWER.format(name=name.replace("-", "_"), version=version))
        requirement, found = os.path.join(scratch, "requirement"), os.path.join(scratch, "found")
        with open(requirement, "w") as file:
            file.write(f"{name}=={version} --hash=sha256:{sha256}\n")
        done = subprocess.run(
            [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation",
             "--no-input", "--disable-pip-version-check", "--dest", found, "--requirement", requirement],
            env=os.environ | {"PYTHONPATH": os.path.dirname(backend)}, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        archives = os.listdir(found) if os.path.isdir(found) else []
        if done.returncode or len(archives) != 1:
            sys.exit(f"pip could not fetch {name} {version}: {done.stderr.strip() or archives}")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, archives[0])
        with open(os.path.join(found, archives[0]), "rb") as source, open(path, "wb") as target:
            target.write(source.read())
        return path


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    print(fetch(*sys.argv[1:]))
