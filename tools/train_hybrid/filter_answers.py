"""What the teacher wrote (generate_answers.py) -> questions and answers worth learning from, as compressed text.

usage: filter_answers.py --tokens DIR --tokenizer qtok.json --out DIR [--length 448] [--procs N] [--pieces N]

Writes OUT/answers_<n>.jsonl.xz, one conversation a line: [kind, [question, answer], ...]; kind 0 is a listed prompt, 1 the
teacher's own prompt, 2 a conversation of several turns. Prints how many were dropped for which reason.
"""

import argparse
import collections
import glob
import hashlib
import json
import lzma
import os
import re
from multiprocessing import get_context

import numpy as np
from tokenizers import Tokenizer

from evalset import blocked

os.environ['TOKENIZERS_PARALLELISM'] = 'false'
KEEP = 80000
START, END = KEEP + 1, KEEP + 2
MAX_ANSWER = 228
CODE_WANTED = re.compile(
    r'^(please |can you |could you )?(write|create|give me|show me|implement|python code|javascript code|sql query|html code|i need a)\b.*\b(function|code|script|program|sql|html|method|snippet|command|query|subroutine)\b',
    re.I,
)
OTHER_MAKER = re.compile(r'\b(qwen|alibaba|tongyi|openai|anthropic|chatgpt|gpt-?[345]|claude|gemini|deepseek)\b', re.I)
SELF = re.compile(
    r"as an? (ai|artificial|large|language|digital|virtual)\b.{0,30}(model|assistant)?|i'?m (just )?an? (ai|artificial|computer program|language model|digital|virtual)|i am an? (ai|artificial|language model|virtual)|my name is|i was (created|developed|trained|made)",
    re.I,
)
REFUSAL = re.compile(
    r"i'm sorry, but|i am sorry, but|i cannot assist|i can't assist|i can't help with|i cannot help|i'm unable to|i am unable to|unfortunately, i",
    re.I,
)
NO_CONTEXT = re.compile(
    r'(following (text|code|sentence|passage|list|paragraph|table|image|function|article|sentences|options|data)|given (text|passage|code)|above|below|attached|this (image|picture|code|file|article|passage))',
    re.I,
)


def bad_question(q):
    if not 2 <= len(q) <= 1300:
        return 'question length'
    if q[-1] not in '.?!:"`)\'' and len(q.split()) > 14:
        return 'question cut'
    if NO_CONTEXT.search(q) and len(q) < 110 and '\n' not in q and '"' not in q and ': ' not in q:
        return 'no context'
    if sum(ord(c) > 0x2E7F for c in q) or len(re.findall(r'[\u0400-\u06ff]', q)) > 12:
        return 'script'
    return ''


def bad_answer(q, a):
    if not a:
        return 'empty'
    if a.count('```') % 2:
        return 'fence'
    if CODE_WANTED.search(q) and '```' not in a and 'one-liner' not in q:
        return 'no code'
    if OTHER_MAKER.search(q + ' ' + a):
        return 'name'
    if SELF.search(a):
        return 'self'
    if REFUSAL.search(a):
        return 'refusal'
    if sum(ord(c) > 0x2E7F for c in a) > 2 or len(re.findall(r'[\u0400-\u06ff]', a)) > 12:
        return 'script'
    lines = [x.strip() for x in a.split('\n') if len(x.strip()) > 12]
    if len(lines) > 4 and len(set(lines)) < 0.75 * len(lines):
        return 'repeated lines'
    words = a.lower().split()
    if len(words) > 40 and '```' not in a:
        top = collections.Counter(zip(words, words[1:], words[2:], words[3:])).most_common(1)[0][1]
        if top > 4:
            return 'repeated words'
    if (a[-1] not in '.!?`)"\':;*]}>|' and len(a) > 200 and '```' not in a) or a.endswith(':'):
        return 'cut'
    if re.match(r'(sure|certainly|of course|absolutely)[!,.]?\s*$', a, re.I):
        return 'thin'
    if len(q) > 60 and a.strip().lower() == q.strip().lower():
        return 'echo'
    return ''


def clean(a):
    a = a.strip()
    if len(a) > 60:
        a = re.sub(r'^(Sure|Certainly|Of course|Absolutely|Great question)[!,.]\s+(?!I)(?=\S)', '', a)
    if a and a[0].islower() and '```' not in a[:4] and len(a.split()) > 3:
        a = a[0].upper() + a[1:]
    return a


def conversations(column, length, roles):
    """-> lists of (role, tokens, whole) of one row's stream"""
    at = np.flatnonzero(column == START)
    at = at[at + 2 < len(column)]
    turns, begin = [], 0
    for i, p in enumerate(at[:-1]):
        role = roles.get(int(column[p + 1]))
        if role == 'system':
            if turns:
                yield turns
            turns, begin = [], p
            continue
        body = column[p + 3 : at[i + 1]]
        stop = np.flatnonzero(body == END)
        if len(stop):
            body = body[: stop[0]]
        whole = len(body) < MAX_ANSWER and at[i + 1] - begin < length - 3
        turns.append((role, body, whole))


def work(args):
    files, columns, tokenizer, length = args
    tk = Tokenizer.from_file(tokenizer)
    one = lambda s: tk.encode(s).ids[0]
    roles = {one('system'): 'system', one('user'): 'user', one('assistant'): 'assistant'}
    # a contiguous block of columns of every file, in the order of time
    block = np.concatenate([np.load(f, mmap_mode='r')[:, columns[0] : columns[1]] for f in files])
    why, out = collections.Counter(), []
    for b in range(block.shape[1]):
        for turns in conversations(block[:, b], length, roles):
            pairs = [
                (turns[i], turns[i + 1])
                for i in range(0, len(turns) - 1, 2)
                if turns[i][0] == 'user' and turns[i + 1][0] == 'assistant'
            ]
            if any((part >= KEEP).any() for p in pairs for _, part, _ in p):
                why['odd tokens'] += 1
                continue
            texts = tk.decode_batch([part.tolist() for p in pairs for _, part, _ in p], skip_special_tokens=False)
            good = []
            for i, (_, (_, _, whole)) in enumerate(pairs):
                q, a = texts[2 * i].strip(), texts[2 * i + 1].strip()
                reason = (
                    bad_question(q) or ('long' if not whole else '') or bad_answer(q, a) or ('blocked' if blocked(q) else '')
                )
                why[reason or 'ok'] += 1
                if reason:
                    break
                good.append([q, clean(a)])
            if good:
                out.append([2 if len(good) > 1 else -1] + good)
    return why, out


def compress(args):
    path, rows = args
    text = '\n'.join(json.dumps(r, ensure_ascii=False, separators=(',', ':')) for r in rows)
    data = lzma.compress(text.encode(), preset=9)
    open(path, 'wb').write(data)
    return len(data)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--tokens', required=True)
    ap.add_argument('--tokenizer', required=True)
    ap.add_argument('--prompts', required=True, help='to tell listed prompts from own ones')
    ap.add_argument('--out', required=True)
    ap.add_argument('--length', type=int, default=448)
    ap.add_argument('--procs', type=int, default=os.cpu_count())
    ap.add_argument('--pieces', type=int, default=28)
    a = ap.parse_args()
    os.makedirs(a.out, exist_ok=True)
    ranks = collections.defaultdict(list)
    for f in sorted(glob.glob(f'{a.tokens}/s*_*.npy')):
        if '.tmp' not in f:
            ranks[os.path.basename(f).split('_')[0]].append(f)
    jobs, total = [], 0
    for files in ranks.values():
        steps, rows = np.load(files[0], mmap_mode='r').shape
        total += len(files) * steps * rows
        size = max(1, rows // 64)
        jobs += [(files, (c, min(rows, c + size)), a.tokenizer, a.length) for c in range(0, rows, size)]
    why, seen, out, per_question = collections.Counter(), set(), [], collections.Counter()
    listed = set(json.load(open(a.prompts))['prompts'])
    with get_context('fork').Pool(a.procs) as pool:
        for w, rows in pool.imap_unordered(work, jobs):
            why += w
            for r in rows:
                key = hashlib.md5(json.dumps(r).encode()).digest()
                q = r[1][0]
                if key in seen or (len(r) == 2 and per_question[q] >= 3):
                    why['double'] += 1
                    continue
                seen.add(key)
                per_question[q] += 1
                if r[0] < 0:
                    r[0] = 0 if q in listed else 1
                out.append(r)
        out.sort(key=lambda r: r[1][0])
        n = a.pieces
        step = (len(out) + n - 1) // n
        sizes = pool.map(
            compress, [(f'{a.out}/answers_{i:02d}.jsonl.xz', out[i * step : (i + 1) * step]) for i in range(n)], chunksize=1
        )
    kinds = collections.Counter(r[0] for r in out)
    chars = sum(len(x) for r in out for p in r[1:] for x in p)
    print(
        'raw tokens',
        total,
        'conversations',
        len(out),
        'kinds',
        dict(kinds),
        'characters',
        chars,
        'questions',
        len(per_question),
        'bytes',
        sum(sizes),
        dict(why),
        flush=True,
    )
    for r in out[:: max(1, len(out) // 24)]:
        print('Q:', r[1][0][:160].replace('\n', '\\n'), '\n A:', r[1][1][:260].replace('\n', '\\n'))


if __name__ == '__main__':
    main()
