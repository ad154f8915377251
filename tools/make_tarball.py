#!/usr/bin/env python3
"""What was installed in a folder, as an archive with install.sh: make_tarball.py STAGE LICENSES FOLDER

STAGE is the prefix of `cmake --install`. Writes FOLDER/anabranch-VERSION-linux-ARCH.tar.gz and the same with .sha256, and prints both."""

import gzip
import hashlib
import io
import os
import sys
import tarfile

import make_wheel

INSTALLER = os.path.join(os.path.dirname(make_wheel.PYTHON), "packaging", "static", "install.sh")
# Where a user's programs look for them below ~/.local; what is not named keeps its place.
PLACES = (("share/zsh/vendor-completions/", "share/zsh/site-functions/"), ("lib/systemd/user/", "share/systemd/user/"))
TIME = 1767225600  # of every file: the same input gives the same archive


def files_below(folder, prefix=""):
    """{name: bytes} of all files there."""
    names = sorted(os.path.relpath(os.path.join(at, file), folder) for at, _, files in os.walk(folder) for file in files)
    return {prefix + name: make_wheel.read(os.path.join(folder, name)) for name in names}


def moved(name):
    for before, after in PLACES:
        if name.startswith(before):
            return after + name[len(before):]
    return name


def program_of(stage):
    return os.path.join(stage, "bin", "anabranch")


def contents(stage, licenses):
    """{name: bytes} of the archive."""
    glibc, machine = make_wheel.platform_of(program_of(stage))
    files = {moved(name): data for name, data in files_below(stage).items()}
    files |= files_below(licenses, "share/doc/anabranch/licenses/")
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items()))
    return files | {"SHA256SUMS": sums.encode(), "install.sh": make_wheel.read(INSTALLER).replace(b"@GLIBC@", glibc.encode()).replace(b"@MACHINE@", machine.encode())}


def write(path, top, files):
    with open(path, "wb") as target, gzip.GzipFile("", "wb", 9, target, TIME) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size, entry.mtime = len(data), TIME
            entry.mode = 0o755 if name in ("bin/anabranch", "install.sh") else 0o644
            archive.addfile(entry, io.BytesIO(data))


def make(stage, licenses, folder):
    version = make_wheel.version_of(os.path.join(make_wheel.PYTHON, "anabranch"))
    name = f"anabranch-{version}-linux-{make_wheel.platform_of(program_of(stage))[1]}"
    path = os.path.join(folder, name + ".tar.gz")
    os.makedirs(folder, exist_ok=True)
    write(path, name, contents(stage, licenses))
    with open(path + ".sha256", "w") as file:
        file.write(f"{hashlib.sha256(make_wheel.read(path)).hexdigest()}  {name}.tar.gz\n")
    return path


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    made = make(*sys.argv[1:])
    print(made, made + ".sha256", sep="\n")
