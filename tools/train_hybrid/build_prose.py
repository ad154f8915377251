"""English prose from Debian documentation packages, as plain-text training documents.

usage: build_prose.py UNPACKED_DIR TOKENIZER.json OUT.npz [QUOTES.json]

UNPACKED_DIR holds one folder per package (`dpkg -x`). SOURCES names the packages used, the licence of their text, which
files count, and how many tokens at most are taken. A document is a page, cut at paragraphs into pieces of up to PIECE
tokens; a paragraph that occurred before is left out. OUT.npz: t (uint16 tokens, each piece ended by token 0),
l (lengths), s (index of the source), names. QUOTES.json: the
paragraphs, for prompts that quote a text.
"""

import glob
import gzip
import html.parser
import json
import os
import random
import re
import sys

import numpy as np
from tokenizers import Tokenizer

PIECE = 1000
# package: (licence of the text, pattern of the path that counts, pattern that does not, at most so many tokens)
SOURCES = {
    'anarchism': ('GPL-2', r'\.md(\.gz)?$', None, 900e3),
    'apache2-doc': (
        'Apache-2.0',
        r'/en/.*\.html$|\.html\.en$|[a-z]\.html$',
        r'\.(de|es|fr|ja|ko|tr|pt-br|zh-cn|da|ru)\b',
        500e3,
    ),
    'apt-doc': ('GPL-2+', r'\.en.*html|offline.*html|text', r'\.(de|es|fr|it|ja|nl|pl|pt|pt_BR)[./]', 100e3),
    'aptitude-doc-en': ('GPL-2+', r'\.html(\.gz)?$', None, 150e3),
    'bind9-doc': ('MPL-2.0', r'\.html$', r'genindex|search', 200e3),
    'debian-edu-doc-en': ('GPL-2+', r'\.html$', None, 250e3),
    'debian-faq': ('GPL-2', r'en.*\.html$|\.en\.html$|faq.*\.html$', None, 100e3),
    'debian-handbook': ('GPL-2+ or CC-BY-SA-3.0', r'en-US.*\.html$', None, 450e3),
    'debian-policy': ('GPL-2+', r'\.html$', r'upgrading-checklist', 250e3),
    'debian-reference-en': ('GPL-2+', r'\.html$', None, 200e3),
    'developers-reference': ('GPL-2', r'\.html$', r'/(de|fr|ja|it|ru)/', 150e3),
    'dict-devil': ('public domain', r'\.dict\.dz$', None, 150e3),
    'dict-jargon': ('public domain', r'\.dict\.dz$', None, 400e3),
    'docutils-doc': ('public domain, BSD-2-clause', r'\.txt(\.gz)?$', r'/test|/_', 200e3),
    'exim4-doc-info': ('GPL-2+', r'\.info', None, 300e3),
    'freedombox-doc-en': ('CC-BY-SA-3.0', r'\.html$', None, 250e3),
    'freebsd-manpages': ('BSD', r'man[47]/', None, 300e3),
    'git-doc': ('GPL-2', r'\.txt(\.gz)?$', r'RelNotes', 450e3),
    'gnome-user-docs': ('CC-BY-SA-3.0', r'/C/.*\.page$', None, 500e3),
    'gnuplot-doc': ('gnuplot licence (free)', r'\.html$', None, 100e3),
    'harden-doc': ('GPL-2', r'/en.*\.html$|en-US.*\.html$', None, 250e3),
    'installation-guide-amd64': ('GPL-2', r'/en/.*\.html$', None, 150e3),
    'libreoffice-help-en-us': ('MPL-2.0', r'\.html$', None, 450e3),
    'linux-doc-6.1': ('GPL-2', r'\.rst(\.gz)?$', r'translations|devicetree', 1500e3),
    'llvm-19-doc': ('Apache-2.0 with LLVM exceptions', r'\.txt(\.gz)?$', r'CommandGuide', 600e3),
    'manpages': ('Linux man-pages licences, GPL-2+', r'man[57]/', None, 450e3),
    'manpages-dev': ('Linux man-pages licences, GPL-2+', r'man2/', None, 300e3),
    'maxima-doc': ('GPL-2', r'\.html$', None, 200e3),
    'nodejs-doc': ('MIT', r'\.md(\.gz)?$', None, 350e3),
    'octave-doc': ('GPL-3+', r'\.html$', r'_002|doxyhtml|doxygen', 300e3),
    'perl-doc': ('GPL-1+ or Artistic', r'/(perl\w*|pod/.*)\.pod(\.gz)?$', r'perl5\d+delta|perl(cn|jp|ko|tw)', 800e3),
    'postgresql-doc-15': ('PostgreSQL', r'\.html$', r'release-', 800e3),
    'python-django-doc': ('BSD-3-Clause', r'\.html$', r'releases|genindex|_modules', 600e3),
    'python-flask-doc': ('BSD-3-Clause', r'\.html$', r'genindex|_modules', 100e3),
    'python-sqlalchemy-doc': ('MIT', r'\.rst(\.gz)?$', r'changelog', 300e3),
    'python-werkzeug-doc': ('BSD-3-Clause', r'\.html$', r'genindex|_modules', 60e3),
    'python3.11-doc': (
        'PSF-2',
        r'/(tutorial|howto|faq|using|library|reference|whatsnew|extending|installing|distributing)/.*\.html$',
        None,
        900e3,
    ),
    'rust-doc': (
        'MIT or Apache-2.0',
        r'/(book|reference|nomicon|rust-by-example|cargo|edition-guide|embedded-book|rustc|rustdoc|unstable-book|error_codes)/.*\.html$',
        r'print\.html',
        700e3,
    ),
    'selinux-policy-doc': ('GPL-2+', r'man8|\.8', None, 60e3),
    'sphinx-doc': ('BSD-2-clause', r'\.html$', r'genindex|changes|_modules', 200e3),
    'sqlite3-doc': ('public domain', r'\.html$', r'releaselog|changes|/c3ref/|syntax', 600e3),
    'vim-doc': ('Vim licence', r'\.html$', r'tags\.html|version\d', 500e3),
    'zsh-doc': ('zsh licence (MIT-like)', r'\.html(\.gz)?$', r'Index', 200e3),
}
WORDS = frozenset('the of and to in is that it for as with are be this on by an or which from can not you if will was'.split())
LIGATURE = str.maketrans(
    {
        '“': '"',
        '”': '"',
        '‘': "'",
        '’': "'",
        '\u00a0': ' ',
        '–': '-',
        '—': ' - ',
        '…': '...',
        '\u00ad': None,
        '¶': None,
        '\u200b': None,
    }
)


class Page(html.parser.HTMLParser):
    """The text of a page, blocks apart; navigation, scripts and tables of links are left out."""

    BLOCK = frozenset(
        'p div li dt dd h1 h2 h3 h4 h5 h6 pre tr table ul ol dl section article title blockquote body note'.split()
    )
    SKIP = frozenset('script style nav header footer head form button svg select'.split())

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.out, self.skip, self.pre = [], 0, 0

    def handle_starttag(self, tag, attrs):
        if tag in self.SKIP:
            self.skip += 1
        if tag in self.BLOCK:
            self.out.append('\n\n')
        if tag == 'pre':
            self.pre += 1
        if tag == 'br':
            self.out.append('\n')

    def handle_endtag(self, tag):
        if tag in self.SKIP:
            self.skip = max(0, self.skip - 1)
        if tag in self.BLOCK:
            self.out.append('\n\n')
        if tag == 'pre':
            self.pre = max(0, self.pre - 1)

    def handle_data(self, data):
        if not self.skip:
            self.out.append(data if self.pre else re.sub(r'\s+', ' ', data))


def from_html(t):
    p = Page()
    try:
        p.feed(t)
    except Exception:
        return ''
    return ''.join(p.out)


def from_man(t):
    out = []
    for line in t.split('\n'):
        if line.startswith(('.\\"', "'\\\"", '.TH', '.ds', '.de', '.if', '.ie', '.el', '.nr', '.so', '.Dd', '.Dt', '.Os')):
            continue
        m = re.match(r"[.']\s*([A-Za-z]+)\s*(.*)", line)
        if m:
            name, rest = m.groups()
            rest = rest.replace('"', '')
            if name in (
                'PP',
                'LP',
                'P',
                'IP',
                'TP',
                'SH',
                'SS',
                'Sh',
                'Ss',
                'Pp',
                'It',
                'Bl',
                'El',
                'RS',
                'RE',
                'nf',
                'fi',
                'EX',
                'EE',
                'sp',
                'Bd',
                'Ed',
            ):
                out.append('\n\n' + (rest.capitalize() + '\n\n' if name in ('SH', 'SS', 'Sh', 'Ss') else ''))
                if name not in ('SH', 'SS', 'Sh', 'Ss', 'IP', 'TP', 'RS', 'sp', 'Bl', 'It', 'Bd'):
                    out.append(rest)
            elif name in ('BR', 'IR', 'RB', 'RI', 'BI', 'IB'):
                out.append(rest.replace(' ', '') + ' ')
            else:
                out.append(rest + ' ')
        else:
            out.append(line + ' ')
    t = ''.join(out)
    t = re.sub(r'\\f[A-Z]|\\f\(..|\\f\[.*?\]|\\&|\\/|\\,|\\c|\\s[-+]?\d', '', t)
    t = (
        t.replace('\\-', '-')
        .replace('\\(aq', "'")
        .replace('\\(dq', '"')
        .replace('\\(em', ' - ')
        .replace('\\e', '\\')
        .replace('\\ ', ' ')
    )
    return re.sub(r'\\\(..|\\\[.*?\]|\\\*.', '', t)


def from_rst(t):
    t = re.sub(r'^\.\. (?!note|warning).*(\n[ \t]+.*|\n(?=\n[ \t]))*', '', t, flags=re.M)
    t = re.sub(r'^([=\-~^"\'`#*+:.]{3,})$', '', t, flags=re.M)
    t = re.sub(r':[\w:+-]+:`([^`<]*?)(\s*<[^`>]*>)?`', r'\1', t)
    return re.sub(r'``([^`]*)``', r'`\1`', t)


def from_md(t):
    t = re.sub(r'^---\n.*?\n---\n', '', t, flags=re.S)
    t = re.sub(r'<!--.*?-->', '', t, flags=re.S)
    t = re.sub(r'\[([^\]]*)\]\([^)]*\)|\[([^\]]*)\]\[[^\]]*\]', lambda m: m.group(1) or m.group(2) or '', t)
    return re.sub(r'<[^>]{1,80}>', '', t)


def from_pod(t):
    t = re.sub(r'^=(head\d|item)\s+(.*)$', r'\n\2\n', t, flags=re.M)
    t = re.sub(r'^=(begin|for)\b.*?^=end.*?$', '', t, flags=re.M | re.S)
    t = re.sub(r'^=\w+.*$', '', t, flags=re.M)
    for _ in range(2):
        t = re.sub(r'[A-Z]<<\s(.*?)\s>>|[A-Z]<([^<>]*)>', lambda m: (m.group(1) or m.group(2) or '').split('|')[0], t)
    return t


def read(path):
    b = open(path, 'rb').read()
    if b[:2] == b'\x1f\x8b':
        b = gzip.decompress(b)
    return b.decode('utf-8', 'replace')


def paragraphs(path):
    """-> paragraphs of the file, whitespace put in order; code keeps its lines"""
    t = read(path)
    name = re.sub(r'\.gz$', '', path)
    if re.search(r'\.(html|page|html\.en)$|/text', name) or t[:200].lstrip().lower().startswith(
        ('<!doctype', '<html', '<?xml')
    ):
        t = from_html(t)
    elif '/man/' in name or re.search(r'/man\d/', name):
        t = from_man(t)
    elif name.endswith('.rst') or (name.endswith('.txt') and ('sphinx' in name or 'docutils' in name or 'llvm' in name)):
        t = from_rst(t)
    elif name.endswith('.md'):
        t = from_md(t)
    elif name.endswith('.pod'):
        t = from_pod(t)
    elif name.endswith('.txt'):
        t = re.sub(r'linkgit:(\S+?)\[(\d)\]', r'\1(\2)', t)
        t = re.sub(r'^(\[\[.*\]\]|\[.*\]|--+|==+|~~+|\+|//.*)$', '', t, flags=re.M)
        t = re.sub(r'<<[^,>]*,([^>]*)>>', r'\1', t)
    t = t.translate(LIGATURE).replace('\r', '')
    out = []
    for p in re.split(r'\n\s*\n', t):
        if not p.strip():
            continue
        code = bool(re.match(r'( {3,}|\t)', p)) and not name.endswith(('.page', '.html', '.dz'))
        p = '\n'.join(x.rstrip() for x in p.strip('\n').split('\n')) if code else re.sub(r'\s+', ' ', p).strip()
        out.append(p)
    return out


def prose_like(p):
    w = re.findall(r"[A-Za-z']+", p)
    if len(w) < 8:
        return False
    common = sum(x.lower() in WORDS for x in w) / len(w)
    letters = sum(c.isalpha() or c == ' ' for c in p) / len(p)
    strange = sum(ord(c) > 0x24F for c in p)
    return common > 0.16 and letters > 0.82 and strange < 3 and len(w) / max(1, p.count('\n') + 1) > 4


def document(ps, seen):
    """Keeps prose and what stands short between it (headings, a line of code); drops pages of lists and tables."""
    good = [prose_like(p) for p in ps]
    out = []
    for i, p in enumerate(ps):
        if len(p) > 4000 or sum(ord(c) > 0x24F for c in p) > 3:
            continue
        key = hash(p)
        if len(p) > 60 and key in seen:
            continue
        near = good[i] or (i + 1 < len(ps) and good[i + 1]) or (i > 0 and good[i - 1])
        if not near or (not good[i] and len(p) > 500):
            continue
        seen.add(key)
        out.append((p, good[i]))
    total = sum(len(p) for p, _ in out)
    if total < 500 or sum(len(p) for p, g in out if g) < 0.7 * total:
        return []
    return out


def main():
    root, tokenizer, target = sys.argv[1:4]
    tk = Tokenizer.from_file(tokenizer)
    rnd = random.Random(1)
    seen, tokens, lengths, source, quotes = set(), [], [], [], []
    names = list(SOURCES)
    for si, name in enumerate(names):
        licence, take, drop, limit = SOURCES[name]
        files = [f for f in glob.glob(f'{root}/{name}/**/*', recursive=True) if os.path.isfile(f) and not os.path.islink(f)]
        files = [
            f
            for f in files
            if re.search(take, f)
            and not (drop and re.search(drop, f))
            and 'copyright' not in f
            and 'changelog' not in f.lower()
        ]
        rnd.shuffle(files)
        n = 0
        for f in files:
            if n >= limit:
                break
            ps = paragraphs(f)
            if f.endswith('.dz'):
                docs = [document(ps[i : i + 12], seen) for i in range(20, len(ps), 12)]
                rnd.shuffle(docs)
            else:
                docs = [document(ps, seen)]
            for doc in docs:
                if not doc or n >= limit:
                    continue
                enc = tk.encode_batch([p for p, _ in doc])
                piece, size = [], 0

                def flush():
                    nonlocal piece, size, n
                    if size > 60:
                        ids = [i for i in tk.encode('\n\n'.join(piece)).ids if i > 16] + [0]
                        tokens.append(np.array(ids, np.uint16))
                        lengths.append(len(ids))
                        source.append(si)
                        n += len(ids)
                    piece, size = [], 0

                for (p, good), e in zip(doc, enc):
                    if size + len(e.ids) > PIECE:
                        flush()
                    piece.append(p)
                    size += len(e.ids) + 1
                    if good and 150 < len(p) < 900 and '\n' not in p and p[0].isupper() and p[-1] in '.!':
                        quotes.append((names[si], p))
                flush()
        print(f'{name}: {len(files)} files, {n / 1e3:.0f}k tokens, {licence}', flush=True)
    np.savez(
        target, t=np.concatenate(tokens), l=np.array(lengths, np.int64), s=np.array(source, np.uint8), names=np.array(names)
    )
    print('tokens', sum(lengths), 'documents', len(lengths), 'quotes', len(quotes))
    if len(sys.argv) > 4:
        json.dump(quotes, open(sys.argv[4], 'w'))


if __name__ == '__main__':
    main()
