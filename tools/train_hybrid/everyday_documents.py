"""Everyday documents from templates: facts, small talk, words, arithmetic, several turns, tools.

build(seed, scale, words) -> documents, each (messages, tools); encode(documents) -> tokens, flags (2 = learn, 4 = no loss), lengths.
The kinds `every` (build_everyday.py) and `tools` (build_tools.py) are made with it. `words` is the file of word_list.py.
"""

import json
import re

import everyday_base as base
from build_synth import CITY, COLOR, DAYS, ITEM, NAMES, R, TOOLS, WORD, c, memdoc, ri, spec, taskdoc
from evalset import blocked
from everyday_base import SYSS, docs, n, pool, think_for, wn, words
from everyday_facts import OPPOSITES, about_words, countries, facts_and_talk
from everyday_numbers import numbers
from facts_tables import COUNTRY, LANGS, TRANS


def followup():
    l = c(COUNTRY.split('\n'))
    co, cap, cur, lan = l.split('|')
    l2 = c(COUNTRY.split('\n')).split('|')
    k = ri(0, 4)
    if k == 0:
        return [
            (f'What is the capital of {co}?', f'The capital of {co} is {cap}.'),
            (c([f'And of {l2[0]}?', f'And {l2[0]}?', f'What about {l2[0]}?']), f'The capital of {l2[0]} is {l2[1]}.'),
        ]
    if k == 1:
        return [
            (f'What is the capital of {co}?', f'The capital of {co} is {cap}.'),
            (
                c(['And what currency is used there?', 'What currency do they use?', 'Which money do people use there?']),
                f'The currency of {co} is the {cur}.',
            ),
            (c(['And the language?', 'What language do they speak?']), f'People in {co} speak {lan}.'),
        ]
    if k == 2:
        a, b, d = ri(1, 30), ri(1, 30), ri(1, 9)
        return [
            (f'What is {a} + {b}?', f'{a} + {b} = {a + b}'),
            (c([f'Add {d} to that.', f'And plus {d}?', f'Now add {d}.']), f'{a + b} + {d} = {a + b + d}'),
        ]
    if k == 3:
        t = c(TRANS.split('\n')[:90]).split('|')
        i, j = R.sample(range(5), 2)
        return [
            (f'How do you say "{t[0]}" in {LANGS[i]}?', f'"{t[0]}" in {LANGS[i]} is "{t[i + 1]}".'),
            (c([f'And in {LANGS[j]}?', f'What about {LANGS[j]}?', f'In {LANGS[j]}?']), f'In {LANGS[j]} it is "{t[j + 1]}".'),
        ]
    x, y = c(OPPOSITES)
    return [
        (f'What is the opposite of {x}?', f'The opposite of {x} is {y}.'),
        (
            c(['Use it in a sentence.', 'Give me a sentence with it.']),
            c([f'The word "{y}" is the opposite of "{x}".', f'Not everything is {x}; some things are {y}.']),
        ),
    ]


def several_turns():
    for _ in range(n(22000)):
        m = []
        if R.random() < 0.25:
            m.append(dict(role='system', content=c(SYSS)))
        ts = []
        if R.random() < 0.45:
            ts += followup()
        while len(ts) < ri(2, 5):
            ts.insert(ri(0, 1) * len(ts), c(pool))
        if any(blocked(q) for q, _ in ts):
            continue
        # history as a client sends it: earlier turns plain, think block only in the last
        for i, (q, a) in enumerate(ts):
            m += [
                dict(role='user', content=q),
                dict(
                    role='assistant',
                    content=a,
                    reasoning_content=think_for(q, a) if i == len(ts) - 1 and R.random() < 0.33 else '',
                ),
            ]
        docs.append((m, None))


# tools
ST = lambda *x: (lambda: c(list(x)))
MORE = {
    'get_time': (
        'Get the current time in a city',
        {'city': ('string', lambda: c(CITY))},
        lambda a: (f'{ri(0, 23):02d}:{ri(0, 59):02d}', None),
        ['What time is it in {city}?', 'Current time in {city}?', 'Tell me the time in {city}.'],
    ),
    'calculator': (
        'Evaluate an arithmetic expression',
        {'expression': ('string', lambda: f'{ri(2, 999)} {c(["+", "-", "*"])} {ri(2, 999)}')},
        lambda a: (str(eval(a['expression'])), None),
        ['Calculate {expression} with the calculator.', 'Use the calculator: {expression}', 'What is {expression}?'],
    ),
    'search_web': (
        'Search the web',
        {'query': ('string', lambda: c(WORD) + ' ' + c(['price', 'news', 'history', 'recipe', 'museum']))},
        lambda a: (json.dumps([{'title': a['query'].title(), 'url': 'https://example.com/' + a['query'].split()[0]}]), None),
        ['Search the web for {query}.', 'Look up "{query}" online.', 'Find information about {query} on the web.'],
    ),
    'read_file': (
        'Read a file',
        {'path': ('string', lambda: c(['notes', 'todo', 'src/' + c(WORD), c(WORD)]) + c(['.txt', '.md', '.py', '.json']))},
        lambda a: (f'The {c(WORD)} is {c(COLOR)}.', None),
        ['Read the file {path}.', 'What is in {path}?', 'Show me {path}.', 'Open {path} and tell me what it says.'],
    ),
    'list_directory': (
        'List the files of a directory',
        {'path': ('string', lambda: c(['.', 'src', 'docs', '/tmp', c(WORD)]))},
        lambda a: (json.dumps([c(WORD) + '.txt', c(WORD) + '.py']), None),
        ['List the files in {path}.', 'Which files are in {path}?', 'ls {path}'],
    ),
    'run_command': (
        'Run a shell command',
        {'command': ('string', lambda: c(['ls', 'pwd', 'date', 'df -h', 'git status', 'uname -a', 'whoami']))},
        lambda a: (c(['ok', 'done', '/home/user', 'Linux']), None),
        ['Run {command}.', 'Execute the command {command}.', 'Please run `{command}` in the shell.'],
    ),
    'create_event': (
        'Create a calendar event',
        {
            'title': ('string', lambda: c(['Lunch', 'Team meeting', 'Dentist', 'Call with ' + c(NAMES)])),
            'day': ('string', lambda: c(DAYS)),
        },
        lambda a: ('{"status": "created"}', f"I added \"{a['title']}\" on {a['day']} to your calendar."),
        ['Add "{title}" on {day} to my calendar.', 'Create an event "{title}" for {day}.', 'Schedule {title} on {day}.'],
    ),
    'convert_currency': (
        'Convert an amount of money',
        {
            'amount': ('number', lambda: ri(1, 500)),
            'from': ('string', ST('USD', 'EUR', 'GBP')),
            'to': ('string', ST('JPY', 'CHF', 'CAD')),
        },
        lambda a: (
            json.dumps({'result': (r := round(a['amount'] * ri(50, 15000) / 100, 2)), 'currency': a['to']}),
            f"{a['amount']} {a['from']} is {r} {a['to']}.",
        ),
        ['Convert {amount} {from} to {to}.', 'How much is {amount} {from} in {to}?'],
    ),
    'turn_on_light': (
        'Turn on the light in a room',
        {'room': ('string', ST('kitchen', 'bedroom', 'bathroom', 'office', 'hall'))},
        lambda a: ('{"ok": true}', f"The light in the {a['room']} is on."),
        ['Turn on the light in the {room}.', 'Switch the {room} light on, please.', 'Make it bright in the {room}.'],
    ),
    'play_music': (
        'Play music',
        {'artist': ('string', ST('Mozart', 'Queen', 'The Beatles', 'Bach', 'Adele'))},
        lambda a: ('{"playing": true}', f"Now playing {a['artist']}."),
        ['Play {artist}.', 'Play some music by {artist}.', 'I want to hear {artist}.'],
    ),
    'get_user': (
        'Look up a user by id',
        {'user_id': ('integer', lambda: ri(1, 9999))},
        lambda a: (
            json.dumps({'id': a['user_id'], 'name': (nm := c(NAMES)), 'city': c(CITY)}),
            f"User {a['user_id']} is {nm}.",
        ),
        ['Who is user {user_id}?', 'Look up user {user_id}.', 'Get the user with id {user_id}.'],
    ),
    'remember': (
        'Store a note',
        {'note': ('string', lambda: c(['buy ' + c(ITEM), 'call ' + c(NAMES), 'water the plants']))},
        lambda a: ('{"saved": true}', f"I'll remember: {a['note']}."),
        ['Remember to {note}.', 'Save this note: {note}', 'Note: {note}'],
    ),
}


def wrapres(n_, f):
    def g(a):
        res, ans = f(a)
        if ans is None:
            v = next(iter(a.values()))
            ans = {
                'get_time': f'It is {res} in {v}.',
                'calculator': f'{v} = {res}',
                'search_web': f'I found a page for "{v}": https://example.com/{str(v).split()[0]}',
                'read_file': f'{v} says: {res}',
                'list_directory': (
                    (f'The files in {v} are ' + ' and '.join(json.loads(res)) + '.') if n_ == 'list_directory' else ''
                ),
                'run_command': f'The command printed: {res}',
            }[n_]
        return res, ans

    return g


for k_, (d_, p_, f_, q_) in MORE.items():
    TOOLS[k_] = (d_, p_, wrapres(k_, f_), q_)


def tooldoc2():
    ns = R.sample(list(TOOLS), ri(1, 5))
    nm = c(ns)
    d, ps, rf, qs = TOOLS[nm]
    think = R.random() < 0.4
    m = []
    s = c([None, None, None] + SYSS)
    if s:
        m.append(dict(role='system', content=s))
    tl = [spec(x) for x in ns]
    if R.random() < 0.3:
        for x in tl:
            for k2, v2 in x['function']['parameters']['properties'].items():
                v2['description'] = 'The ' + k2.replace('_', ' ')
    if R.random() < 0.42:  # tools are there, but the request needs none
        bad = re.compile(
            r'weather|time|date|news|calculat|add |\+|translate|say "|in French|price|remember|who am|read|list|play|name\?|\d',
            re.I,
        )
        for _ in range(30):
            q, a = c(pool)
            if not bad.search(q) and len(q) < 150:
                break
        if R.random() < 0.35:
            q, a = c(
                [
                    ('hi', 'Hello! How can I help you today?'),
                    ('Hello!', 'Hi! What can I do for you?'),
                    ('thanks', "You're welcome!"),
                    ('Good morning', 'Good morning! How can I help you?'),
                    ('How are you?', "I'm doing well, thank you! How can I help you?"),
                    ('hey', 'Hello! What can I do for you?'),
                    ('Who are you?', 'I am a small language model that runs in Anabranch.'),
                    ('bye', 'Goodbye! Have a nice day.'),
                ]
            )
        m += [
            dict(role='user', content=q),
            dict(
                role='assistant', content=a, reasoning_content='No tool is needed for this. I answer directly.' if think else ''
            ),
        ]
        return m, tl
    if R.random() < 0.15:
        q, a = c(pool)
        m += [dict(role='user', content=q), dict(role='assistant', content=a)]
    a = {k: f() for k, (_, f) in ps.items()}
    res, ans = rf(a)
    q = c(qs).format(**a)
    if R.random() < 0.2:
        q = c(['Please ', 'Can you help? ', 'Hey, ']) + q
    m += [
        dict(role='user', content=q),
        dict(
            role='assistant',
            content='',
            reasoning_content=(
                c(
                    [
                        f'The user asks for something that the {nm} function can do. I should call {nm} with '
                        + ', '.join(f'{k} = {v}' for k, v in a.items())
                        + '.',
                        f'I need {nm} for this.',
                    ]
                )
                if think
                else ''
            ),
            tool_calls=[dict(function=dict(name=nm, arguments=a))],
        ),
    ]
    if R.random() < 0.75:
        m += [
            dict(role='tool', content=res),
            dict(
                role='assistant',
                content=ans,
                reasoning_content='The function returned a result. I can answer now.' if think else '',
            ),
        ]
        if R.random() < 0.2:
            m += [dict(role='user', content=c(['Thanks!', 'thank you'])), dict(role='assistant', content="You're welcome!")]
    return m, tl


def with_tools_and_tasks():
    for _ in range(n(20000)):
        docs.append(tooldoc2())
    for _ in range(n(34000)):
        r = R.random()
        x = taskdoc() if r < 0.82 else memdoc()
        if sum(len(z['content']) for z in x[0]) < 3500 and not any(z['role'] == 'user' and blocked(z['content']) for z in x[0]):
            docs.append(x)


def build(seed, scale, word_file):
    """-> documents in the order in which they were made; `pool` holds their plain pairs afterwards"""
    R.seed(seed)
    base.scale = scale
    wn.update(json.load(open(word_file)))
    words.extend(wn)
    for part in (facts_and_talk, countries, about_words, numbers, several_turns, with_tools_and_tasks):
        part()
    return docs
