"""Documents with tool calls of many made-up functions, so that names and arguments are read from the request.

usage: build_tools.py --tokenizer FOLDER --filler FILE --words WORDS.json --out TOOLS.npz [--seed 3] [--count 16000]
"""

import argparse
import re

import numpy as np

import build_synth as tasks
import everyday_documents as everyday
from build_synth import ANIM, CITY, COLOR, DAYS, ITEM, NAMES, R, TOOLS, WORD, c, ri, spec
from evalset import blocked
from everyday_base import SYSS, encode, pool, vary
from facts_tables import COUNTRY, LANGS

ACT = [
    ('get', 'Get'),
    ('find', 'Find'),
    ('show', 'Show'),
    ('open', 'Open'),
    ('close', 'Close'),
    ('delete', 'Delete'),
    ('create', 'Create'),
    ('update', 'Update'),
    ('check', 'Check'),
    ('start', 'Start'),
    ('stop', 'Stop'),
    ('order', 'Order'),
    ('book', 'Book'),
    ('cancel', 'Cancel'),
    ('lookup', 'Look up'),
    ('count', 'Count'),
    ('track', 'Track'),
    ('buy', 'Buy'),
    ('print', 'Print'),
    ('download', 'Download'),
]
OBJ = 'ticket door order invoice user table room flight package event note task file folder printer lamp heater camera song movie recipe book product customer meeting account device server image report'.split()
FREE = [
    ('name', 'string', lambda: c(NAMES)),
    ('city', 'string', lambda: c(CITY)),
    ('number', 'integer', lambda: ri(1, 99)),
    ('id', 'integer', lambda: ri(1, 9999)),
    ('color', 'string', lambda: c(COLOR)),
    ('day', 'string', lambda: c(DAYS)),
    ('item', 'string', lambda: c(ITEM)),
    ('country', 'string', lambda: c(COUNTRY.split(chr(10))).split('|')[0].replace('the ', '')),
    ('word', 'string', lambda: c(WORD)),
    ('minutes', 'integer', lambda: ri(1, 120)),
    ('amount', 'integer', lambda: ri(1, 500)),
    ('title', 'string', lambda: c(WORD).title()),
    ('language', 'string', lambda: c(LANGS)),
    (
        'text',
        'string',
        lambda: c(['I am late', 'See you soon', 'Call me', 'Dinner at eight', 'Where are you?', 'Happy birthday']),
    ),
    ('to', 'string', lambda: c(NAMES)),
    ('date', 'string', lambda: f'2026-{ri(1, 12):02d}-{ri(1, 28):02d}'),
    ('animal', 'string', lambda: c(ANIM)),
    ('room', 'string', lambda: c(['kitchen', 'hall', 'office', 'garage'])),
]
HOWQ = {
    'name': 'for {}',
    'city': 'in {}',
    'number': 'number {}',
    'id': 'with the id {}',
    'color': 'in {}',
    'day': 'on {}',
    'item': 'with {}',
    'country': 'in {}',
    'word': 'called {}',
    'minutes': 'for {} minutes',
    'amount': 'with amount {}',
    'title': 'titled "{}"',
    'language': 'in {}',
    'text': 'with the text "{}"',
    'to': 'to {}',
    'date': 'on {}',
    'animal': 'about a {}',
    'room': 'in the {}',
}
SPEC2 = [
    (
        'get_population',
        'Get the population of a country',
        ['country'],
        ['How many people live in {country}?', 'What is the population of {country}?', 'Population of {country}?'],
        lambda a: (str(ri(1, 90)) + ' million', 'About {r} people live in {country}.'),
    ),
    (
        'send_message',
        'Send a text message to a person',
        ['to', 'text'],
        ['Send a message to {to}: {text}', 'Tell {to}: "{text}"', 'Text {to}: {text}'],
        lambda a: ('sent', 'I sent "{text}" to {to}.'),
    ),
    (
        'get_capital',
        'Get the capital of a country',
        ['country'],
        ['Look up the capital of {country}.', 'Use the tool to find the capital of {country}.'],
        lambda a: (c(CITY), 'The capital of {country} is {r}.'),
    ),
    (
        'define_word',
        'Look up a word in the dictionary',
        ['word'],
        ['Look up {word} in the dictionary.', 'Define {word} with the dictionary.'],
        lambda a: ('a noun', '{word}: {r}.'),
    ),
    (
        'set_alarm',
        'Set an alarm',
        ['day', 'number'],
        ['Set an alarm on {day} at {number}.', 'Wake me on {day} at {number}.'],
        lambda a: ('ok', 'The alarm for {day} at {number} is set.'),
    ),
    (
        'get_temperature',
        'Read the temperature of a room',
        ['room'],
        ['How warm is it in the {room}?', 'What is the temperature in the {room}?'],
        lambda a: (f'{ri(15, 26)} C', 'It is {r} in the {room}.'),
    ),
    (
        'lock_door',
        'Lock a door by its number',
        ['number'],
        ['Lock door {number}.', 'Please lock door number {number}.'],
        lambda a: ('locked', 'Door {number} is locked.'),
    ),
    (
        'find_restaurant',
        'Find restaurants in a city',
        ['city'],
        ['Find a restaurant in {city}.', 'Where can I eat in {city}?'],
        lambda a: ('["Bella", "Green House"]', 'I found Bella and Green House in {city}.'),
    ),
    (
        'get_news',
        'Get the news about a topic',
        ['word'],
        ['What is the news about {word}?', 'Any news on {word}?'],
        lambda a: ('no news', 'There is {r} about {word}.'),
    ),
    (
        'get_distance',
        'Distance between two cities',
        ['city', 'to_city'],
        ['How far is it from {city} to {to_city}?', 'Distance from {city} to {to_city}?'],
        lambda a: (f'{ri(100, 9000)} km', 'It is {r} from {city} to {to_city}.'),
    ),
]
FREE += [('to_city', 'string', lambda: c(CITY))]
FM = {n_: (t_, f_) for n_, t_, f_ in FREE}
HOWQ['to_city'] = 'to {}'
EXTRA = [
    ('hi', 'Hello! How can I help you today?'),
    ('Hello!', 'Hi! What can I do for you?'),
    ('thanks', "You're welcome!"),
    ('Thank you!', "You're welcome!"),
    ('Good morning', 'Good morning! How can I help you?'),
    ('How are you?', "I'm doing well, thank you! How can I help you?"),
    ('hey there', 'Hello! What can I do for you?'),
    ('Who are you?', 'I am a small language model that runs in Anabranch.'),
    ('What can you do?', 'I can answer questions, write short texts and use the tools that I was given.'),
    ('bye', 'Goodbye! Have a nice day.'),
    ('ok', 'Good! Let me know if you need anything else.'),
    ('Tell me a joke.', 'Why did the bicycle fall over? Because it was two-tired!'),
    ('What is the capital of Japan?', 'The capital of Japan is Tokyo.'),
    ('How many days does a week have?', 'A week has seven days.'),
    ('Who wrote Hamlet?', 'William Shakespeare wrote Hamlet.'),
]


def mk():
    """-> spec, query maker"""
    if R.random() < 0.3:
        nm, d, ps, qs, rf = c(SPEC2)
        a = {p: FM[p][1]() for p in ps}
        r, t = rf(a)
        return nm, d, ps, a, c(qs).format(**a), r, t.format(r=r, **a)
    v, V_ = c(ACT)
    o = c(OBJ)
    ps = R.sample([x[0] for x in FREE if x[0] != 'to_city'], c([1, 1, 1, 2, 2, 3]))
    a = {p: FM[p][1]() for p in ps}
    nm = c([f'{v}_{o}', f'{v}_{o}', f'{v}{o.capitalize()}', f'{o}_{v}'])
    art = c(['the ', 'a ', 'my ', 'the '])
    tail = ' '.join(HOWQ[p].format(a[p]) for p in ps)
    q = c(
        [
            f'{V_} {art}{o} {tail}.',
            f'Please {V_.lower()} {art}{o} {tail}.',
            f'Can you {V_.lower()} {art}{o} {tail}?',
            f'{V_.lower()} {art}{o} {tail}',
            f'I want to {V_.lower()} {art}{o} {tail}.',
        ]
    )
    ok = c(['{"status": "ok"}', 'done', '{"ok": true}', 'success'])
    return (
        nm,
        f'{V_} a {o}',
        ps,
        a,
        q,
        ok,
        c([f'Done: {o} {tail}.', 'It is done.', f'I did that for you: {V_.lower()} {o} {tail}.']),
    )


def sp(nm, d, ps):
    pr = {p: {'type': FM[p][0]} for p in ps}
    if R.random() < 0.3:
        for p in ps:
            pr[p]['description'] = 'The ' + p.replace('_', ' ')
    return {
        'type': 'function',
        'function': {'name': nm, 'description': d, 'parameters': {'type': 'object', 'properties': pr, 'required': list(ps)}},
    }


bad = re.compile(
    r'weather|time|date|news|calculat|add |\+|translate|say "|in French|price|remember|who am|read|list|play|name\?|\d|capital of|population',
    re.I,
)


def documents(count):
    docs = []
    for _ in range(count):
        nm, d, ps, a, q, r, ans = mk()
        tl = [sp(nm, d, ps)]
        for _ in range(c([0, 0, 1, 2, 3])):
            x = mk()
            if x[0] != nm:
                tl.append(sp(*x[:3]))
        if R.random() < 0.2:
            tl.append(spec(c(list(TOOLS))))
        R.shuffle(tl)
        think = R.random() < 0.4
        m = []
        if R.random() < 0.25:
            m.append(dict(role='system', content=c(SYSS)))
        if R.random() < 0.4:
            q, an_ = c(EXTRA) if R.random() < 0.4 else c(pool)
            while bad.search(q) and (q, an_) not in EXTRA:
                q, an_ = c(pool)
            if blocked(q):
                continue
            docs.append(
                (
                    m
                    + [
                        dict(role='user', content=vary(q)),
                        dict(
                            role='assistant',
                            content=an_,
                            reasoning_content='No tool is needed for this. I answer directly.' if think else '',
                        ),
                    ],
                    tl,
                )
            )
            continue
        if blocked(q):
            continue
        if R.random() < 0.15:
            q0, a0 = c(EXTRA)
            m += [dict(role='user', content=q0), dict(role='assistant', content=a0)]
        m += [
            dict(role='user', content=q),
            dict(
                role='assistant',
                content='',
                reasoning_content=(
                    c(
                        [
                            f'The {nm} function fits. I call it with ' + ', '.join(f'{k} = {v}' for k, v in a.items()) + '.',
                            f'I need {nm} for this.',
                        ]
                    )
                    if think
                    else ''
                ),
                tool_calls=[dict(function=dict(name=nm, arguments=a))],
            ),
        ]
        if R.random() < 0.5:
            m += [
                dict(role='tool', content=r),
                dict(
                    role='assistant',
                    content=ans,
                    reasoning_content='The function returned a result. I can answer now.' if think else '',
                ),
            ]
        docs.append((m, tl))
    return docs


def main():
    ap = argparse.ArgumentParser()
    for name in ('tokenizer', 'filler', 'words', 'out'):
        ap.add_argument('--' + name, required=True)
    ap.add_argument('--seed', type=int, default=3)
    ap.add_argument('--count', type=int, default=16000)
    a = ap.parse_args()
    tasks.use(a.tokenizer, a.filler)
    everyday.build(a.seed, 0.02, a.words)  # for its pairs of question and answer
    t, f, l = encode(documents(a.count))
    print('tools tokens', len(t), 'documents', len(l), 'to learn', int((f == 2).sum()))
    np.savez_compressed(a.out, t=t, f=np.packbits(f == 2), l=l)


if __name__ == '__main__':
    main()
