"""Text of Debian documentation packages (debs/*.deb, fetched with apt-get download) and Python sources -> corpus.u16.xz"""
import sysconfig
import os, re, gzip, html, subprocess, random, sys, glob, lzma
import numpy as np
from html.parser import HTMLParser
random.seed(1)
os.makedirs('x', exist_ok=True)
for d in sorted(glob.glob('debs/*.deb')):
    n = os.path.basename(d).split('_')[0]
    if n in ('linux-doc-6.1', 'emacs-el', 'miscfiles'): continue
    if not os.path.exists('x/' + n): subprocess.run(['dpkg', '-x', d, 'x/' + n], check=True)

class P(HTMLParser):
    def __init__(s):
        super().__init__(); s.o = []; s.skip = 0; s.pre = 0
    def handle_starttag(s, t, a):
        if t in ('script', 'style', 'nav', 'head', 'footer'): s.skip += 1
        if t == 'pre': s.pre += 1
        if t in ('p', 'div', 'li', 'tr', 'h1', 'h2', 'h3', 'h4', 'br', 'pre', 'dt', 'dd', 'section', 'table'): s.o.append('\n')
        if t == 'li': s.o.append('- ')
    def handle_endtag(s, t):
        if t in ('script', 'style', 'nav', 'head', 'footer'): s.skip = max(0, s.skip - 1)
        if t == 'pre': s.pre = max(0, s.pre - 1)
        if t in ('p', 'h1', 'h2', 'h3', 'h4', 'pre', 'ul', 'ol', 'table'): s.o.append('\n')
    def handle_data(s, d):
        if not s.skip: s.o.append(d if s.pre else re.sub(r'\s+', ' ', d))
def totext(p):
    b = open(p, 'rb').read()
    if p.endswith('.gz'):
        try: b = gzip.decompress(b)
        except Exception: return ''
        p = p[:-3]
    if p.endswith('.dz'):
        try: b = gzip.decompress(b)
        except Exception: return ''
    try: t = b.decode('utf8')
    except Exception:
        return ''
    if p.endswith(('.html', '.htm', '.xhtml', '.page', '.xml')):
        q = P()
        try: q.feed(t)
        except Exception: return ''
        t = ''.join(q.o)
        t = re.sub(r'¶', '', t)
    elif re.search(r'\.[1-8]$', p):
        t = re.sub(r'^\.\\".*$', '', t, flags=re.M); t = re.sub(r'^\.(TH|SH|SS) ', '\n', t, flags=re.M); t = re.sub(r'^\.[A-Za-z]+ ?', '', t, flags=re.M); t = re.sub(r'\\f.|\\&|\\-', lambda m: '-' if m[0] == '\\-' else '', t)
    t = re.sub(r'[ \t]+\n', '\n', t); t = re.sub(r'\n{3,}', '\n\n', t).strip()
    return t
def ok(t):
    if len(t) < 400: return False
    s = t[:20000]
    return sum(ord(c) < 128 for c in s) / len(s) > 0.97 and sum(c.isalpha() or c == ' ' for c in s) / len(s) > 0.6
CAP = {'linux-doc-6.12': 5e6, 'rust-doc': 3e6, 'debian-handbook': 2e6, 'gimp-help-en': 2e6, 'bible-kjv-text': 1.5e6, 'dict-foldoc': 3e6, 'fortunes': 1.5e6, 'python3.11-doc': 5e6}
docs = []
for n in sorted(os.listdir('x')):
    fs = []
    for r, _, f in os.walk('x/' + n):
        for y in f:
            p = os.path.join(r, y)
            if os.path.islink(p): continue
            if n == 'debian-handbook' and 'en-US' not in p: continue
            if n == 'gnome-user-docs' and '/C/' not in p: continue
            if re.search(r'(genindex|searchindex|copyright|changelog|all\.html|NEWS)', p): continue
            if n == 'fortunes' and not y.endswith(('.dat', '.u8')): fs.append(p); continue
            if re.search(r'\.(html?|xhtml|page|txt|rst|md|pod|[1-8])(\.gz)?$', y) or y.endswith('.dict.dz'): fs.append(p)
    random.shuffle(fs)
    tot = 0
    for p in fs:
        if tot > CAP.get(n, 1.6e6): break
        t = totext(p)
        if not ok(t): continue
        for i in range(0, len(t), 24000):
            docs.append(t[i:i + 24000])
        tot += len(t)
    print(n, len(fs), int(tot), flush=True)
# code
fs = [p for p in glob.glob(sysconfig.get_paths()['stdlib'] + '/**/*.py', recursive=True) if '/test' not in p and 'site-packages' not in p and 'lib2to3' not in p and 'encodings' not in p]
fs2 = [p for p in glob.glob(sysconfig.get_paths()['purelib'] + '/**/*.py', recursive=True) if re.search(r'/(jinja2|sympy/(core|ntheory|utilities)|networkx/algorithms|accelerate|numpy/lib|huggingface_hub|packaging|tqdm|filelock|fsspec)/', p) and '/tests/' not in p]
tot = 0
for g, cap in ((fs, 7e6), (fs2, 4e6)):
    random.shuffle(g); tot = 0
    for p in g:
        if tot > cap: break
        t = totext(p)
        if len(t) < 400 or sum(ord(c) < 128 for c in t) / len(t) < 0.98: continue
        docs.append(t[:30000]); tot += len(t)
    print('code', len(g), tot)
random.shuffle(docs)
print('docs', len(docs), sum(map(len, docs)))
from tokenizers import Tokenizer
tk = Tokenizer.from_file('tok/tokenizer.json')
ids = []
for i in range(0, len(docs), 256):
    for e in tk.encode_batch(docs[i:i + 256]):
        a = np.array([0] + e.ids, np.uint16)
        ids.append(a)
ids = np.concatenate(ids)
bad = np.isin(ids, [4, 10, 13, 14, 15, 16, 1, 2])
print('special', bad.sum())
ids = ids[~bad]
print('tokens', len(ids))
ids = ids[:11_000_000]
b = lzma.compress(ids.tobytes(), preset=6, filters=None)
open('corpus.u16.xz', 'wb').write(b); print('xz', len(b))
