"""The server behind a Model: a process of its own on a private port, which ends with this process."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
import subprocess
import tempfile
import threading
import weakref
from typing import IO, Any, Callable, List, Mapping, Optional

from .binary import environment, find_binary
from .errors import Error

SECONDS_TO_END = 10
LOG_BYTES = 4000

# Runs the program as a child, with its status as its own. Ends it when standard input closes, which it does in any case
# when the process of Python is gone: also after SIGKILL, where no handler runs. A server that goes on is killed.
GUARD = """
seconds=$1; shift
exec 3<&0 </dev/null
"$@" 3<&- & server=$!
exec >/dev/null 2>&1
(
  read -r _ <&3; kill "$server"
  trap 'kill -KILL "$!"; wait "$!"; exit' TERM  # a new process may lose a TERM
  sleep "$seconds" & wait "$!"; kill -KILL "$server"
) & reader=$!
exec 3<&-
wait "$server"; status=$?
kill "$reader"; wait "$reader"
exit "$status"
"""

# Flags that this package sets itself.
OWN = "model host port api_key api_key_file tls_cert tls_key detach pid_file log_file log_format drain_seconds".split()

# What settings say about addresses, certificates, logs and keys is for servers that others reach.
PRIVATE = "--host 127.0.0.1 --port 0 --detach=false --log-format text --drain-seconds 0".split()
PRIVATE += [word for flag in ("--tls-cert", "--tls-key", "--pid-file", "--log-file") for word in (flag, "")]
LEFT_OUT = ("ANABRANCH_API_KEY", "ANABRANCH_API_KEY_FILE", "ANABRANCH_STATE_PEER")


def words_of(flags: Mapping[str, Any]) -> "list[str]":
    """Flags of `anabranch serve` as words: context=9 is --context=9, no_cache=True is --no-cache, a list repeats it."""
    words = []
    for name, value in flags.items():
        if name in OWN:
            raise TypeError(f"{name!r} is set by the Model itself")
        flag = "--" + name.replace("_", "-")
        if value is True:
            words.append(flag)
        elif value is not None and value is not False:
            words += [f"{flag}={one}" for one in (value if isinstance(value, (list, tuple)) else [value])]
    return words


class Server:
    """It loads its model after the constructor has returned. verbose: its log and the progress of a download go to
    stderr."""

    def __init__(self, model: str, flags: Mapping[str, Any], verbose: bool) -> None:
        self.key = secrets.token_urlsafe(32)
        self.port: Optional[int] = None  # known once the model is loaded
        self._owner = os.getpid()
        self._lock, self._waiting_lock = threading.Lock(), threading.Lock()
        self._waiting: Optional[List[Callable[[], None]]] = None
        private = [*PRIVATE] if "access_log" in flags else [*PRIVATE, "--access-log", ""]
        quiet = [] if verbose else ["--quiet"]
        command = [find_binary(), *quiet, "serve", "--model", model, *private, *words_of(flags)]
        self._log: Optional[IO[bytes]] = None if verbose else tempfile.TemporaryFile()
        guard = ["/bin/sh", "-c", GUARD, "anabranch", str(SECONDS_TO_END)]
        with tempfile.TemporaryFile() as keys:  # it has no name, and the server has it open
            keys.write(self.key.encode())
            keys.seek(0)
            # In a session of its own, so that Ctrl-C interrupts Python and not the server.
            self._process = subprocess.Popen(
                [*guard, *command, f"--api-key-file=/dev/fd/{keys.fileno()}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                start_new_session=True,
                env={name: value for name, value in environment().items() if name not in LEFT_OUT},
                pass_fds=[keys.fileno()],
            )
        running.add(self)
        self._end = weakref.finalize(self, end, self._process, self._log)

    def wait_until_ready(self) -> None:
        """Until the model is loaded. Raises Error if it cannot be."""
        if self.port is not None:
            return
        if os.getpid() != self._owner:
            raise Error("this process was forked before the model was loaded: fork later", code="not_started")
        with self._lock:
            if self.port is None:
                if not self._end.alive:
                    raise self.lost()
                assert self._process.stdout
                line = self._process.stdout.readline().decode(errors="replace")
                found = re.search(r" on http://127\.0\.0\.1:(\d+)/v1$", line.rstrip())
                if not found:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        self._process.wait(1)
                    raise self.lost()
                self.port = int(found[1])

    def call_when_ready(self, tell: Callable[[], None]) -> None:
        """Calls tell() in another thread once wait_until_ready() returns or raises at once. All calls share a thread,
        and Python does not wait for it when it ends."""
        with self._waiting_lock:
            if self._waiting is not None:
                self._waiting.append(tell)
                return
            self._waiting = [tell]
        threading.Thread(target=self._tell_when_ready, name="anabranch", daemon=True).start()

    def _tell_when_ready(self) -> None:
        with contextlib.suppress(Exception):  # each who is told asks again, and gets the error
            self.wait_until_ready()
        with self._waiting_lock:
            waiting, self._waiting = self._waiting, None
        for tell in waiting or []:
            tell()

    def close(self) -> None:
        """Ends the server and all its requests; in a forked child, this process only forgets it."""
        running.discard(self)
        self._end()

    def is_known(self) -> bool:
        """Whether has_ended() knows: only the parent of a process learns of its end."""
        return os.getpid() == self._owner

    def has_ended(self) -> bool:
        return not self._end.alive or (self.is_known() and self._process.poll() is not None)

    def lost(self) -> Error:
        """Why the server does not answer."""
        if not self._end.alive:
            return Error("the Model is closed", code="closed")
        if not self.has_ended():
            return Error("the connection to the server broke", code="connection_lost")
        ended = f"the server ended with status {self._process.returncode}"
        log = self.log()
        if self.port is None:
            return Error(log.partition("error: ")[2] or log or ended, code="not_started")
        return Error(f"{ended}: {log}" if log else ended, code="server_ended")

    def log(self) -> str:
        """The end of the server's log, which has only errors."""
        if self._log is None:
            return ""
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), LOG_BYTES, max(0, size - LOG_BYTES)).decode(errors="replace").strip()


def end(process: "subprocess.Popen[bytes]", log: Optional[IO[bytes]]) -> None:
    """In a forked child it ends nothing: the child has closed its end of the pipe, and there is nobody to wait for."""
    if log:
        log.close()
    assert process.stdin and process.stdout
    process.stdin.close()
    try:
        process.wait(SECONDS_TO_END + 1)  # the guard kills a server that does not end in time
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # the guard leads a group that the server is in
        process.wait()
    process.stdout.close()


running: "weakref.WeakSet[Server]" = weakref.WeakSet()


def forget_in_child() -> None:
    """A forked child must not hold the pipe open by which the server notices that its parent is gone. A lock that
    another thread held is never released there."""
    for server in list(running):
        server._lock, server._waiting_lock = threading.Lock(), threading.Lock()
        if server._process.stdin:
            server._process.stdin.close()


os.register_at_fork(after_in_child=forget_in_child)
