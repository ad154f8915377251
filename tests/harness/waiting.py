"""Waiting for a state instead of for a time."""

import os
import time

LONG = 120  # seconds; a machine that is busy with other things may be many times slower than usual


def wait_for(condition, what, seconds=LONG, pause=0.02):
    """The first true value of condition(); fails with `what` when there is none within so many seconds.
    what: a text, or a function that makes one."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(pause)
    return value


def stays(condition, what, seconds=0.5):
    """Fails unless condition() holds for so long: that something does not happen can only be seen over a time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert condition(), what
        time.sleep(0.05)
    assert condition(), what


def file_sizes(folder):
    """{path: bytes} of the files below a folder that another process may be writing to: a file that goes away meanwhile is left out."""
    sizes = {}
    for at, _, names in os.walk(folder):
        for path in (os.path.join(at, name) for name in names):
            try:
                sizes[path] = os.stat(path).st_size
            except FileNotFoundError:
                pass  # it was renamed or removed after it was listed
    return sizes


def settled(state, still=0.5, seconds=LONG):
    """The value of state() once it stayed the same for `still` seconds."""
    deadline = time.monotonic() + seconds
    before, since = state(), time.monotonic()
    while time.monotonic() - since < still:
        assert time.monotonic() < deadline, f"still changing after {seconds} s: {before}"
        time.sleep(0.05)
        now = state()
        if now != before:
            before, since = now, time.monotonic()
    return before
