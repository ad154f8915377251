"""The recording of a terminal shows each line when it was there."""

import os
import re
import sys
import tempfile
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tools")]
import record_terminal  # noqa: E402

PLAIN = (record_terminal.INK, "", False, False, False, False)


def line(text, style=PLAIN):
    return ((0, len(text), text, style),)


def test_waits_are_not_longer_than_patience():
    frames = record_terminal.without_long_waits([(5.0, "a"), (5.5, "b"), (60.0, "c"), (60.25, "d")])
    assert frames == [(0.0, "a"), (0.5, "b"), (2.0, "c"), (2.25, "d")], frames


def test_a_line_is_shown_while_it_is_there():
    frames = [(0.0, {0: "x"}), (1.0, {0: "x", 1: "y"}), (2.0, {0: "z", 1: "y"}), (3.0, {0: "x"})]
    assert record_terminal.intervals(frames, 4.0) == {(0, "x"): [(0.0, 2.0), (3.0, 4.0)], (1, "y"): [(1.0, 3.0)], (0, "z"): [(2.0, 3.0)]}


def test_the_picture_is_animated_without_scripts_and_ends_with_the_last_screen():
    frames = [(0.0, {0: line("one < two")}), (1.0, {0: line("three"), ("cursor", 1, 2): ()})]
    svg = record_terminal.picture(frames, 'A "title"')
    xml.etree.ElementTree.fromstring(svg)
    assert "<script" not in svg and "one &lt; two" in svg and "prefers-reduced-motion" in svg
    groups = re.findall(r"<g( class=\"l\")? style=\"animation-name:(\w+)\">(.*?)</g>", svg)
    assert [bool(last) for last, _, _ in groups] == [False, True, True], groups
    rules = dict(re.findall(r"@keyframes (\w+)\{(.*?\})\}", svg))
    assert rules[groups[0][1]] == "0%{visibility:visible}20%{visibility:hidden}"
    assert rules[groups[1][1]] == "0%{visibility:hidden}20%{visibility:visible}"


def test_a_shell_is_recorded_with_its_colours():
    with tempfile.TemporaryDirectory() as folder:
        recorder = record_terminal.Recorder(folder, {"PATH": "/usr/bin:/bin", "HOME": folder, "TERM": "xterm-256color", "PS1": "$ ", "LANG": "C.UTF-8"})
        try:
            frames = recorder.play([("$", 0, "printf '\\033[2mdim\\033[0m \\033[1;36mbold\\033[0m\\n'\r"), ("$", 0, "")])
        finally:
            recorder.close()
    rows = [run for row, runs in frames[-1][1].items() if not isinstance(row, tuple) for run in runs]
    dim, bold = ([style for _, _, text, style in rows if text.strip() == word] for word in ("dim", "bold"))
    assert dim and dim[0][0] == record_terminal.COLOURS["brightblack"], rows
    assert bold and bold[0][0] == record_terminal.COLOURS["cyan"] and bold[0][2], rows
    assert len(frames) > 10  # a frame for each key, about


def test_the_picture_of_the_docs_is_small_and_whole():
    with open(os.path.join(ROOT, "docs/images/terminal.svg")) as file:
        svg = file.read()
    xml.etree.ElementTree.fromstring(svg)
    assert len(svg.encode()) <= record_terminal.MOST and "Paris" in svg and "<script" not in svg
