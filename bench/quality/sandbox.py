"""Runs Python code that a model wrote, and that may do anything.

A process of its own with limits on processor time, memory, files and wall-clock time, an empty environment and a new
folder; where `unshare` may make namespaces, also without network and other processes. It reads what the user may
read: for code of unknown models that is meant to do harm, use a virtual machine."""

import functools
import os
import resource
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile

CPU_S, WALL_S = 10, 30
MEMORY, FILE, OPEN_FILES = 1 << 30, 1 << 20, 64  # bytes, bytes, count
NAMESPACES = ["unshare", "--user", "--map-root-user", "--net", "--ipc", "--pid", "--fork", "--kill-child"]


@functools.cache
def without_network():
    """The command that takes network and other processes away; [] where there is none."""
    if not shutil.which("unshare"):
        return []
    works = subprocess.run([*NAMESPACES, "true"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return NAMESPACES if works.returncode == 0 else []


def limit(cpu_s):
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE, FILE))
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(code, cpu_s=CPU_S, wall_s=WALL_S):
    """(whether the code ran to its end, why not). Code that ends the process early has not run to its end."""
    end = secrets.token_hex(16)
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "answer.py")
        with open(program, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(f"{code}\nprint({end!r})\n")
        with open(os.path.join(folder, "output"), "w+b") as output:
            process = subprocess.Popen([*without_network(), sys.executable, "-I", "-S", program], stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=output, cwd=folder, env={}, start_new_session=True,
                                       preexec_fn=functools.partial(limit, cpu_s))
            try:
                status = process.wait(wall_s)
            except subprocess.TimeoutExpired:
                status = None
            try:
                os.killpg(process.pid, signal.SIGKILL)  # also what it left running
            except ProcessLookupError:
                pass
            process.wait()
            output.seek(max(0, output.seek(0, os.SEEK_END) - 2000))
            said = output.read().decode(errors="replace").strip()
    if status is None:
        return False, f"no end within {wall_s} s"
    last = said.rsplit("\n", 1)[-1]
    if status == 0 and last == end:
        return True, ""
    return False, last[:200] if status else "it ended the process before the tests had run"
