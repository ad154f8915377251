"""cmake/unity_groups.py, which decides which sources are compiled as one."""

import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def inner(text):
    return "namespace a {\nnamespace {\n\n" + text + "\n\n}  // namespace\n}  // namespace a\n"


def groups(*texts):
    """The names of the files that share a group with others, by group."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for number, text in enumerate(texts):
            paths.append(os.path.join(folder, f"{number}.cc"))
            with open(paths[-1], "w") as file:
                file.write(text)
        made = subprocess.run([sys.executable, os.path.join(ROOT, "cmake", "unity_groups.py"), *paths],
                              capture_output=True, text=True, check=True).stdout
    found = {}
    for line in made.splitlines():
        path, group = line.split("\t")
        found.setdefault(group, []).append(int(os.path.basename(path).removesuffix(".cc")))
    return sorted(found.values())


def test_files_without_common_names_share_a_group():
    assert groups(inner("int one() {\n  return 1;\n}"), inner("int two() {\n  return 2;\n}"), "int three();\n") == [[0, 1, 2]]


def test_files_with_a_common_name_do_not():
    same = ["constexpr int kMost = 5;", "constexpr size_t kOther = 1, kMost = 2;", "int kMost(int a) {\n  return a;\n}",
            "struct kMost {\n  int a;\n};", "using kMost = int;", "enum class kMost { a, b };", "const std::map<int, std::string> kMost = {};",
            "std::vector<std::pair<int, int>> kMost(const std::string& x) {\n  return {};\n}", "template <class T>\nT kMost(T a) {\n  return a;\n}",
            "constexpr const char* kMost[] = {};"]
    for text in same:
        assert groups(inner(text), inner("constexpr int kMost = 1;")) == [], text
    assert groups("#define MOST 1\n", "#define MOST 2\n") == []
    assert groups("static int most() {\n  return 1;\n}\n", inner("int most() {\n  return 2;\n}")) == []


def test_the_same_alias_in_two_files_is_no_conflict():
    for text in ("namespace fs = std::filesystem;", "using testing::Dir;", "using Tokens = std::vector<int>;"):
        assert groups(inner(text), text + "\n") == [[0, 1]], text
    for text in ("using testing::Dir;", "struct Dir {};", "using Dir = int;"):
        assert groups(inner("using other::Dir;"), inner(text)) == [], text


def test_tests_have_the_name_of_their_suite_and_their_own():
    for macro in ("TEST", "TEST_F", "TEST_P"):
        one = inner(macro + "(Suite, One) {\n  EXPECT_TRUE(true);\n}")
        assert groups(one, inner(macro + "(Suite, Two) {\n  EXPECT_TRUE(true);\n}")) == [[0, 1]]
        assert groups(one, one) == []
    all = inner("INSTANTIATE_TEST_SUITE_P(All, One,\n                         testing::Bool());")
    assert groups(all, all.replace("One", "Two")) == [[0, 1]] and groups(all, all) == []


def test_names_within_functions_and_of_named_namespaces_do_not_count():
    assert groups(inner("int one() {\n  constexpr int kMost = 1;\n  return kMost;\n}"), inner("int two() {\n  constexpr int kMost = 2;\n  return kMost;\n}")) == [[0, 1]]
    assert groups("namespace a {\n\nint Thing::run() {\n  return 1;\n}\n\n}  // namespace a\n", inner("int run() {\n  return 2;\n}")) == [[0, 1]]


def test_a_group_is_not_too_long():
    long = "// a line\n" * 1500
    assert groups(long, long, long) == []
    assert groups(*["int x;\n"] * 30) == [list(range(12)), list(range(12, 24)), list(range(24, 30))]


def test_no_file_of_the_project_has_two_groups():
    sources = []
    for folder, _, files in os.walk(os.path.join(ROOT, "src")):
        sources += [os.path.join(folder, file) for file in files if file.endswith(".cc")]
    made = subprocess.run([sys.executable, os.path.join(ROOT, "cmake", "unity_groups.py"), *sorted(sources)],
                          capture_output=True, text=True, check=True).stdout.splitlines()
    paths = [line.split("\t")[0] for line in made]
    assert len(paths) == len(set(paths)) and len(paths) > len(sources) * 0.9
