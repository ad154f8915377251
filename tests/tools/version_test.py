"""The version stands in CMakeLists.txt; what repeats it says the same."""

import os
import re
import subprocess

import pytest

from harness import paths

NUMBER = r"(\d+\.\d+\.\d+)"


def found(path, pattern):
    """All versions that stand in a file where the pattern has NUMBER."""
    with open(os.path.join(paths.ROOT, path)) as file:
        return re.findall(pattern.replace("NUMBER", NUMBER), file.read(), re.MULTILINE)


VERSION, = found("CMakeLists.txt", r"^project\(anabranch VERSION NUMBER ")


def test_the_program_tells_it():
    done = subprocess.run([paths.PROGRAM, "--version"], capture_output=True, text=True)
    assert done.stdout.strip() == VERSION and done.returncode == 0


@pytest.mark.parametrize("path, pattern", [
    ("python/anabranch/__init__.py", r'^__version__ = "NUMBER"$'),
    ("packaging/homebrew/anabranch.rb", r"/anabranch-NUMBER\.tar"),
    ("src/server/web/docs_examples.js", r'lookUpStates: \{version: "NUMBER"'),
    ("docs/install.md", r"anabranch_NUMBER_amd64\.deb"),
    ("docs/install.md", r"anabranch-NUMBER-(?:py3|linux)"),
])
def test_what_repeats_it_says_the_same(path, pattern):
    versions = found(path, pattern)
    assert versions and set(versions) == {VERSION}, versions


def test_the_changelog_begins_with_it():
    assert found("CHANGELOG.md", r"^## NUMBER \(")[0] == VERSION
