#!/usr/bin/env python3
"""docs/cli.md, every command and flag, made from the program's own help: make_cli_page.py PROGRAM [--check]

With --check it writes nothing; exit status 1 means that the page is out of date."""

import os
import sys

import make_shell_files as shell_files

PAGE = os.path.join(shell_files.ROOT, "docs", "cli.md")
INTRODUCTION = """# Commands and flags

Made by `tools/make_cli_page.py` from `anabranch COMMAND --help`. Every flag can also be set in a file or in the environment
([configuration.md](configuration.md), where the names that other programs give these flags are listed, too).
"""


def cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;")


def table(entries, head):
    rows = [f"| `{what.replace(',-', ', -')}` | {cell(text)} |" for what, text in entries if not what.startswith("-h,--help")]
    return [f"| {head} | |", "|---|---|", *rows, ""] if rows else []


def flags_of(program, *words):
    out = []
    for heading, lines in shell_files.sections(shell_files.ask(program, *words, "--help")):
        if heading not in ("", "Subcommands", "Examples"):
            out += table(shell_files.entries(lines), {"Options": "Flag", "Positionals": "Argument"}.get(heading, heading))
    return out


def page(program):
    out = [INTRODUCTION, "## For every command\n", *flags_of(program)]
    for name, text in shell_files.commands_of(program):
        out += [f"## anabranch {name}\n", cell(text) + ".\n", *flags_of(program, *name.split())]
    return "\n".join(out).rstrip("\n") + "\n"


def main():
    text = page([os.path.abspath(sys.argv[1])])
    if "--check" in sys.argv:
        with open(PAGE) as file:
            return file.read() != text
    with open(PAGE, "w") as file:
        file.write(text)


if __name__ == "__main__":
    sys.exit(main())
