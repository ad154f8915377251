"""tools/mutate: how faults are read and planted."""

import importlib.machinery
import importlib.util
import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def load_tool():
    loader = importlib.machinery.SourceFileLoader("mutate", str(ROOT / "tools" / "mutate"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutate", loader))
    os.sys.modules["mutate"] = module  # dataclasses look there
    loader.exec_module(module)
    return module


mutate = load_tool()
TEXT = "int f(int a) {\n  if (a > 1) return 2;\n  g(a);\n  return a + 1;\n}\nint h(int a) {\n  g(a);\n}\n"


def mutant(number=1, **row):
    row = {"file": "f.cc", "sees": "Nothing.", "new": ""} | row
    return mutate.read_row(f"area-{number}", number, row, root)


@pytest.fixture(autouse=True)
def folder(tmp_path):
    global root
    root = tmp_path
    (tmp_path / "f.cc").write_text(TEXT)


def planted(*mutants):
    text = mutate.planted(TEXT, mutants)
    assert text.startswith('#include "base/mutant.h"\n#line 1\n')
    return text.split("\n", 2)[2]


def test_a_statement_becomes_a_choice_on_the_same_line():
    text = planted(mutant(old="if (a > 1) return 2;", new="if (a > 2) return 2;"))
    assert text.split("\n")[1] == "  { if (anabranch_mutant(1)) { if (a > 2) return 2; } else { if (a > 1) return 2; } }"
    assert text.count("\n") == TEXT.count("\n")


def test_an_expression_becomes_a_choice():
    assert "return (anabranch_mutant(7) ? (a) : (a + 1));" in planted(mutant(7, old="a + 1", new="a"))


def test_mutants_may_lie_within_each_other():
    text = planted(mutant(1, old="if (a > 1) return 2;"), mutant(2, old="a > 1", new="a > 0"))
    assert "{ if (anabranch_mutant(1)) {  } else { if ((anabranch_mutant(2) ? (a > 0) : (a > 1))) return 2; } }" in text
    assert planted(mutant(2, old="a > 1", new="a > 0"), mutant(1, old="if (a > 1) return 2;")) == text


@pytest.mark.parametrize("old", ["int a = f(1);", "const auto& [a, b] = pair();", "std::vector<int> a(3, 1);", "TRY(auto a, f());", "if (a > 1)", "for (;;)",
                                 "else g(a);\n// and", "= a", "= a;", ".a = 1", "g(a);\n // more"])
def test_what_is_neither_statements_nor_an_expression_is_refused(old):
    (root / "f.cc").write_text(old)
    with pytest.raises(mutate.Wrong, match="area-1: `old` "):
        mutant(old=old)


def test_the_end_of_a_statement_is_refused(tmp_path):
    with pytest.raises(mutate.Wrong, match="area-1: `old` ends a statement that begins before it; leave out the ;"):
        mutant(old="a + 1;", new="a;")
    for before in ("a();", "if (a)", "else", "{", "case 1:", "a();  // why", "#ifdef A"):
        (tmp_path / "f.cc").write_text(f"{before}\n  g(a);\n")
        mutant(old="g(a);")


def test_the_middle_of_a_string_is_refused():
    (root / "f.cc").write_text("query(\"SELECT 1\\\" WHERE a\", 'x', '\"', b);")
    with pytest.raises(mutate.Wrong, match="in the middle of a string"):
        mutant(old="WHERE a")
    assert mutant(old="b").old == "b"


@pytest.mark.parametrize("old", ["g(a);", "if (a > 1) return 2;", "a + 1", "CHECK(a);", "return f(a);", "CacheMark{a, b}", "[&] { g(a); }", "list.push_back(a);", "a = 1;"])
def test_statements_and_expressions_are_taken(old):
    (root / "f.cc").write_text(old)
    assert mutant(old=old).old == old


def test_two_mutants_of_the_same_text():
    text = planted(mutant(1, old="a + 1", new="a"), mutant(2, old="a + 1", new="a + 2"))
    assert "(anabranch_mutant(1) ? (a) : ((anabranch_mutant(2) ? (a + 2) : (a + 1))))" in text


def test_crossing_mutants_are_refused():
    with pytest.raises(mutate.Wrong, match="area-2 crosses"):
        planted(mutant(1, old="return 2;\n  g(a);"), mutant(2, old="g(a);\n  return a + 1;"))


def test_after_chooses_among_several():
    found = mutant(old="g(a);", after="int h(")
    assert found.line == 7
    with pytest.raises(mutate.Wrong, match="2 times"):
        mutant(old="g(a);")


@pytest.mark.parametrize("row, says", [
    ({"old": "missing();"}, "does not contain"),
    ({"old": "a + 1", "after": "int k("}, "does not contain 'int k"),
    ({"old": "a + 1", "file": "g.cc"}, "there is no g.cc"),
    ({"old": "a + 1", "more": 1}, "unknown keys"),
    ({}, r"\['old'\] missing"),
])
def test_a_wrong_row_says_what_is_wrong(row, says):
    with pytest.raises(mutate.Wrong, match=says):
        mutant(**row)


def test_every_row_of_the_project_fits_its_file():
    mutants = mutate.load()
    assert len(mutants) > 150
    by_file = {}
    for found in mutants:
        by_file.setdefault(found.file, []).append(found)
    for path, found in by_file.items():
        mutate.planted((ROOT / path).read_text(), found)
