"""tools/check_links.py notices dead links, and no others."""

import os
import shutil
import subprocess
import sys

import pytest

from harness import paths

sys.path.insert(0, os.path.join(paths.ROOT, "tools"))
import check_links

PAGES = {
    "mkdocs.yml": "nav:\n  - Start: README.md\n  - Use:\n      - docs/use.md\n      - More: [docs/deep/more.md]\n",
    "README.md": "# Start\n\n[use](docs/use.md#in-a-table) ![picture](docs/picture.svg)\n",
    "docs/use.md": "# Use\n\n## In `a` table\n\n## Twice\n\n## Twice\n\n[up](../README.md) [more](deep/more.md)\n",
    "docs/deep/more.md": "# More\n\n<a id=\"marked\"></a>[data](../../data/my%20file.json)\n",
    "docs/picture.svg": "<svg/>",
    "data/my file.json": "{}",
    "tools/train/README.md": "# How it was made\n\n[the folder](../../data)\n",
}


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def problems(folder):
    repository = check_links.Repository(str(folder))
    checks = [*repository.check_nav(), *(check for page in repository.pages() for check in repository.check_page(page))]
    return [(what, problem) for what, problem in checks if problem]


def run(*arguments):
    done = subprocess.run([sys.executable, os.path.join(paths.ROOT, "tools/check_links.py"), *arguments],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


@pytest.mark.parametrize("page, planted, message", [
    ("README.md", "[x](docs/nowhere.md)", "no such file"),
    ("README.md", "[x](docs/use.md#nowhere)", "no such heading"),
    ("README.md", "[x](docs/use.md#twice-2)", "no such heading"),
    ("README.md", "[x](docs/use.md#In-a-table)", "no such heading"),
    ("README.md", "[x](#nowhere)", "no such heading"),
    ("README.md", "[x](docs/picture.svg#part)", "no such heading"),
    ("README.md", "[x][y]\n\n[y]: docs/nowhere.md", "no such file"),
    ("README.md", "[x][nowhere]", "defined nowhere"),
    ("README.md", "[x](docs/my use.md)", "a space in a link"),
    ("README.md", "[x]()", "leads nowhere"),
    ("README.md", "| a |\n|---|\n| [x](nowhere.md) |", "no such file"),
    ("README.md", "- one\n  - [x\n    y](nowhere.md \"a title\")", "no such file"),
    ("README.md", "[x](docs)", "leads to a folder"),
    ("README.md", "[x](/docs/use.md)", "starts with /"),
    ("README.md", "[x](../README.md)", "out of the repository"),
    ("README.md", "<a href=\"docs/use.md\">x</a>", "raw HTML"),
    ("README.md", "[x](tools/train/README.md)", "not a page of the site"),
    ("docs/use.md", "![x](docs/picture.svg)", "no such file"),
    ("docs/use.md", "text <img src='nowhere.png'> text", "no such file"),
    ("docs/deep/more.md", "[x](../../README.md#nowhere)", "no such heading"),
    ("tools/train/README.md", "[x](nowhere.json)", "no such file"),
])
def test_a_planted_fault_is_found_where_it_is(tmp_path, page, planted, message):
    write(tmp_path, PAGES)
    assert problems(tmp_path) == []
    line = PAGES[page].count("\n") + 2
    (tmp_path / page).write_text(PAGES[page] + "\n" + planted + "\n")
    (what, problem), = problems(tmp_path)
    assert what.startswith(f"{page}:") and line <= int(what.split(":")[1]) <= line + 2
    assert message in problem


@pytest.mark.parametrize("planted", [
    "`[x](nowhere.md)`", "```\n[x](nowhere.md)\n```", "    [x](nowhere.md)", "<!-- [x](no.md) <a href='no.md'> -->",
    "[x](docs/use.md#twice) [y](docs/use.md#twice-1)", "[x](<data/my file.json>)",
    "[x](docs/deep/more.md#marked 'title')",
    "[x](https://nowhere.invalid/a.md#b)", "<mailto:someone@nowhere.invalid>", "[x](docs/../README.md)", "[x] [ ] a[0]",
    "<img src=\"docs/picture.svg\">",
])
def test_what_is_no_dead_link_is_let_alone(tmp_path, planted):
    write(tmp_path, PAGES)
    (tmp_path / "README.md").write_text(PAGES["README.md"] + "\n" + planted + "\n")
    assert problems(tmp_path) == []


@pytest.mark.parametrize("change, what, message", [
    ({"docs/new.md": "# New\n"}, "docs/new.md", "missing in the navigation"),
    ({"docs/deep/er/new.md": "# New\n"}, "docs/deep/er/new.md", "missing in the navigation"),
    ({"NOTES.md": "# New\n"}, "NOTES.md", "missing in the navigation"),
    ({"mkdocs.yml": PAGES["mkdocs.yml"] + "  - docs/use.md\n"}, "docs/use.md", "twice"),
    ({"mkdocs.yml": PAGES["mkdocs.yml"] + "  - docs/gone.md\n"}, "docs/gone.md", "no such file"),
])
def test_the_navigation_has_every_page_once(tmp_path, change, what, message):
    write(tmp_path, {**PAGES, **change})
    (where, problem), = problems(tmp_path)
    assert where == f"mkdocs.yml: {what}" and message in problem


def test_a_file_that_git_ignores_is_not_there_for_others(tmp_path):
    write(tmp_path, {**PAGES, ".gitignore": "built\n", "built/out.json": "{}"})
    (tmp_path / "README.md").write_text(PAGES["README.md"] + "\n[x](built/out.json)\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (what, problem), = problems(tmp_path)
    assert "built/out.json" in what and problem == "git ignores this file"


def test_this_repository_has_no_dead_link_and_a_copy_with_one_has(tmp_path):
    status, said = run("--external")
    assert status == 0, said
    assert "https://www.boost.org  docs/dependencies.md:" in said and " 0 failed" in said
    repository = check_links.Repository(paths.ROOT)
    needed = {file for page in repository.pages() for *_, file, _ in repository.links(page)}
    for file in {"mkdocs.yml", *repository.pages(), *needed}:
        if os.path.isfile(os.path.join(paths.ROOT, file)):
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(os.path.join(paths.ROOT, file), tmp_path / file)
    assert run("--root", str(tmp_path))[0] == 0
    (tmp_path / "docs/gpu.md").rename(tmp_path / "docs/cards.md")
    status, said = run("--root", str(tmp_path))
    assert status == 1
    for expected in ("link docs/gpu.md", "mkdocs.yml: docs/gpu.md", "mkdocs.yml: docs/cards.md"):
        assert expected + "\n" in said


HTML = "<html><body><a href='{}'>x</a><article><h1 id='top'>Start</h1></article></body></html>"
SITE = {"index.html": HTML.format("docs/use.html#top"), "docs/use.html": HTML.format("../index.html"),
        "404.html": HTML.format("/docs/use.html"), "docs/index.html": HTML.format("."), "assets/a.png": "",
        "assets/a.css": "a { background: url(a.png) } b { background: url('data:x') }"}


@pytest.mark.parametrize("page, planted, message", [
    ("docs/use.html", "<a href='nowhere.html'>", "no such file"),
    ("docs/use.html", "<a href='../index.html#nowhere'>", "no such anchor"),
    ("docs/use.html", "<a href='#nowhere'>", "no such anchor"),
    ("docs/use.html", "<img src='nowhere.png'>", "no such file"),
    ("docs/use.html", "<img srcset='../assets/a.png 1x, nowhere.png 2x'>", "no such file"),
    ("docs/use.html", "<a href='/index.html'>", "starts with /"),
    ("index.html", "<script src='https://elsewhere.invalid/a.js'></script>", "another host"),
    ("index.html", "<link rel=stylesheet href='//elsewhere.invalid/a.css'>", "another host"),
    ("index.html", "<link rel='preconnect' href='https://fonts.invalid'>", "another host"),
    ("index.html", "<img src='https://elsewhere.invalid/a.png'/>", "another host"),
    ("assets/a.css", "@import 'https://elsewhere.invalid/a.css';", "another host"),
    ("assets/a.css", "@import url( //elsewhere.invalid/a.css );", "another host"),
    ("assets/a.css", "b { src: url(\"font.woff\") }", "no such file"),
    ("404.html", "<a href='/nowhere.html'>", "no such file"),
])
def test_a_fault_of_the_built_site_is_found(tmp_path, page, planted, message):
    write(tmp_path, SITE)
    assert [problem for _, problem in check_links.Site(str(tmp_path)).check_links() if problem] == []
    (tmp_path / page).write_text(SITE[page] + planted)
    (what, problem), = [check for check in check_links.Site(str(tmp_path)).check_links() if check[1]]
    assert what.startswith(page) and message in problem


@pytest.mark.parametrize("page, same", [
    ("<h1>Start<a class='headerlink'>P</a></h1><a href='docs/use.html'>use</a>\n<img src='docs/picture.svg'>", True),
    ("<h1>Start</h1><p><a href='docs/use.html'>use</a>", False),
    ("<h1>Start</h1><p>use <img src='docs/picture.svg'></p>", False),
    ("<h2>Start</h2><p><a href='docs/use.html'>use</a> <img src='docs/picture.svg'></p>", False),
    ("<h1>Start</h1><ul><li><a href='docs/use.html'>use</a> <img src='docs/picture.svg'></li></ul>", False),
])
def test_the_site_shows_what_a_code_host_shows(tmp_path, page, same):
    write(tmp_path / "repository", PAGES)
    write(tmp_path / "site", {"index.html": f"<html><nav>menu</nav><article>{page}</article></html>"})
    site, repository = check_links.Site(str(tmp_path / "site")), check_links.Repository(str(tmp_path / "repository"))
    found = dict(site.check_text(repository))
    assert (found["README.md: its text"] is None) == same
    assert found["docs/use.md"] == "the site has no docs/use.html"
