"""Where the program is, and the command `anabranch` that runs it."""

from __future__ import annotations

import ctypes
import glob
import importlib.util
import os
import sys
from typing import Dict, Iterator

from .errors import Error

VARIABLE = "ANABRANCH_BINARY"
NVRTC = "ANABRANCH_NVRTC"
PACKAGE = os.path.dirname(os.path.abspath(__file__))


def is_program(path: str) -> bool:
    """Whether it can be run. The command that pip makes of main() does not count: it looks for the program, too."""
    if not (os.path.isfile(path) and os.access(path, os.X_OK)):
        return False
    with open(path, "rb") as file:
        start = file.read(4096)
    return not (start.startswith(b"#!") and b"anabranch.binary" in start)


def places() -> Iterator[str]:
    """In a wheel, in the clone that this package belongs to, and in the folders of PATH."""
    yield os.path.join(PACKAGE, "bin", "anabranch")
    yield os.path.join(os.path.dirname(os.path.dirname(PACKAGE)), "build", "anabranch")
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        yield os.path.join(folder, "anabranch")


def find_binary() -> str:
    """The path of the program. Raises Error if there is none."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        if is_program(chosen):
            return os.path.abspath(chosen)
        raise Error(f"{VARIABLE} is {chosen!r}, which is no program that can be run", code="no_binary")
    for path in places():
        if is_program(path):
            return os.path.abspath(path)
    raise Error(
        "the program 'anabranch' is neither in this package, nor in build/ of a clone, nor in a folder of PATH: "
        f"build it (script/build), or set {VARIABLE} to its path",
        code="no_binary",
    )


def driver_version() -> int:
    """The CUDA version of the NVIDIA driver, such as 13; 0 if there is none."""
    version = ctypes.c_int()
    try:
        status = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (AttributeError, OSError):
        return 0
    return 0 if status else version.value // 1000


def environment() -> Dict[str, str]:
    """That of the program. CUDA's run-time compiler, if pip has installed it, is where no loader looks.

    Of several, the newest that the driver can use."""
    spec = importlib.util.find_spec("nvidia")
    folders = (spec and spec.submodule_search_locations) or []
    found = [path for folder in folders for path in glob.glob(glob.escape(folder) + "/*/lib/libnvrtc.so.1[23]")]
    if len(found) > 1:
        driver = driver_version()
        found = [path for path in found if int(path.rpartition(".")[2]) <= driver] or found
    newest = {NVRTC: max(found, key=os.path.basename)} if found else {}
    return {**newest, **os.environ}


def main() -> None:
    try:
        program = find_binary()
    except Error as error:
        sys.exit(f"error: {error}")
    os.execve(program, [program, *sys.argv[1:]], environment())
