#!/usr/bin/env python3
"""Every figure of README.md stands in a report of bench/results.

    tools/check_figures.py [PAGE...]

A figure of the text is followed by a comment that says where it comes from (a reader of the page does not see it):

    needs 4 %<!-- bench/results/cache.json: tools[how=disk]/of_cold * 100 --> of the time

Above a table stands a comment with a path for each of its rows, and one for each of its last columns:

    <!-- figures: bench/results/peers.json
    rows: rows[model=smollm2,work=decode-0]; rows[model=smollm2,work=prefill-512]
    columns: summary/anabranch/median; summary/llama.cpp/median
    -->

A path is made of keys, numbers of elements, [key=value,...], which chooses the only element of a list that has these values,
and [*], which means all elements. `* NUMBER`, `/ PATH` (with spaces around the sign), `count PATH`, `sum PATH` and `median PATH`
compute. The page must show the value rounded to the digits that it shows; a string, such as a date, must begin with what stands
there. A null is an empty cell or "-".

What must have a source: numbers with a unit of speed, time or ratio (also "three times"), and cells of tables that are numbers.
Prints what is wrong and "N passed, N failed"; exit status 1 means that something is wrong."""

import json
import os
import re
import statistics
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NUMBER = r"\d[\d,]*(?:\.\d+)?"
UNIT = r"(?:%|tok/s|tokens (?:a|per) second|times|x|×|ms|s|seconds?|minutes?|hours?|[MG]B/s|GOP/s|TFLOP/s)(?![\w/])"
WORDS = r"\b(?:two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|hundred) times\b|\btwice\b"
FIGURE = re.compile(rf"(?<![\w.,/])(?:{NUMBER}\s?{UNIT})|{WORDS}", re.I)
CELL = re.compile(rf"\**({NUMBER})\**(?:\s?{UNIT})?\**")
SOURCE = re.compile(r"<!--\s*(bench/results/[\w.-]+\.json):\s*(.*?)\s*-->", re.S)
TABLE = re.compile(r"<!--\s*figures:\s*(\S+)\n(.*?)-->\n+((?:\|[^\n]*\n?)+)", re.S)


class Wrong(Exception):
    pass


def split_path(path):
    """rows[a=b/c]/x -> ["rows", "[a=b/c]", "x"]"""
    return [part for part in re.findall(r"\[[^\]]*\]|[^/\[\]]+", path) if part]


def value_at(value, path):
    parts = split_path(path)
    for i, part in enumerate(parts):
        if part == "[*]" and isinstance(value, list):
            return [value_at(one, "/".join(parts[i + 1:])) for one in value]
        if part.startswith("["):
            wanted = [pair.split("=", 1) for pair in part[1:-1].split(",")]
            found = [one for one in value if all(str(one.get(key)) == text for key, text in wanted)] if isinstance(value, list) else []
            if len(found) != 1:
                raise Wrong(f"{path}: {len(found)} rows are {part}")
            value = found[0]
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, dict) and part in value:
            value = value[part]
        else:
            raise Wrong(f"{path}: there is no {part!r}")
    return value


def value_of(report, expression):
    if match := re.fullmatch(r"(.+) \* ([\d.]+)", expression):
        return value_of(report, match[1]) * float(match[2])
    if match := re.fullmatch(r"(.+) / (.+)", expression):
        return value_of(report, match[1]) / value_of(report, match[2])
    if match := re.fullmatch(r"(count|median|sum) (.+)", expression):
        return {"count": len, "median": statistics.median, "sum": sum}[match[1]](value_at(report, match[2]))
    return value_at(report, expression)


def says(shown, value):
    """Whether a number or text of the page is this value, rounded."""
    if isinstance(value, str):
        return len(shown) >= 4 and value.startswith(shown)
    digits = shown.replace(",", "")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not re.fullmatch(r"\d+(\.\d+)?", digits):
        return False
    decimals = len(digits.partition(".")[2])
    return abs(float(digits) - value) <= 0.5 * 10 ** -decimals + 1e-9


def cells_of(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


class Page:
    def __init__(self, text, root):
        self.text, self.root, self.reports, self.passed, self.wrong = text, root, {}, 0, []

    def report(self, name):
        if name not in self.reports:
            try:
                with open(os.path.join(self.root, name)) as file:
                    self.reports[name] = json.load(file)
            except (OSError, ValueError) as error:
                raise Wrong(f"{name} cannot be read: {error}") from error
        return self.reports[name]

    def compare(self, shown, name, expression, where):
        try:
            value = value_of(self.report(name), expression)
            if value is None and shown in ("", "-") or says(shown, value):
                self.passed += 1
            else:
                self.wrong.append(f"{where}: the page says {shown or 'nothing'}, {name} has {value!r} at {expression}")
        except (Wrong, TypeError, ZeroDivisionError) as error:
            self.wrong.append(f"{where}: {error}")

    def table(self, match):
        name, head, lines = match[1], match[2], match[3].splitlines()
        lists = {key: [one.strip() for one in re.sub(r"\s+", " ", text).split(";") if one.strip()]
                 for key, text in re.findall(r"^(rows|columns):(.*?)(?=^\w+:|\Z)", head, re.S | re.M)}
        rows, columns, body = lists.get("rows", []), lists.get("columns", []), [cells_of(line) for line in lines[2:]]
        if not columns or len(rows) != len(body):
            self.wrong.append(f"table of {name}: it has {len(body)} rows, its comment {len(rows)} rows and {len(columns)} columns")
            return ""
        for row, cells in zip(rows, body):
            for column, cell in zip(columns, cells[-len(columns):]):
                number = CELL.fullmatch(cell)
                self.compare(number[1] if number else cell, name, f"{row}/{column}", f"{cells[0]} ({column})")
            self.loose_cells(cells[:-len(columns)])
        return ""

    def loose_cells(self, cells):
        self.wrong += [f"a cell without a source: {cell}" for cell in cells if CELL.fullmatch(cell)]

    def source(self, match):
        before = self.rest[:match.start()]
        shown = re.search(rf"(\d{{4}}-\d\d-\d\d|{NUMBER})\**(?:[ -]?{UNIT})?\**$", before)
        if not shown:
            self.wrong.append(f"no figure before the comment {match[0]}")
            return match.start()
        self.compare(shown[1], match[1], re.sub(r"\s+", " ", match[2]), before[-50:].replace("\n", " "))
        return shown.start()

    def check(self):
        self.rest = re.sub(r"^```.*?^```", "", self.text, flags=re.S | re.M)
        self.rest = TABLE.sub(self.table, self.rest)
        while match := SOURCE.search(self.rest):
            start = self.source(match)
            self.rest = self.rest[:start] + self.rest[match.end():]
        for line in self.rest.splitlines():
            if line.startswith("|"):
                self.loose_cells(cells_of(line))
        text = re.sub(r"<!--.*?-->|`[^`\n]*`|\]\([^)]*\)|<[^>\n]*>", " ", self.rest, flags=re.S)
        self.wrong += [f"a figure without a source: {match[0]}" for match in FIGURE.finditer(text)]
        return self


def main():
    passed = failed = 0
    for page in sys.argv[1:] or [os.path.join(ROOT, "README.md")]:
        with open(page) as file:
            checked = Page(file.read(), ROOT).check()
        passed, failed = passed + checked.passed, failed + len(checked.wrong)
        for problem in checked.wrong:
            print(f"{os.path.basename(page)}: {problem}")
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
