#!/usr/bin/env python3
"""The Python package with the program in it, as a wheel: make_wheel.py PROGRAM LICENSES FOLDER

PROGRAM may need nothing but the GNU C library; the oldest version that it can run with becomes part of the wheel's name.
LICENSES is a folder of texts that goes into the wheel. Prints the path of the wheel."""

import base64
import hashlib
import os
import re
import stat
import subprocess
import sys
import tomllib
import zipfile

PYTHON = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "python")
MACHINES = {"Advanced Micro Devices X86-64": "x86_64", "AArch64": "aarch64"}  # as readelf calls them
C_LIBRARY = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libresolv.so.2", "ld-linux-x86-64.so.2",
             "ld-linux-aarch64.so.1"}
TIME = (2026, 1, 1, 0, 0, 0)  # of every file: the same input gives the same wheel


def read(path):
    with open(path, "rb") as file:
        return file.read()


def platform_of(program):
    """The oldest GNU C library and the processor, such as ("2.28", "x86_64"), by what the program asks of the dynamic linker."""
    shown = subprocess.run(["readelf", "-hdVW", program], capture_output=True, text=True, env=os.environ | {"LC_ALL": "C"})
    if shown.returncode:
        sys.exit(f"{program} is no program for Linux: {shown.stderr.strip()}")
    others = sorted(set(re.findall(r"\(NEEDED\).*\[(.*)\]", shown.stdout)) - C_LIBRARY)
    if others:
        sys.exit(f"{program} needs {', '.join(others)}: a wheel may need the C library only (script/package wheel builds such a program)")
    newest = max(int(minor) for minor in re.findall(r"\bGLIBC_2\.(\d+)", shown.stdout))
    machine = re.search(r"Machine: +(.+)", shown.stdout)[1]
    return f"2.{newest}", MACHINES.get(machine) or sys.exit(f"{program} is for another processor: {machine}")


def wheel_tag(program):
    glibc, machine = platform_of(program)
    return f"py3-none-manylinux_{glibc.replace('.', '_')}_{machine}"


def version_of(package):
    return re.search(r'^__version__ = "(.+)"$', read(os.path.join(package, "__init__.py")).decode(), re.M)[1]


def python_files(packages):
    """(name in the wheel, path) of each file of the packages, but not of their caches and of a program that lies there."""
    for package in packages:
        folder = os.path.join(PYTHON, *package.split("."))
        for name in sorted(os.listdir(folder)):
            if name.endswith(".py") or name == "py.typed":
                yield "/".join([*package.split("."), name]), os.path.join(folder, name)


def contents(program, licenses):
    """(name, bytes, mode) of each file but RECORD, and the wheel's own name."""
    with open(os.path.join(PYTHON, "pyproject.toml"), "rb") as file:
        settings = tomllib.load(file)
    project = settings["project"]
    name, version = project["name"], version_of(os.path.join(PYTHON, project["name"]))
    info, tag = f"{name}-{version}.dist-info", wheel_tag(program)
    texts = sorted(os.path.relpath(os.path.join(folder, file), licenses) for folder, _, files in os.walk(licenses) for file in files)
    if not texts:
        sys.exit(f"{licenses} has no licences")
    metadata = [("Metadata-Version", "2.4"), ("Name", name), ("Version", version), ("Summary", project["description"]),
                ("License", project["license"]["text"]), *(("License-File", text) for text in texts),
                ("Requires-Python", project["requires-python"])]
    wheel = [("Wheel-Version", "1.0"), ("Generator", "anabranch"), ("Root-Is-Purelib", "false"), ("Tag", tag)]
    commands = "".join(f"{command} = {function}\n" for command, function in project["scripts"].items())
    files = [(path, read(source), 0o644) for path, source in python_files(settings["tool"]["setuptools"]["packages"])]
    files.append((f"{name}/bin/anabranch", read(program), 0o755))
    files += [(f"{info}/licenses/{text}", read(os.path.join(licenses, text)), 0o644) for text in texts]
    for file, lines in ("METADATA", metadata), ("WHEEL", wheel):
        files.append((f"{info}/{file}", "".join(f"{key}: {value}\n" for key, value in lines).encode(), 0o644))
    files.append((f"{info}/entry_points.txt", f"[console_scripts]\n{commands}".encode(), 0o644))
    return files, f"{name}-{version}-{tag}.whl", info


def record_line(path, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(data)}\n"


def make(program, licenses, folder):
    files, name, info = contents(program, licenses)
    record = "".join(record_line(path, data) for path, data, _ in files) + f"{info}/RECORD,,\n"
    files.append((f"{info}/RECORD", record.encode(), 0o644))
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, name)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for inside, data, mode in files:
            entry = zipfile.ZipInfo(inside, TIME)
            entry.external_attr = (stat.S_IFREG | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return path


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    print(make(*sys.argv[1:]))
