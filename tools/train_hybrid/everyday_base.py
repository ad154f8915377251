"""What the everyday documents share: variants of a question, documents, and their tokens."""

import build_synth as tasks
import numpy as np
from build_synth import R, c, ri
from evalset import blocked

scale = 1.0  # how many documents are made, against the second round
wn, words = {}, []  # WordNet's entries (word_list.py), and their words by frequency


V = lambda s: [x.strip() for x in s.split('|') if x.strip()]
SYSS = [
    'You are a helpful assistant.',
    'You are a helpful assistant.',
    'You are a friendly assistant.',
    'Answer briefly.',
    'You are a concise assistant. Answer briefly and correctly.',
    'You are a helpful AI assistant.',
    'You answer questions clearly and briefly.',
    'Be short and exact.',
    'You are a knowledgeable assistant.',
]
PRE = [
    'Please tell me: ',
    'Quick question: ',
    'Hey, ',
    'Question: ',
    'I want to know: ',
    'Tell me, ',
    'Hi! ',
    'Hello, ',
    'One question: ',
    'Do you know this? ',
    'My son asks: ',
    'For a quiz: ',
]
SUF = [
    ' Thanks!',
    ' Please answer briefly.',
    ' Answer in one sentence.',
    ' Keep it short.',
    ' Please.',
    ' Short answer please.',
    ' Just the answer.',
]


def vary(q):
    r = R.random()
    if r < 0.55:
        return q
    if r < 0.66:
        return q.lower().rstrip('?.!') if len(q) < 120 and '\n' not in q else q
    if r < 0.72:
        return q.rstrip('?.')
    if r < 0.80:
        p = c(PRE)
        return p + (q[0].lower() + q[1:] if p.endswith(', ') and not q.startswith('I') else q)
    if r < 0.87:
        return q + c(SUF) if q[-1] in '?.!' else q
    if r < 0.90:
        return q.replace('color', 'colour') if 'color' in q else q.replace('colour', 'color')
    if r < 0.93:
        return q.lower()
    if r < 0.95 and q.startswith('What is '):
        return "What's " + q[8:]
    if r < 0.97 and q.startswith(('What', 'Which', 'Who', 'How', 'When', 'Where')) and q.endswith('?'):
        return 'Can you tell me: ' + q[0].lower() + q[1:]
    return q


docs = []  # (messages, tools)
pool = []  # plain (q, a) pairs for multi-turn and tool-less turns


def think_for(q, a):
    k = ri(0, 5)
    q1 = q.split('\n')[0][:90]
    return [
        f'The user asks: "{q1}" This is a simple question. I can answer it directly.',
        f'The question is "{q1}". The answer: {a.split(chr(10))[0][:120]}',
        f'I know this: {a.split(chr(10))[0][:120]}',
        'This is an easy question, so I give a short answer.',
        f'The user wants to know: "{q1}" I should answer clearly and briefly.',
        f'Let me think. {a.split(chr(10))[0][:120]} That answers the question.',
    ][k]


def put(q, a, th=None, pth=0.34, v=True):
    if blocked(q):
        return
    pool.append((q, a))
    m = []
    if R.random() < 0.22:
        m.append(dict(role='system', content=c(SYSS)))
    q2 = vary(q) if v else q
    if blocked(q2):
        return
    m.append(dict(role='user', content=q2))
    t = ''
    if R.random() < pth:
        t = th or think_for(q2, a)
    m.append(dict(role='assistant', content=a, reasoning_content=t))
    docs.append((m, None))


def n(x):
    return max(1, int(x * scale + R.random()))


AH = '<|im_start|>assistant\n'
NOTH = '<think>\n\n</think>\n\n'


def encode(args):
    T, F, L = [], [], []
    for m, tools in args:
        txt = tasks.TPL.render(messages=m, tools=tools, add_generation_prompt=False)
        segs = txt.split(AH)
        ps = [(segs[0], 4)]
        for p in segs[1:]:
            cut = p.index('<|im_end|>') + len('<|im_end|>')
            a, b = p[:cut], p[cut:]
            pre = NOTH if a.startswith(NOTH) else '<think>\n' if a.startswith('<think>\n') else ''
            ps += [(AH + pre, 4), (a[len(pre) :], 2), (b, 4)]
        ids, fl = [], []
        for e, (s, f) in zip(tasks.tk.encode_batch([s for s, _ in ps]), ps):
            ids += e.ids
            fl += [f] * len(e.ids)
        if len(ids) > 1500:
            continue
        T += ids
        F += fl
        L.append(len(ids))
    return np.array(T, np.uint16), np.array(F, np.uint8), np.array(L, np.uint16)
