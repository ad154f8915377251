#!/usr/bin/env python3
"""Records a chat in the terminal as an animated SVG file without scripts: docs/images/terminal.svg.

    .deps/test-venv/bin/python tools/record_terminal.py [PROGRAM [MODEL_DIR [OUT.svg]]]

A shell runs in a pseudo-terminal of its own, the commands of SCENE are typed into it, and an emulator (pyte) reads the screen.
Times are those of the run, except that a wait of more than PATIENCE seconds is shown as one of PATIENCE. Where the reader's
system asks for less motion, or cannot animate, the picture is the last screen."""

import contextlib
import fcntl
import html
import os
import pty
import select
import signal
import struct
import sys
import tempfile
import termios
import time

import pyte

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COLUMNS, ROWS = 64, 20
PATIENCE = 1.5         # seconds; the longest wait that is shown in full
LAST = 4.0             # seconds for which the last screen stays
KEY = 0.045            # seconds between two keys
MOST = 150_000         # bytes of the file

PROMPT = "$ "
# What the line of the cursor must be, seconds to rest, and what to type then.
SCENE = [
    ("$", 0.5, "anabranch chat -m models/hybrid-146m --temp 0\r"),
    (">", 0.8, "What is the capital of France?\r"),
    (">", 1.0, "Write a Python function that reverses a string.\r"),
    (">", 1.5, "What is 7 * 8?\r"),
    (">", 1.0, "exit\r"),
    ("$", 0.3, ""),
]

CELL, LINE, MARGIN, BAR = 8.4, 19, 14, 30  # of the picture; pixels
INK, PAPER = "#d8dee9", "#1b2028"
COLOURS = {"black": "#4b5563", "red": "#f07178", "green": "#a5d46a", "brown": "#ffcb6b", "blue": "#82aaff", "magenta": "#c792ea",
           "cyan": "#7fdbe8", "white": "#e6e9ef", "brightblack": "#8a94a6", "brightred": "#ff8b92", "brightgreen": "#bdea8a",
           "brightbrown": "#ffd98a", "brightblue": "#9fbfff", "brightmagenta": "#d9b0f5", "brightcyan": "#a3ecf5", "brightwhite": "#ffffff"}


class Screen(pyte.Screen):
    """pyte does not know dim text (SGR 2); here it is grey."""

    def select_graphic_rendition(self, *attributes, **more):
        mapped = []
        for one in attributes:
            mapped += {2: [90], 22: [22, 39]}.get(one, [one])
        super().select_graphic_rendition(*mapped, **more)


def colour(name, otherwise):
    return otherwise if name == "default" else COLOURS.get(name, "#" + name)


def runs_of(line, columns):
    """A line of the emulator's screen as runs of one style: ((column, cells, text, style), ...)."""
    runs = []
    for column in range(columns):
        cell = line[column]
        style = (colour(cell.fg, INK), colour(cell.bg, ""), cell.bold, cell.italics, cell.underscore, cell.reverse)
        if runs and runs[-1][3] == style:
            start, cells, text, _ = runs[-1]
            runs[-1] = (start, cells + 1, text + cell.data, style)
        else:
            runs.append((column, 1, cell.data, style))
    return tuple(run for run in runs if run[2].strip() or run[3][1] or run[3][5])


class Recorder:
    """A shell in a pseudo-terminal. frames: [(seconds, {place: what is there})]; a place is a row, or ("cursor", row, column)."""

    def __init__(self, folder, environment):
        self.screen = Screen(COLUMNS, ROWS)
        self.stream = pyte.ByteStream(self.screen)
        self.frames, self.start = [], time.time()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execve("/bin/bash", ["bash", "--norc", "--noprofile", "-i"], environment)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))

    def take(self):
        frame = {row: runs for row in range(ROWS) if (runs := runs_of(self.screen.buffer[row], COLUMNS))}
        if not self.screen.cursor.hidden:
            frame["cursor", self.screen.cursor.y, self.screen.cursor.x] = ()
        if not self.frames or self.frames[-1][1] != frame:
            self.frames.append((time.time() - self.start, frame))

    def read(self, seconds):
        """Reads for that long; what comes within 30 ms is one frame."""
        end = time.time() + seconds
        while (left := end - time.time()) > 0:
            if not select.select([self.fd], [], [], left)[0]:
                return
            with contextlib.suppress(OSError):
                self.stream.feed(os.read(self.fd, 65536))
            if not select.select([self.fd], [], [], 0.03)[0]:
                self.take()

    def wait(self, text, seconds=120):
        end = time.time() + seconds
        while not self.screen.display[self.screen.cursor.y].strip() == text:
            assert time.time() < end, f"{text!r} did not come:\n" + "\n".join(self.screen.display)
            self.read(0.1)

    def type(self, keys):
        for key in keys:
            os.write(self.fd, key.encode())
            self.read(KEY)

    def play(self, scene):
        for text, rest, keys in scene:
            self.wait(text)
            self.read(rest)
            self.type(keys)
        self.take()
        return self.frames

    def close(self):
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def without_long_waits(frames):
    """The same frames, none of which stays longer than PATIENCE; the first one begins at 0."""
    out, now = [], 0.0
    for i, (at, frame) in enumerate(frames):
        if i:
            now += min(at - frames[i - 1][0], PATIENCE)
        out.append((now, frame))
    return out


def intervals(frames, end):
    """{(place, what): [(from, to)]}: when each content is at its place."""
    shown = {}
    for i, (at, frame) in enumerate(frames):
        until = frames[i + 1][0] if i + 1 < len(frames) else end
        for item in frame.items():
            times = shown.setdefault(item, [])
            if times and times[-1][1] == at:
                times[-1] = (times[-1][0], until)
            else:
                times.append((at, until))
    return shown


def drawn(place, runs):
    if isinstance(place, tuple):
        _, row, column = place
        return f'<rect x="{MARGIN + column * CELL:.1f}" y="{BAR + MARGIN + row * LINE}" width="{CELL}" height="{LINE - 2}" fill="{INK}" opacity=".6"/>'
    out, y = "", BAR + MARGIN + place * LINE
    for column, cells, text, (ink, paper, bold, italic, underlined, reverse) in runs:
        if reverse:
            ink, paper = paper or PAPER, ink
        x = MARGIN + column * CELL
        if paper:
            out += f'<rect x="{x:.1f}" y="{y}" width="{cells * CELL:.1f}" height="{LINE}" fill="{paper}"/>'
        stripped = text.strip()
        if not stripped:
            continue
        before = len(text) - len(text.lstrip())
        cells -= len(text) - len(stripped)
        style = "".join([f' fill="{ink}"' if ink != INK else "", ' font-weight="bold"' if bold else "", ' font-style="italic"' if italic else "",
                         ' text-decoration="underline"' if underlined else ""])
        out += (f'<text x="{x + before * CELL:.1f}" y="{y + 14}" textLength="{cells * CELL:.1f}"{style}>{html.escape(stripped, quote=False)}</text>')
    return out


def picture(frames, title):
    frames = without_long_waits(frames)
    end = frames[-1][0] + LAST
    width, height = 2 * MARGIN + COLUMNS * CELL, BAR + 2 * MARGIN + ROWS * LINE
    rules, body = {}, []
    for (place, runs), times in intervals(frames, end).items():
        steps = []
        for a, b in times:
            steps += [(100 * a / end, "visible"), (100 * b / end, "hidden")]
        if steps[0][0] > 0:
            steps.insert(0, (0, "hidden"))
        if steps[-1][0] >= 100:
            steps.pop()
        rule = "".join(f"{at:.2f}%{{visibility:{what}}}".replace(".00%", "%") for at, what in steps)
        name = rules.setdefault(rule, f"k{len(rules)}")
        last = ' class="l"' if times[-1][1] == end else ""
        body.append(f'<g{last} style="animation-name:{name}">{drawn(place, runs)}</g>')
    keyframes = "".join(f"@keyframes {name}{{{rule}}}" for rule, name in rules.items())
    buttons = "".join(f'<circle cx="{18 + 18 * i}" cy="15" r="5.5" fill="{c}"/>' for i, c in enumerate(("#f07178", "#ffcb6b", "#a5d46a")))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" viewBox="0 0 {width:.1f} {height}" role="img" '
            f'aria-label="{html.escape(title)}"><style>svg{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:{INK}}}'
            f'text{{white-space:pre}}g{{visibility:hidden;animation:{end:.2f}s step-end infinite}}.l{{visibility:visible}}'
            f"@media(prefers-reduced-motion:reduce){{g{{animation:none!important}}}}{keyframes}</style>"
            f'<rect width="100%" height="100%" rx="9" fill="{PAPER}"/>{buttons}\n' + "\n".join(body) + "\n</svg>\n")


def main():
    program = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build/anabranch"))
    model = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else os.path.join(ROOT, "models/hybrid-146m"))
    path = sys.argv[3] if len(sys.argv) > 3 else os.path.join(ROOT, "docs/images/terminal.svg")
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(folder + "/bin")
        os.makedirs(folder + "/home")
        os.symlink(program, folder + "/bin/anabranch")
        os.symlink(os.path.dirname(model), folder + "/models")
        environment = {"PATH": folder + "/bin:/usr/bin:/bin", "HOME": folder + "/home", "TERM": "xterm-256color", "LANG": "C.UTF-8",
                       "PS1": PROMPT, "BASH_SILENCE_DEPRECATION_WARNING": "1"}
        recorder = Recorder(folder, environment)
        try:
            frames = recorder.play(SCENE)
        finally:
            recorder.close()
        print("\n".join(recorder.screen.display).rstrip())
    svg = picture(frames, "A chat with the bundled model in a terminal")
    assert len(svg.encode()) <= MOST, f"the picture has {len(svg.encode())} bytes, more than {MOST}"
    with open(path, "w") as file:
        file.write(svg)
    print(f"{path}: {len(frames)} frames, {without_long_waits(frames)[-1][0] + LAST:.1f} s, {len(svg.encode())} bytes")


if __name__ == "__main__":
    main()
