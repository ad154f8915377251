#!/usr/bin/env python3
"""Checks the links of the repository's Markdown, the navigation of its site, and the site itself.

    tools/check_links.py [--root DIR] [--site DIR] [--external]

--root DIR   the repository (default: this one): every relative link, image and anchor must lead to something, as on a
             page of a code host, and mkdocs.yml must have every page in its navigation
--site DIR   also the site that script/docs built there: every internal link, anchor and image; nothing may be loaded
             from another host, and every page must show what a code host shows
--external   lists the links to other hosts, which are never fetched
Prints what is wrong, and "N passed, N failed"; the exit status is 1 when something failed."""

import argparse
import glob
import html.parser
import os
import re
import subprocess
import sys
import urllib.parse

import markdown_it
import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# The site has all pages of the first kind, and what its navigation names beside them.
SITE_PAGES = ["*.md", "docs/**/*.md", "models/*/README.md", "integrations/*/README.md"]
OTHER_PAGES = [".github/**/*.md", "tools/**/*.md", "tests/**/README.md"]
EXTERNAL = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.I)
CSS_LINK = re.compile(r"url\(\s*[\"']?([^\"')]+)|@import\s*[\"']([^\"']+)")
MARKDOWN = markdown_it.MarkdownIt("commonmark").enable("table").enable("strikethrough")


def unique_slug(title, taken):
    """The anchor of a heading as a code host makes it; taken has those above it."""
    slug = re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")
    name, count = slug, 0
    while name in taken:
        count += 1
        name = f"{slug}-{count}"
    taken.add(name)
    return name


class Html(html.parser.HTMLParser):
    """The links as (target, line, is loaded), the anchors, and the text of the article with its structure."""

    LINKS = {"href", "src", "srcset", "data", "poster", "xlink:href"}
    SILENT = {"script", "style", "template"}
    SHOWN = set("a h1 h2 h3 h4 h5 h6 ul ol li tr td th pre code em strong img blockquote hr".split())

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors, self.words = [], set(), []
        self.in_article, self.silent = 0, 0
        self.feed(text)
        self.close()
        self.article = "".join("".join(self.words).split())

    def handle_starttag(self, tag, attributes):
        attributes = {name: value or "" for name, value in attributes}
        self.anchors |= {attributes[name] for name in (("id", "name") if tag == "a" else ("id",)) if name in attributes}
        for name in self.LINKS & attributes.keys():
            values = re.findall(r"([^\s,]\S*)[^,]*", attributes[name]) if name == "srcset" else [attributes[name]]
            loaded = tag not in ("a", "area") and attributes.get("rel") not in ("next", "prev", "canonical")
            self.links += [(value, self.getpos()[0], loaded) for value in values]
        self.in_article += tag == "article"
        self.silent += tag in self.SILENT or attributes.get("class") == "headerlink"
        if tag in self.SHOWN and self.in_article and not self.silent:
            self.words.append(f"<{tag}>")

    handle_startendtag = handle_starttag

    def handle_endtag(self, tag):
        if tag in ("ul", "ol", "blockquote", "table", "code", "strong", "em") and self.in_article and not self.silent:
            self.words.append(f"</{tag}>")
        self.in_article -= tag == "article"
        self.silent = max(0, self.silent - (tag in self.SILENT or (tag == "a" and self.silent > 0)))

    def handle_data(self, data):
        if self.in_article and not self.silent:
            self.words.append(data)


class Page:
    """A Markdown file: its links as (target, line, is raw HTML), its anchors as a code host makes them, its faults."""

    def __init__(self, text):
        self.text, self.links, self.anchors, self.faults = text, [], set(), []
        tokens = MARKDOWN.parse(text)
        for before, token in zip([None, *tokens], tokens):
            line = token.map[0] + 1 if token.map else 0
            if token.type == "html_block":
                self.add_html(token.content, line)
            for child in token.children or []:
                self.add_inline(child, line)
                line += child.type in ("softbreak", "hardbreak")
            if token.type == "inline" and before.type == "heading_open":
                words = [child.content for child in token.children if child.type in ("text", "code_inline")]
                unique_slug("".join(words), self.anchors)

    def add_inline(self, token, line):
        if token.type == "link_open":
            self.links.append((token.attrs["href"], line, False))
        elif token.type == "image":
            self.links.append((token.attrs["src"], line, False))
        elif token.type == "html_inline":
            self.add_html(token.content, line)
        elif token.type == "text" and (fault := re.search(r"\]\([^)]*\)?|\[[^\][]+\]\[[^\]]*\]", token.content)):
            self.faults.append((fault[0], line))

    def add_html(self, text, line):
        parsed = Html(text)
        self.links += [(target, line + at - 1, True) for target, at, _ in parsed.links]
        self.anchors |= parsed.anchors


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def leaves(nav):
    """The paths of a navigation."""
    if isinstance(nav, str):
        return [nav]
    return [path for item in (nav.values() if isinstance(nav, dict) else nav) for path in leaves(item)]


class Repository:
    def __init__(self, root):
        self.root, self.parsed = root, {}
        listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
        self.tracked = set(listed.stdout.split("\0")) if listed.returncode == 0 else None
        nav = yaml.safe_load(read(os.path.join(root, "mkdocs.yml")))["nav"]
        self.nav = [path for path in leaves(nav) if not EXTERNAL.match(path)]

    def find(self, patterns):
        return {path for pattern in patterns for path in glob.glob(pattern, root_dir=self.root, recursive=True)}

    def pages(self):
        return sorted(filter(self.is_file, self.find(SITE_PAGES + OTHER_PAGES) | set(self.nav)))

    def is_file(self, path):
        """On a code host, too: what git ignores is only here."""
        return os.path.isfile(os.path.join(self.root, path)) and (self.tracked is None or path in self.tracked)

    def page(self, path):
        if path not in self.parsed:
            self.parsed[path] = Page(read(os.path.join(self.root, path)))
        return self.parsed[path]

    def links(self, path):
        """(target, line, is raw HTML, file that it names, anchor) for each link that stays in the repository."""
        for target, line, raw in self.page(path).links:
            if not EXTERNAL.match(target):
                name, _, anchor = target.partition("#")
                name = urllib.parse.unquote(name.partition("?")[0])
                file = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
                yield target, line, raw, file, urllib.parse.unquote(anchor)

    def problem(self, page, target, raw, file, anchor):
        """What is wrong with a link, or None."""
        if not target:
            return "leads nowhere"
        if target.startswith("/"):
            return "starts with /: write it relative to the page"
        if file.startswith(".."):
            return "leads out of the repository"
        if os.path.isdir(os.path.join(self.root, file)):
            return "leads to a folder, which the site cannot show: name a file of it" if page in self.nav else None
        if not self.is_file(file):
            return "git ignores this file" if os.path.exists(os.path.join(self.root, file)) else "there is no such file"
        if anchor and not (file.endswith(".md") and anchor in self.page(file).anchors):
            return "there is no such heading"
        if file.endswith(".md") and page in self.nav:
            if file not in self.nav:
                return "is not a page of the site: add it to the navigation in mkdocs.yml"
            if raw:
                return "is raw HTML, which the site leaves as it is: write it as Markdown"
        return None

    def check_page(self, path):
        """(what, problem or None) for each link."""
        for target, line, raw, file, anchor in self.links(path):
            yield f"{path}:{line}: link {target}", self.problem(path, target, raw, file, anchor)
        for text, line in self.page(path).faults:
            yield f"{path}:{line}: {text}", "is no link: a reference that is defined nowhere, or a space in a link"

    def check_nav(self):
        for path in sorted(self.find(SITE_PAGES) | set(self.nav)):
            count = self.nav.count(path)
            problem = "is missing in the navigation" if count == 0 else "stands there twice" if count > 1 else None
            yield f"mkdocs.yml: {path}", problem if self.is_file(path) else "there is no such file"

    def site_files(self):
        """The pages of the site, and the files that they link to."""
        files = list(self.nav)
        for path in self.nav:
            files += [file for *_, file, _ in self.links(path) if self.is_file(file)]
        return dict.fromkeys(files)


class Site:
    def __init__(self, folder):
        self.folder = folder
        found = sorted(glob.glob("**", root_dir=folder, recursive=True))
        self.files = [path for path in found if os.path.isfile(f"{folder}/{path}")]
        self.pages = {path: Html(read(f"{folder}/{path}")) for path in self.files if path.endswith(".html")}

    def problem(self, page, target, loaded):
        if EXTERNAL.match(target):
            return "is loaded from another host" if loaded and not target.startswith("data:") else None
        if target.startswith("/") and page != "404.html":  # which is shown at any address
            return "starts with /, and is right at the root of a host only"
        name, _, anchor = target.partition("#")
        name = urllib.parse.unquote(name.partition("?")[0])
        file = os.path.normpath(os.path.join(os.path.dirname(page), name).lstrip("/")) if name else page
        if f"{file}/index.html" in self.files or file == ".":
            file = os.path.normpath(f"{file}/index.html")
        if file not in self.files:
            return "there is no such file"
        if anchor and not (file in self.pages and urllib.parse.unquote(anchor) in self.pages[file].anchors):
            return "there is no such anchor"
        return None

    def check_links(self):
        for path, page in self.pages.items():
            for target, line, loaded in page.links:
                yield f"{path}:{line}: link {target}", self.problem(path, target, loaded)
        for path in self.files:
            if path.endswith(".css"):
                for named in CSS_LINK.finditer(read(f"{self.folder}/{path}")):
                    target = (named[1] or named[2]).strip()
                    yield f"{path}: {target[:80]}", self.problem(path, target, True)

    def check_text(self, repository):
        """Markdown has dialects; the site and a code host must show the same."""
        for path in repository.nav:
            built = re.sub(r"(^|/)README\.md$", r"\1index.md", path)[:-3] + ".html"
            if built not in self.pages:
                yield f"{path}", f"the site has no {built}"
                continue
            theirs = Html("<article>" + MARKDOWN.render(repository.page(path).text) + "</article>").article
            ours = self.pages[built].article
            at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
            yield f"{path}: its text", None if ours == theirs else (
                f"the site shows ...{ours[max(0, at - 40):at + 40]}...\n"
                f"a code host shows ...{theirs[max(0, at - 40):at + 40]}...")


def external_links(repository):
    links = {}
    for path in repository.pages():
        for target, line, _ in repository.page(path).links:
            if EXTERNAL.match(target):
                links.setdefault(target, []).append(f"{path}:{line}")
    return links


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=ROOT)
    parser.add_argument("--site")
    parser.add_argument("--external", action="store_true")
    arguments = parser.parse_args()
    repository = Repository(arguments.root)
    checks = [*repository.check_nav(), *(check for path in repository.pages() for check in repository.check_page(path))]
    if arguments.site:
        site = Site(arguments.site)
        checks += [*site.check_links(), *site.check_text(repository)]
    failed = [(what, problem) for what, problem in checks if problem]
    for what, problem in failed:
        print(f"{what}\n    {problem}")
    external = external_links(repository)
    if arguments.external:
        for target, places in sorted(external.items()):
            print(f"{target}  {' '.join(places)}")
    print(f"{len(external)} links to other hosts were not fetched")
    print(f"{len(checks) - len(failed)} passed, {len(failed)} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
