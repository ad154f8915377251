"""Everyday documents about facts, countries, words and their meanings, with small talk."""

import everyday_base as base
from build_synth import R, c, ri
from everyday_base import V, n, put, wn, words
from facts import QA, TALK
from facts_tables import COUNTRY, ELEM, LANGS, OPP, SYN, TRANS

OPPOSITES = [tuple(x.split()) for x in OPP.split('|')]


def facts_and_talk():
    for blk in QA.strip().split('\n'):
        q, a = blk.split(' => ')
        qs, an = V(q), V(a)
        for _ in range(n(70 + 12 * len(qs))):
            put(c(qs), an[0] if R.random() < 0.7 else c(an))
    for blk in TALK.strip().split('\n'):
        q, a = blk.split(' => ')
        qs, an = V(q), V(a)
        for _ in range(n(150 + 22 * len(qs))):
            put(c(qs), c(an), pth=0.3, v=R.random() < 0.25)


def countries():
    for l in COUNTRY.split('\n'):
        co, cap, cur, lan = l.split('|')
        cap0 = cap.split(' (')[0]
        for _ in range(n(70)):
            k = R.random()
            if k < 0.55:
                put(
                    c(
                        [
                            f'What is the capital of {co}?',
                            f'Capital of {co}?',
                            f"What's the capital of {co}?",
                            f'Which city is the capital of {co}?',
                            f'Name the capital of {co}.',
                            f'What is the capital city of {co}?',
                            f'Tell me the capital of {co}.',
                            f'{co} capital',
                        ]
                    ),
                    c([f'The capital of {co} is {cap}.'] * 3 + [f'{cap}.', f'{cap0} is the capital of {co}.']),
                )
            elif k < 0.7:
                put(
                    c(
                        [
                            f'{cap0} is the capital of which country?',
                            f'Which country has {cap0} as its capital?',
                            f'Of which country is {cap0} the capital?',
                            f'In which country is {cap0}?',
                            f'Where is {cap0}?',
                        ]
                    ),
                    c([f'{cap0} is the capital of {co}.', f'{cap0} is in {co}.']),
                )
            elif k < 0.85:
                put(
                    c(
                        [
                            f'What is the currency of {co}?',
                            f'Which currency is used in {co}?',
                            f'What money do people use in {co}?',
                            f'currency of {co}',
                        ]
                    ),
                    f'The currency of {co} is the {cur}.',
                )
            else:
                put(
                    c(
                        [
                            f'Which language is spoken in {co}?',
                            f'What language do people speak in {co}?',
                            f'What is the official language of {co}?',
                        ]
                    ),
                    c([f'People in {co} speak {lan}.', f'{lan}.']),
                )


def about_words():
    for a, b in OPPOSITES:
        for x, y in ((a, b), (b, a)):
            for _ in range(n(16)):
                put(
                    c(
                        [
                            f'What is the opposite of {x}?',
                            f'What is the opposite of "{x}"?',
                            f'Give me the opposite of {x}.',
                            f'opposite of {x}',
                            f'Antonym of {x}?',
                            f'What is an antonym for {x}?',
                            (
                                f'{x.capitalize()} is to {y} as ... what is the opposite of {x}?'
                                if R.random() < 0.02
                                else f'Name the opposite of {x}.'
                            ),
                        ]
                    ),
                    c([f'The opposite of {x} is {y}.', f'The opposite of "{x}" is "{y}".', f'{y.capitalize()}.']),
                )
    for g in SYN.split('|'):
        w = g.split()
        for x in w:
            o = [z for z in w if z != x]
            for _ in range(n(12)):
                put(
                    c(
                        [
                            f'Give me a synonym for {x}.',
                            f'What is a synonym for "{x}"?',
                            f'What is another word for {x}?',
                            f'synonym of {x}',
                            f'Name a word that means the same as {x}.',
                        ]
                    ),
                    c([f'A synonym for {x} is {c(o)}.', f'{c(o).capitalize()}.', f'Another word for {x} is {c(o)}.']),
                )
    for l in TRANS.split('\n'):
        t = l.split('|')
        en = t[0]
        for i, la in enumerate(LANGS):
            x = t[i + 1]
            for _ in range(n(9)):
                if R.random() < 0.68:
                    put(
                        c(
                            [
                                f'How do you say "{en}" in {la}?',
                                f"How do you say '{en}' in {la}?",
                                f'Translate "{en}" to {la}.',
                                f'Translate "{en}" into {la}.',
                                f"Translate '{en}' to {la}.",
                                f'What is {en} in {la}?',
                                f'What is the {la} word for {en}?' if len(en.split()) == 1 else f'Say "{en}" in {la}.',
                                f'{en} in {la}',
                                f'Translate to {la}: {en}',
                            ]
                        ),
                        c(
                            [f'"{en}" in {la} is "{x}".', f'{x}', f'In {la}: {x}', f'"{x}"']
                            if en[-1] not in '.?!'
                            else [f'{x}', f'In {la}: "{x}"', f'"{x}"']
                        ),
                    )
                else:
                    put(
                        c(
                            [
                                f'What does "{x}" mean in English?',
                                f'Translate "{x}" from {la} to English.',
                                (
                                    f'What does the {la} word "{x}" mean?'
                                    if len(x.split()) == 1
                                    else f'Translate this {la} sentence: {x}'
                                ),
                                f'What is "{x}" in English?',
                            ]
                        ),
                        c([f'"{x}" means "{en}".', f'"{x}" is {la} for "{en}".', f'{en}']),
                    )
    for l in ELEM.split('|'):
        w, s, z = l.split()
        for _ in range(n(24)):
            k = ri(0, 2)
            if k == 0:
                put(
                    c([f'What is the chemical symbol for {w}?', f'What is the symbol of {w}?', f'chemical symbol of {w}']),
                    c([f'The chemical symbol for {w} is {s}.', f'{s}']),
                )
            elif k == 1:
                put(
                    c(
                        [
                            f'Which element has the symbol {s}?',
                            f'What element is {s}?',
                            f'What does the chemical symbol {s} stand for?',
                        ]
                    ),
                    f'{s} is {w}.',
                )
            else:
                put(
                    c([f'What is the atomic number of {w}?', f'How many protons does {w} have?']),
                    c([f'The atomic number of {w} is {z}.'] if True else []),
                )
    for w in words[:4000]:
        d = wn[w]
        if len(d['d']) < 8 or len(d['d']) > 140:
            continue
        dd = d['d'][0].upper() + d['d'][1:]
        for _ in range(n(1.6)):
            put(
                c(
                    [
                        f'What does "{w}" mean?',
                        f'Define "{w}".',
                        f'What is the meaning of {w}?',
                        f'What does the word {w} mean?',
                        f'Give me a definition of {w}.',
                        f'definition of {w}',
                    ]
                ),
                c(
                    [
                        f'"{w.capitalize()}" means: {d["d"]}.',
                        f'{dd}.',
                        f'As a {dict(noun="noun", verb="verb", adj="adjective", adv="adverb")[d["p"]]}, "{w}" means {d["d"]}.',
                    ]
                ),
            )
        if d['ex'] and R.random() < base.scale:
            put(
                c(
                    [
                        f'Use the word "{w}" in a sentence.',
                        f'Write a sentence with the word "{w}".',
                        f'Make a sentence with {w}.',
                    ]
                ),
                d['ex'][0][0].upper() + d['ex'][0][1:] + ('.' if d['ex'][0][-1] not in '.!?' else ''),
            )
        if d['syn'] and R.random() < base.scale * 0.6:
            put(f'Give me a synonym for {w}.', f'A synonym for {w} is {d["syn"][0]}.')
