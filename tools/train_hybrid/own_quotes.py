"""Requests that quote a text: looking up, counting, extracting, first and last lines. Answers are computed."""

import json
import re

from word_problems import DAYS, MONTHS, NAMES, clock, money

PLACE = 'library museum station school bakery hospital harbour castle garden theatre market bridge'.split()
THING = 'lamp bicycle sofa piano ladder kettle camera blanket mirror tent violin drum table clock'.split()
COLOUR = 'red blue green yellow black white brown grey'.split()
TOWN = 'Ashford Brenton Carlow Dunmere Eastvale Fairwick Glenholm Harwood Kingsley Lindale Marbury Norwell Oakham Penrose Redhill Stanway Thornby Upton Wexley'.split()
JOBS = 'nurse baker driver gardener cook teacher engineer clerk painter pilot'.split()


def paragraph(r, quotes, least, most):
    """some prose as filler, `least` to `most` characters"""
    want, out = r.randint(least, most), []
    while sum(map(len, out)) < want:
        out.append(r.choice(quotes)[1])
    return out


def insert(r, ps, s):
    """the sentence somewhere in the text: as a paragraph or inside one"""
    i = r.randrange(len(ps))
    if r.random() < 0.5:
        ps.insert(i, s)
    else:
        p = re.split(r'(?<=[.!?]) ', ps[i])
        p.insert(r.randint(0, len(p)), s)
        ps[i] = ' '.join(p)
    return ps


def fact(r):
    """-> sentence, question, answer"""
    n, m = r.sample(NAMES, 2)
    k = r.randint(0, 13)
    num = r.randint(2, 9999)
    x, t, d = r.choice(THING), r.choice(TOWN), r.choice(DAYS)
    if k == 0:
        return f'The {r.choice(PLACE)} in {t} was opened in {1700 + num % 320}.', None, None
    return [
        None,
        (f'{n} left the {x} at the station in {t}.', f'Where did {n} leave the {x}?', f'{n} left it at the station in {t}.'),
        (f'The door code of the {x} room is {num}.', f'What is the door code of the {x} room?', f'The code is {num}.'),
        (f'The meeting with {n} was moved to {d}.', f'On which day is the meeting with {n}?', f'It is on {d}.'),
        (f'{n} paid {money(num)} for the {x}.', f'How much did {n} pay for the {x}?', f'{n} paid {money(num)}.'),
        (
            f'The train to {t} leaves from platform {num % 20 + 1}.',
            f'From which platform does the train to {t} leave?',
            f'It leaves from platform {num % 20 + 1}.',
        ),
        (f'{n} works as a {r.choice(JOBS)} in {t}.', f'Where does {n} work?', f'{n} works in {t}.'),
        (f'The invoice number is {num}-{num % 7}.', 'What is the invoice number?', f'It is {num}-{num % 7}.'),
        (f'The spare key lies under the {r.choice(COLOUR)} {x}.', None, None),
        (f'{n} was born in {t} and later moved to {r.choice(TOWN)}.', f'Where was {n} born?', f'{n} was born in {t}.'),
        (f'The password hint of {n} is "{x}".', f'What is the password hint of {n}?', f'The hint is "{x}".'),
        (
            f'Version {num % 9}.{num % 13} was released on {MONTHS[num % 12]} {num % 27 + 1}.',
            f'When was version {num % 9}.{num % 13} released?',
            f'It was released on {MONTHS[num % 12]} {num % 27 + 1}.',
        ),
        (
            f'Please call {n} at 555-{1000 + num % 9000}.',
            f'What is the phone number of {n}?',
            f'It is 555-{1000 + num % 9000}.',
        ),
        (
            f'{n} and {m} share room {num % 400 + 1}.',
            f'Who shares a room with {n}?',
            f'{m} does; they share room {num % 400 + 1}.',
        ),
    ][k]


ASK = [
    '{t}\n\n{q}',
    'Read the text and answer the question.\n\n{t}\n\nQuestion: {q}',
    '{q}\n\n{t}',
    'Here is a text:\n\n{t}\n\n{q}',
    'Text:\n"""\n{t}\n"""\n\n{q}',
    'Use only this text to answer. {q}\n\n{t}',
    '{t}\n\nQuestion: {q} Answer briefly.',
    '<text>\n{t}\n</text>\n{q}',
]


def look_up(r, quotes):
    s, q, a = fact(r)
    if q is None:
        m = re.match(r'The (\w+) in (\w+) was opened in (\d+)\.', s)
        if m:
            q, a = f'When was the {m.group(1)} in {m.group(2)} opened?', f'It was opened in {m.group(3)}.'
        else:
            m = re.search(r'under the (.*)\.', s)
            q, a = 'Where is the spare key?', f'It lies under the {m.group(1)}.'
    size = r.choice([(300, 700), (300, 900), (700, 1500), (1200, 2400), (2000, 3300)])
    t = '\n\n'.join(insert(r, paragraph(r, quotes, *size), s))
    return r.choice(ASK).format(t=t, q=q), a, f'I look for the sentence that answers this. The text says: "{s}"'


def not_there(r, quotes):
    s, q, a = fact(r)
    if q is None:
        return None
    t = '\n\n'.join(paragraph(r, quotes, 300, 1200))
    return (
        r.choice(ASK).format(t=t, q=q),
        r.choice(['The text does not say.', 'The text does not say that.', "I can't find that in the text."]),
        'I look through the text. Nothing in it answers the question, so I say so.',
    )


def several(r, quotes):
    fs = []
    while len(fs) < 3:
        f = fact(r)
        if f[1]:
            fs.append(f)
    ps = paragraph(r, quotes, 200, 700)
    for f in fs:
        ps = insert(r, ps, f[0])
    if len({f[1] for f in fs}) < 3 or len({f[1][:14] for f in fs}) < 3:
        return None
    s, q, a = r.choice(fs)
    return r.choice(ASK).format(t='\n'.join(ps), q=q), a, f'The text says: "{s}"'


def list_task(r, quotes):
    k = r.randint(3, 9)
    items = r.sample(THING + PLACE, k)
    t = r.choice(
        [
            '\n'.join('- ' + x for x in items),
            '\n'.join(f'{i + 1}. {x}' for i, x in enumerate(items)),
            ', '.join(items),
            '\n'.join(items),
        ]
    )
    w = r.randint(0, 6)
    i = r.randrange(k)
    order = 'first second third fourth fifth sixth seventh eighth ninth'.split()
    if w == 0:
        return (
            f'{t}\n\n' + r.choice(['How many items are in this list?', 'Count the items.', 'How many things are listed?']),
            f'There are {k} items.',
            'I count: ' + ', '.join(f'{j + 1} {x}' for j, x in enumerate(items)) + '.',
        )
    if w == 1:
        return (
            f'{t}\n\nWhat is the {order[i]} item?',
            r.choice([f'The {order[i]} item is {items[i]}.', items[i]]),
            'I count: ' + ', '.join(f'{j + 1} {x}' for j, x in enumerate(items[: i + 1])) + '.',
        )
    if w == 2:
        return f'{t}\n\nWhat is the last item?', f'The last item is {items[-1]}.', f'The list ends with {items[-1]}.'
    if w == 3:
        return (
            r.choice(['Sort this list alphabetically:\n', 'Put these in alphabetical order:\n']) + t,
            '\n'.join('- ' + x for x in sorted(items)),
            'I order the words by their first letters.',
        )
    if w == 4:
        yes = r.random() < 0.5
        x = r.choice(items) if yes else r.choice([z for z in THING + PLACE if z not in items])
        return (
            f'{t}\n\nIs "{x}" in this list?',
            f'{"Yes" if yes else "No"}, "{x}" is {"" if yes else "not "}in the list.',
            f'I look for {x}. ' + (f'It is item {items.index(x) + 1}.' if yes else 'It is not there.'),
        )
    if w == 5:
        return (
            f'Make a comma-separated line of this list:\n{t}' if '\n' in t else f'Write this as bullet points: {t}',
            ', '.join(items) if '\n' in t else '\n'.join('- ' + x for x in items),
            'I keep the order of the items.',
        )
    return (
        f'{t}\n\n' + r.choice(['Write the list in reverse order.', 'Reverse this list.']),
        '\n'.join('- ' + x for x in items[::-1]),
        'I begin with the last one.',
    )


def line_task(r, quotes):
    ps = [re.split(r'(?<=[.!?]) ', r.choice(quotes)[1])[0] for _ in range(r.randint(3, 6))]
    ps = [p for p in ps if 20 < len(p) < 160]
    if len(ps) < 3 or len(set(ps)) < len(ps):
        return None
    k = r.randint(0, 4)
    t = '\n'.join(ps)
    order = 'first second third fourth fifth sixth'.split()
    i = r.randrange(len(ps))
    if k == 0:
        return (
            f'{t}\n\n'
            + r.choice([f'Repeat the {order[i]} line.', f'What does line {i + 1} say?', f'Quote line {i + 1} exactly.']),
            ps[i],
            f'The {order[i]} line is: "{ps[i]}"',
        )
    if k == 1:
        return f'{t}\n\nHow many lines does this text have?', f'It has {len(ps)} lines.', f'I count the lines: {len(ps)}.'
    if k == 2:
        w = r.choice([x for x in re.findall(r'[a-z]{5,}', ps[i])] or ['the'])
        if sum(w in p for p in ps) != 1:
            return None
        return (
            f'{t}\n\nWhich line contains the word "{w}"?',
            f'Line {i + 1}: "{ps[i]}"',
            f'I look for "{w}" line by line. It is in line {i + 1}.',
        )
    if k == 3:
        return f'{t}\n\n' + r.choice(['What is the last line?', 'Repeat only the last line.']), ps[-1], ''
    s = ps[i]
    return (
        f'How many words are in this sentence? "{s}"',
        f'It has {len(s.split())} words.',
        (
            ' '.join(f'{w}({j + 1})' for j, w in enumerate(s.split()))
            if len(s.split()) < 22
            else f'I count {len(s.split())} words.'
        ),
    )


def table_task(r, quotes):
    k = r.randint(3, 7)
    names = r.sample(NAMES, k)
    rows = [(n, r.randint(18, 80), r.choice(TOWN), r.choice(JOBS)) for n in names]
    head = ('name', 'age', 'city', 'job')
    f = r.randint(0, 3)
    if f == 0:
        t = ','.join(head) + '\n' + '\n'.join(','.join(map(str, x)) for x in rows)
    elif f == 1:
        t = '| ' + ' | '.join(head) + ' |\n|---|---|---|---|\n' + '\n'.join('| ' + ' | '.join(map(str, x)) + ' |' for x in rows)
    elif f == 2:
        t = json.dumps([dict(zip(head, x)) for x in rows], indent=r.choice([None, 2]))
    else:
        t = '\n'.join(f'{n} is {a} years old, lives in {c} and works as a {j}.' for n, a, c, j in rows)
    n, a, c, j = r.choice(rows)
    w = r.randint(0, 7)
    old, young = max(rows, key=lambda x: x[1]), min(rows, key=lambda x: x[1])
    if w == 0:
        return f'{t}\n\nHow old is {n}?', f'{n} is {a} years old.', f'The entry of {n} says {a}.'
    if w == 1:
        return f'{t}\n\nWhere does {n} live?', f'{n} lives in {c}.', f'The entry of {n} says {c}.'
    if w == 2:
        return f'{t}\n\nWhat is the job of {n}?', f'{n} works as a {j}.', f'The entry of {n} says {j}.'
    if w in (3, 4):
        if sum(x[1] == old[1] for x in rows) > 1 or sum(x[1] == young[1] for x in rows) > 1:
            return None
        x, word = (old, 'oldest') if w == 3 else (young, 'youngest')
        return (
            f'{t}\n\nWho is the {word}?',
            f'{x[0]} is the {word}, at {x[1]}.',
            'The ages are ' + ', '.join(f'{y[0]} {y[1]}' for y in rows) + f'. The {word} is {x[0]} with {x[1]}.',
        )
    if w == 5:
        m = sum(x[3] == j for x in rows)
        return (
            f'{t}\n\nHow many people work as a {j}?',
            f'{m} {"person works" if m == 1 else "people work"} as a {j}.',
            ', '.join(f'{y[0]}: {y[3]}' for y in rows) + f'. So {m}.',
        )
    if w == 6:
        return f'{t}\n\nGive me the names only, as a comma-separated list.', ', '.join(names), 'I take the names in order.'
    return (
        f'{t}\n\nReturn the entry of {n} as JSON.',
        json.dumps(dict(zip(head, (n, a, c, j)))),
        f'The entry of {n}: {a}, {c}, {j}.',
    )


def extract_task(r, quotes):
    n, m = r.sample(NAMES, 2)
    s = r.choice(TOWN)
    mail = f'{n.lower()}.{m.lower()}@example.{r.choice(["com", "org", "net"])}'
    num = f'555-{r.randint(1000, 9999)}'
    day = f'{MONTHS[r.randint(0, 11)]} {r.randint(1, 28)}'
    cost, h = money(r.randint(3, 60) * 50), clock(r.randint(8 * 4, 20 * 4) * 15)
    ps = [
        f'Dear {m},',
        r.choice(quotes)[1] if r.random() < 0.5 else 'I hope you are well.',
        f'we meet in {s} on {day} at {h}. The ticket costs {cost}.',
        f'You can reach me at {num} or {mail}.',
        r.choice(['Best wishes', 'Kind regards', 'See you soon']) + f',\n{n}',
    ]
    t = '\n\n'.join(ps)
    q, a = r.choice(
        [
            ('What is the e-mail address in this text?', mail),
            ('Extract the phone number.', num),
            ('When is the meeting?', f'It is on {day} at {h}.'),
            ('Where do they meet?', f'They meet in {s}.'),
            ('How much is the ticket?', f'It costs {cost}.'),
            ('Who wrote this message?', f'{n} wrote it.'),
            ('Who is the message for?', f'It is for {m}.'),
            ('Extract the date, the time and the place as JSON.', json.dumps(dict(date=day, time=h, place=s))),
            ('Summarize this message in one sentence.', f'{n} wants to meet {m} in {s} on {day} at {h}.'),
            ('List all names of people in this message.', f'{m}, {n}'),
        ]
    )
    return (
        r.choice(['{t}\n\n{q}', '{q}\n\n{t}', 'Read this message:\n\n{t}\n\n{q}']).format(t=t, q=q),
        a,
        f'The message is from {n} to {m}: {s}, {day}, {h}, {cost}, {num}, {mail}.',
    )


def log_task(r, quotes):
    levels = ['INFO', 'INFO', 'INFO', 'WARNING', 'ERROR']
    texts = {
        'INFO': ['server started', 'user logged in', 'cache loaded', 'job finished', 'connection opened'],
        'WARNING': ['disk almost full', 'slow query', 'retrying request'],
        'ERROR': ['file not found', 'connection refused', 'out of memory', 'permission denied'],
    }
    m = r.randint(480, 1200)
    rows = []
    for _ in range(r.randint(4, 10)):
        m += r.randint(1, 9)
        l = r.choice(levels)
        rows.append((clock(m), l, r.choice(texts[l])))
    t = '\n'.join(f'{a} {b} {c}' for a, b, c in rows)
    if r.random() < 0.4:
        t = '```\n' + t + '\n```'
    l = r.choice(['ERROR', 'WARNING', 'INFO'])
    k = sum(x[1] == l for x in rows)
    if r.random() < 0.5:
        return (
            f'{t}\n\nHow many {l} lines are in this log?',
            f'There {"is" if k == 1 else "are"} {k} {l} line{"" if k == 1 else "s"}.',
            f'Lines with {l}: ' + (', '.join(x[0] for x in rows if x[1] == l) or 'none') + f'. So {k}.',
        )
    e = [x for x in rows if x[1] == 'ERROR']
    if not e:
        return f'{t}\n\nIs there an error in this log?', 'No, there is no ERROR line.', 'I look for ERROR. There is none.'
    return (
        f'{t}\n\n' + r.choice(['What went wrong?', 'What is the first error?']),
        f'At {e[0][0]}: {e[0][2]}.',
        f'The first ERROR line is: {" ".join(e[0])}',
    )


TASKS = (
    [look_up] * 7
    + [not_there] * 2
    + [several] * 2
    + [list_task] * 4
    + [line_task] * 3
    + [table_task] * 4
    + [extract_task] * 3
    + [log_task]
)


def quote_task(r, quotes):
    """-> question, answer, thought; or None"""
    return r.choice(TASKS)(r, quotes)
