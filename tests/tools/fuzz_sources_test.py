"""fuzz/CMakeLists.txt names single files of src/, which may be moved or renamed."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


def missing(text):
    """The files that its two lists name and src/ lacks."""
    lists = re.findall(r"set\((?:excluded|included)\s(.*?)\)", text, re.DOTALL)
    return [name for names in lists for name in names.split() if not (ROOT / "src" / f"{name}.cc").is_file()]


def test_named_files_exist():
    text = (ROOT / "fuzz" / "CMakeLists.txt").read_text()
    assert missing(text) == []
    moved = text.replace("output/stop_matcher", "output/gone").replace("cache/record", "cache/gone")
    assert missing(moved) == ["output/gone", "cache/gone"]
