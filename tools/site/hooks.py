"""mkdocs.yml's hooks: the site has the layout of the repository, with the navigation's pages and what they link to."""

import os
import re
import sys

from mkdocs.structure.files import File, Files

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tools"))
import check_links

ROW = re.compile(r"^\|.*$", re.M)
CODE = re.compile("`[^`]*`")
anchors = set()  # of the page that is being made


def on_config(config):
    config.mdx_configs["toc"]["slugify"] = lambda title, separator: check_links.unique_slug(title, anchors)


def on_files(files, config):
    kept = [file for file in files if file.src_dir != config.docs_dir]  # the theme's
    sources = [(ROOT, path) for path in check_links.Repository(ROOT).site_files()] + [(HERE, "iframe-worker.js")]
    return Files(kept + [File(path, folder, config.site_dir, config.use_directory_urls) for folder, path in sources])


def on_page_markdown(markdown, **_):
    """In a cell's code, a code host wants \\| and Python's Markdown a plain |."""
    anchors.clear()
    return ROW.sub(lambda row: CODE.sub(lambda code: code[0].replace("\\|", "|"), row[0]), markdown)
