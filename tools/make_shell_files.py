#!/usr/bin/env python3
"""The manual page and the shells' completions, made from the program's own help: make_shell_files.py FOLDER PROGRAM...

PROGRAM is several words for an emulator and its program. Writes FOLDER/anabranch.1.gz, anabranch (bash), _anabranch (zsh),
anabranch.fish and changelog.gz."""

import gzip
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SEE_ALSO = "The documentation is at /usr/share/doc/anabranch/README.md and in the source's docs/."


def ask(program, *words):
    return subprocess.run([*program, *words], capture_output=True, text=True, check=True,
                          env=os.environ | {"COLUMNS": "100"}).stdout


def troff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text)


def sections(text):
    """[(heading, lines)] of a help text; the first heading is empty."""
    out = [("", [])]
    for line in text.splitlines():
        match = re.match(r"^([A-Z]\w+):\s*$", line)
        if match:
            out.append((match[1], []))
        else:
            out[-1][1].append(line)
    return out


def entries(lines):
    """[(what, explanation)] of a help's list, joined over its lines."""
    out = []
    for line in lines:
        if re.match(r"^  \S", line):
            what, _, text = line.strip().partition("  ")
            out.append([re.sub(r" Needs: .*", "", what), text.strip()])
        elif line.startswith("   ") and out:
            out[-1][1] = (out[-1][1] + " " + line.strip()).strip()
    return out


def commands_of(program, *words):
    """[(command, explanation)], those of commands that have their own included."""
    out = []
    for heading, lines in sections(ask(program, *words, "--help")):
        for name, text in entries(lines) if heading == "Subcommands" else []:
            out += [(" ".join([*words, name]), text), *commands_of(program, *words, name)]
    return out


def manual(program):
    version = ask(program, "--version").strip()
    top = sections(ask(program, "--help"))
    out = [f'.TH ANABRANCH 1 "" "anabranch {version}" "User Commands"', ".SH NAME",
           "anabranch \\- runs hybrid language models and transformers on this machine", ".SH SYNOPSIS",
           ".B anabranch\n[\\fIOPTIONS\\fR] \\fICOMMAND\\fR [\\fICOMMAND OPTIONS\\fR]", ".SH OPTIONS"]
    for what, text in entries(next(lines for name, lines in top if name == "Options")):
        out += [".TP", f"\\fB{troff(what)}\\fR", troff(text)]
    out.append(".SH COMMANDS")
    for name, text in commands_of(program):
        out += [f'.SS "{name}"', troff(text) + "."]
        for heading, lines in sections(ask(program, *name.split(), "--help"))[1:]:
            if heading in ("Subcommands", "Positionals") or entries(lines):
                out += [".PP", f"{heading}:"]
            for what, explanation in entries(lines):
                out += [".TP", f"\\fB{troff(what)}\\fR", troff(explanation)]
    out += [".SH FILES", ".TP", "\\fI~/.config/anabranch/anabranch.toml\\fR", "Settings.", ".TP",
            "\\fI~/.cache/anabranch\\fR", "Kept states, and what can be made again.", ".TP",
            "\\fI~/.cache/huggingface/hub\\fR", "Models.", ".SH SEE ALSO", troff(SEE_ALSO)]
    return "\n".join(line for line in out if line) + "\n"


def write_gz(path, text):
    with open(path, "wb") as file, gzip.GzipFile(fileobj=file, mode="wb", compresslevel=9, mtime=0, filename="") as out:
        out.write(text.encode())


def main():
    folder, *program = sys.argv[1:]
    write_gz(os.path.join(folder, "anabranch.1.gz"), manual(program))
    with open(os.path.join(ROOT, "CHANGELOG.md")) as file:
        write_gz(os.path.join(folder, "changelog.gz"), file.read())
    for shell, name in (("bash", "anabranch"), ("zsh", "_anabranch"), ("fish", "anabranch.fish")):
        with open(os.path.join(folder, name), "w") as file:
            file.write(ask(program, "completions", shell))


if __name__ == "__main__":
    main()
