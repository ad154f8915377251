"""What a sanitizer reports of the programs that a test starts, also of those whose standard error nobody reads."""

import os
import pathlib

VARIABLES = ("ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS")


def report_into(folder, environment=os.environ):
    """Programs that start with this environment write their reports into the folder."""
    for name in VARIABLES:
        environment[name] = " ".join(filter(None, [environment.get(name), f"log_path={folder}/report"]))


def take_reports(folder):
    """The text of all reports in the folder, which are removed."""
    text = ""
    for path in sorted(pathlib.Path(folder).glob("report.*")):
        text += path.read_text(errors="replace")
        path.unlink()
    return text
