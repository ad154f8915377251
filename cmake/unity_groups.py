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
# What GoogleTest's macros define is named after both of their first arguments.
TEST = re.compile(r"(?:TEST|TEST_F|TEST_P|TYPED_TEST|INSTANTIATE_TEST_SUITE_P)\((\w+), *(\w+)")


def names_of(text):
    """{name: what it is} at the outer level of unnamed namespaces, of aliases outside of functions, static functions, and macros.
    Two aliases of the same are equal, and nothing else is."""
    names = {}
    unnamed = False
    for line in text.split("\n"):
        if line.startswith("namespace {"):
            unnamed = True
        elif unnamed and re.match(r"}\s*//\s*namespace\b(?!\s*\w)", line):
            unnamed = False
        elif macro := MACRO.match(line):
            names[macro[1]] = object()
        elif line[:1] not in ("", " ", "\t", "/", "}", "#"):
            line = line.split("//")[0]
            if alias := ALIAS.match(line):
                names[alias[1] or alias[2]] = line.strip()
            elif test := TEST.match(line):
                names[f"{test[1]}.{test[2]}"] = object()
            elif unnamed or line.startswith("static "):
                while (shorter := re.sub(r"<[^<>()]*>", "", line)) != line:
                    line = shorter
                found = TYPE.match(line) or OTHER.match(line)
                if found and found[1] != "static_assert":
                    names[found[1]] = object()
                if line.startswith("const"):
                    names.update(dict.fromkeys(re.findall(r"(\w+)(?:\[\w*\])?\s*=", line), object()))  # several in one declaration
    return names


def main():
    groups = []  # [lines, files, names]
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        lines, names = text.count("\n"), names_of(text)
        for group in groups:
            if group[0] + lines <= MOST_LINES and len(group[1]) < MOST_FILES and \
                    all(group[2].get(name, one) == one for name, one in names.items()):
                break
        else:
            groups.append(group := [0, [], {}])
        group[0] += lines
        group[1].append(path)
        group[2].update(names)
    for number, (_, files, _) in enumerate(groups):
        if len(files) > 1:
            for path in files:
                print(f"{path}\t{number}")


main()
