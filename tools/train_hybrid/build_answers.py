"""The teacher's filtered answers (filter_answers.py) -> training documents in the model's chat template.

usage: build_answers.py --answers DIR --tokenizer TOKENIZER.json --out ANSWERS.npz [--procs N] [--most MILLION_CHARACTERS]

Left out: yes-or-no questions of fact (a small teacher is often wrong there; the own data has them), questions of
evalset.py, and what looks like a question about the model itself.
"""

import argparse
import collections
import glob
import json
import lzma
import random
import re

from chat_docs import save
from evalset import blocked

YES_NO = re.compile(r'^(hi[,!] |hey,? |ok,? |so |please )?(can|is|are|do|does|did|was|were|has|have|will|could)\b', re.I)
ABOUT_ME = re.compile(
    r'\b(your name|who are you|what are you|who (made|created|built|trained) you|are you (an?|the|human|real)\b|your (creator|maker|developer)s?|how old are you|where (are you|do you live)|today\'?s (date|weather|news)|(current|latest) (date|time|weather|news|price)|what time is it|what day is it)',
    re.I,
)
# figures, dates and names that the teacher makes up too often when it asks itself
FIGURE = re.compile(
    r"^(how (old|far|fast|tall|heavy|big|deep|high|many|much|often|long (is|was|did|does))|(in )?(what|which) (year|date|century)|what time|when (did|was|were|is)|who (is|was|wrote|invented|discovered|painted|won))\b|\bhow old\b|percent of|\d+ ?[-+*/x×] ?\d+|\bcalculate\b|\bsolve\b",
    re.I,
)
ANIMAL = re.compile(
    r'^(what does an? .* (look like|eat)|where does an? .* live|how (long )?does an? .* (live|move)|what sound does|can you keep an? )',
    re.I,
)
SYSTEM = [
    'You are a helpful assistant.',
    'You are a helpful assistant.',
    'You are a helpful AI assistant.',
    'Answer briefly.',
    'You are a concise assistant.',
    'You answer questions clearly and briefly.',
    'You are a friendly assistant.',
    'You are an assistant that runs in Anabranch.',
]


def thought(r, q, a):
    """a short plan; what the answer starts with serves as its main point"""
    ask = q.split('\n')[0][: r.randint(40, 120)]
    first = re.split(r'(?<=[.!?])\s', a.split('\n')[0])[0][:140]
    if '```' in a:
        return r.choice(
            [
                f'The user wants code: "{ask}" I write a short version in a code block.',
                f'The task is: {ask} I should give working code and keep it short.',
                'I think about which steps the code needs, then I write it in a fence.',
                f'They ask for code. Plan: read what is wanted ("{ask}"), then write it.',
            ]
        )
    if re.match(r'\s*(\d\.|-|\*)', a) or '\n1.' in a or '\n- ' in a:
        return r.choice(
            [
                f'The user asks: "{ask}" A list fits best here.',
                f'I should give a short list. Request: {ask}',
                'A few clear points are the best answer.',
                f'What would help here? A list of points about: {ask}',
            ]
        )
    return r.choice(
        [
            f'The user asks: "{ask}" The main point: {first}',
            f'What is wanted: {ask} I know this: {first}',
            f'Let me think. {first} I can say it in a few words.',
            f'The request is "{ask}". I answer clearly and briefly.',
            'A short and clear answer is best here.',
            f'Key point: {first}',
            f'I need to respond to: "{ask}"',
        ]
    )


def wanted(q, a, kind):
    """-> '', or why the pair is left out"""
    if kind and FIGURE.search(q):
        return 'figure'
    if kind and re.search(r'\?\s*\n', q):
        return 'answers itself'
    if not kind and ANIMAL.match(q):
        return 'animal'
    if re.search(r'\\\[|\\frac|as of my (last|knowledge)|my last update', a):
        return 'formula or update'
    if YES_NO.match(q) and re.match(r'(yes|no)\b', a, re.I):
        return 'yes or no'
    if re.search(r'\b(a mammal, a bird|dangerous to people)\b', q):
        return 'yes or no'
    if ABOUT_ME.search(q):
        return 'about the model'
    if blocked(q):
        return 'blocked'
    return ''


def main():
    ap = argparse.ArgumentParser()
    for name in ('answers', 'tokenizer', 'out'):
        ap.add_argument('--' + name, required=True)
    ap.add_argument('--procs', type=int, default=1)
    ap.add_argument('--most', type=float, default=1e9, help='million characters taken at most')
    ap.add_argument('--seed', type=int, default=7)
    a = ap.parse_args()
    r = random.Random(a.seed)
    rows = []
    for f in sorted(glob.glob(f'{a.answers}/answers_*.jsonl.xz')):
        rows += [json.loads(line) for line in lzma.open(f, 'rt', encoding='utf-8')]
    r.shuffle(rows)
    docs, why, chars = [], collections.Counter(), 0
    for kind, *turns in rows:
        good = []
        for q, ans in turns:
            reason = wanted(q, ans, kind)
            why[reason or 'ok'] += 1
            if reason:
                break
            good.append((q, ans))
        if not good:
            continue
        q, ans = good[-1]
        docs.append((good, r.choice(SYSTEM) if r.random() < 0.16 else '', thought(r, q, ans) if r.random() < 0.25 else ''))
        chars += sum(len(x) + len(y) for x, y in good)
        if chars > a.most * 1e6:
            break
    print('conversations', len(docs), 'of', len(rows), dict(why))
    save(docs, a.tokenizer, a.out, a.procs)


if __name__ == '__main__':
    main()
