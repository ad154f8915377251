#!/usr/bin/env python3
"""Prints how many lines were run, by folder, from `llvm-cov export -summary-only`.

    llvm-cov export -summary-only ... | tools/coverage_table.py SOURCE_DIR"""

import json
import os
import sys


def rows(report, source):
    """[(folder, lines, lines that ran)], the sum last."""
    folders, source = {}, os.path.realpath(source)
    for file in report["data"][0]["files"]:
        path = os.path.relpath(os.path.realpath(file["filename"]), source)
        if path.startswith(".."):
            continue
        count = folders.setdefault(os.path.dirname(path), [0, 0])
        count[0] += file["summary"]["lines"]["count"]
        count[1] += file["summary"]["lines"]["covered"]
    found = [(folder, *count) for folder, count in sorted(folders.items())]
    return [*found, ("all", sum(row[1] for row in found), sum(row[2] for row in found))]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(f"{'folder':24} {'lines':>7} {'run':>7} {'share':>6}")
    for folder, lines, run in rows(json.load(sys.stdin), sys.argv[1]):
        print(f"{folder:24} {lines:7} {run:7} {100 * run / max(lines, 1):5.1f}%")
