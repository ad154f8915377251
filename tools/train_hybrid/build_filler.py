"""Text that the tasks quote as filler, from documentation installed on a Debian machine.

usage: build_filler.py --tokenizer TOKENIZER.json --out FILLER.u16.xz [--million 6] [FOLDER...]

Takes README, NEWS, Markdown and POD files of the folders (default: /usr/share/doc and /usr/share/perl). OUT is a compressed
stream of uint16 tokens, each text ended by token 0. Nobody learns this text; it only stands in the questions.
"""
import argparse
import glob
import gzip
import lzma
import random
import re

import numpy as np
from tokenizers import Tokenizer


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--tokenizer', required=True)
    ap.add_argument('--out', required=True)
    ap.add_argument('--million', type=float, default=6, help='million characters at most')
    ap.add_argument('folders', nargs='*', default=['/usr/share/doc', '/usr/share/perl'])
    a = ap.parse_args()
    files = []
    for folder in a.folders:
        for pattern in ('README*', '*.pod', '*.md*', 'NEWS*'):
            files += glob.glob(f'{folder}/**/{pattern}', recursive=True)
    files = sorted(set(files))
    random.Random(1).shuffle(files)
    out, n = [], 0
    for f in files:
        try:
            b = open(f, 'rb').read()
            t = (gzip.decompress(b) if f.endswith('.gz') else b).decode()
        except (OSError, UnicodeDecodeError):
            continue
        t = re.sub(r'\n{3,}', '\n\n', t)
        if len(t) < 400:
            continue
        out.append(t[:40000])
        n += len(out[-1])
        if n > a.million * 1e6:
            break
    tk = Tokenizer.from_file(a.tokenizer)
    ids = np.concatenate([np.array([i for i in e.ids if i > 16] + [0], np.uint16) for e in tk.encode_batch(out)])
    print('files', len(files), 'texts', len(out), 'tokens', len(ids))
    open(a.out, 'wb').write(lzma.compress(ids.tobytes(), preset=1))


if __name__ == '__main__':
    main()
