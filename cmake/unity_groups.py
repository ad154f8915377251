"""Groups of sources that can be compiled as one file: python3 unity_groups.py FILE...

Prints a line for each file that shares a group: its path, a tab, and the group's name. A group is as long as one compiler
run should be. Names in unnamed namespaces belong to their file, and two files may use the same one for different things;
such files never share a group. Nor do two that define a macro, or set one before they include a header, of the same name.
"""
import re
import sys

MOST_LINES = 2400
MOST_FILES = 12

TYPE = re.compile(r"(?:using|struct|class|enum class|enum|union)\s+(?:namespace\s+)?(\w+)")
# What stands before a parenthesis, an initialiser or the end; template arguments are cut out before.
OTHER = re.compile(r"[^=({;\[]*?\b(\w+)\s*[=({;\[]")
ALIAS = re.compile(r"\s*(?:using|namespace)\s+(\w+)\s*=|\s*using\s+(?:namespace\s+)?[\w:]*?(\w+);")
MACRO = re.compile(r"\s*#\s*define\s+(\w+)")


def names_of(text):
    """The names at the outer level of unnamed namespaces, aliases outside of functions, static functions, and macros."""
    names = set()
    unnamed = False
    for line in text.split("\n"):
        if line.startswith("namespace {"):
            unnamed = True
        elif unnamed and re.match(r"}\s*//\s*namespace\b(?!\s*\w)", line):
            unnamed = False
        elif macro := MACRO.match(line):
            names.add(macro[1])
        elif line[:1] not in ("", " ", "\t", "/", "}", "#"):
            line = line.split("//")[0]
            if alias := ALIAS.match(line):
                names.add(alias[1] or alias[2])
            elif unnamed or line.startswith("static "):
                while (shorter := re.sub(r"<[^<>()]*>", "", line)) != line:
                    line = shorter
                found = TYPE.match(line) or OTHER.match(line)
                if found and found[1] != "static_assert":
                    names.add(found[1])
                if line.startswith("const"):
                    names.update(re.findall(r"(\w+)(?:\[\w*\])?\s*=", line))  # several in one declaration
    return names


def main():
    groups = []  # [lines, files, names]
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        lines, names = text.count("\n"), names_of(text)
        for group in groups:
            if group[0] + lines <= MOST_LINES and len(group[1]) < MOST_FILES and not group[2] & names:
                break
        else:
            groups.append(group := [0, [], set()])
        group[0] += lines
        group[1].append(path)
        group[2].update(names)
    for number, (_, files, _) in enumerate(groups):
        if len(files) > 1:
            for path in files:
                print(f"{path}\t{number}")


main()
