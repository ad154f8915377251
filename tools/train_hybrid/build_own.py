"""Own documents: yes or no, wrong premises, "I don't know", word problems, talk, long quotes, lists, code, JSON.

usage: build_own.py --wordnet DIR --quotes QUOTES.json --tokenizer TOKENIZER.json --out OWN.npz [--scale 1] [--seed 3]

The tables are in own_*.py, facts.py and facts_tables.py. Questions of evalset.py are left out.
"""
import argparse
import json
import random
import re

import own_facts as F
import own_talk as T
import word_problems
from chat_docs import save
from evalset import blocked
from facts_tables import COUNTRY as COUNTRIES
from facts_tables import LANGS, OPP, TRANS
from own_premises import MORE_QA, PREMISES
from own_quotes import quote_task
from own_code import code_task
from wordnet import WordNet

ap = argparse.ArgumentParser()
for name in ('wordnet', 'quotes', 'tokenizer', 'out'):
    ap.add_argument('--' + name, required=True)
ap.add_argument('--scale', type=float, default=1)
ap.add_argument('--seed', type=int, default=3)
ap.add_argument('--procs', type=int, default=1)
a = ap.parse_args()
R = random.Random(a.seed)
c = R.choice
COUNTRY = [tuple(x.split('|')) for x in COUNTRIES.strip().split('\n')]
SYSTEM = ['You are a helpful assistant.', 'You are a helpful assistant.', 'You are a friendly assistant.', 'Answer briefly.', 'You are a concise assistant.', 'You answer questions clearly and briefly.', 'Be short and correct.',
          'You are an assistant that runs in Anabranch.', 'You are a helpful AI assistant.', 'Help the user as well as you can.', 'You are a patient teacher.', 'You are a careful assistant: say so when you do not know something.']
PRE = ['Please tell me: ', 'Quick question: ', 'Hey, ', 'Question: ', 'I want to know: ', 'Tell me, ', 'Hi! ', 'Hello, ', 'For a quiz: ', 'My daughter asks: ', 'Maybe a silly question: ', 'Just curious: ', 'Do you know: ']
POST = [' Thanks!', ' Please answer briefly.', ' Answer in one sentence.', ' Please.', ' And why?', ' Explain briefly.', " I'm not sure."]
docs, pool = [], []
counts = {}


def an(w):
    return w if w.startswith(('a ', 'an ', 'the ')) else ('an ' if w[0].lower() in 'aeiou' else 'a ') + w


def cap(s):
    return s[0].upper() + s[1:]


def vary(q):
    r = R.random()
    if r < .60 or '\n' in q or len(q) > 140:
        return q
    if r < .72:
        return q.lower().rstrip('?.!')
    if r < .78:
        return q.rstrip('?.')
    if r < .90:
        p = c(PRE)
        return p + (q[0].lower() + q[1:] if p.endswith((', ', ': ')) and not re.match(r'I\b|[A-Z]\w+ [A-Z]', q) and R.random() < .7 else q)
    return q + c(POST[:4]) if q[-1] in '?.!' else q


def put(kind, turns, thought='', think=.32, vary_it=True):
    """turns: a question and its answer, or a list of both; the thought is used in a share `think` of the documents"""
    turns = [turns] if isinstance(turns, tuple) else list(turns)
    if any(blocked(q) for q, _ in turns):
        return
    # most tables know more that is not so than that is: keep yes and no in balance
    if kind in ('animals', 'food', 'things', 'deeds', 'places', 'dates') and turns[0][1].startswith('No') and R.random() < .42:
        return
    if vary_it:
        turns[0] = (vary(turns[0][0]), turns[0][1])
    if any(blocked(q) for q, _ in turns):
        return
    th = thought if thought and R.random() < think else ''
    docs.append((turns, c(SYSTEM) if R.random() < .2 else '', th))
    counts[kind] = counts.get(kind, 0) + 1
    if len(turns) == 1 and '\n' not in turns[0][0] and len(turns[0][0]) < 120:
        pool.append((turns[0][0], turns[0][1]))


def n(x):
    return int(x * a.scale + R.random())


# ------------------------------------------------------------------ yes or no about animals, food, things
def yes_no(yes, statement, reason, opposite):
    """-> answer and thought; statement: what is true, e.g. "penguins cannot fly" """
    word = 'Yes' if yes else 'No'
    s = cap(statement)
    answer = c([f'{word}, {statement}.', f'{word}. {s}.', f'{word}, {statement}' + (f'. {cap(reason)}.' if reason else '.'), f'{word}. {s}' + (f'; {reason}.' if reason else '.'), f'{s}' + (f'. {cap(reason)}.' if reason else '.')])
    thought = c([f'{cap(reason) + ". " if reason else ""}{s}. So the answer is {word.lower()}.', f'What do I know? {s}{", because " + reason if reason and R.random() < .5 else ""}. The answer is {word.lower()}.',
                 f'The question expects yes or no. {s}. That means {word.lower()}.'])
    return answer, thought


def animal(x):
    return dict(zip('name plural cls legs flies swims eggs cover breath food home kg speed'.split(), x))


AN = [animal(x) for x in F.ANIMALS]
BY = {x['name']: x for x in AN}
FACT = dict(mammal='mammals have hair and feed their young with milk', bird='birds have feathers and lay eggs', fish='fish live in water and breathe with gills', reptile='reptiles have dry scales and breathe with lungs',
            amphibian='amphibians have moist skin and begin life in water', insect='insects have six legs', arachnid='arachnids have eight legs', crustacean='crustaceans have a hard shell and live mostly in water', mollusc='molluscs have soft bodies',
            worm='worms have soft bodies without legs', jellyfish='jellyfish are simple soft animals')
CLASSES = ['mammal', 'bird', 'fish', 'reptile', 'amphibian', 'insect']


def about_animal(x, y):
    p, nm = x['plural'], x['name']
    k = R.randint(0, 19)
    do = lambda verb: c([f'Can {p} {verb}?', f'Can {an(nm)} {verb}?', f'Do {p} {verb}?', f'Are {p} able to {verb}?'])
    if k <= 2:
        yes = x['flies'] == 'y'
        why = {'bird': 'their wings are too small or their bodies too heavy' if nm not in ('penguin',) else 'their wings are flippers for swimming'}.get(x['cls'], 'they have no wings') if not yes else 'they have wings and light bodies'
        if x['cls'] == 'insect' and not yes:
            why = 'the workers have no wings'
        return do('fly'), *yes_no(yes, f'{p} can fly' if yes else f'{p} cannot fly', why, '')
    if k == 3:
        yes = x['eggs'] == 'y'
        return c([f'Do {p} lay eggs?', f'Does {an(nm)} lay eggs?']), *yes_no(yes, f'{p} lay eggs' if yes else f'{p} do not lay eggs; they give birth to live young', '' if yes else 'they are mammals', '')
    if k in (4, 5):
        w = c(['lungs', 'gills'])
        yes = w in x['breath'] and 'book' not in x['breath']
        return c([f'Do {p} have {w}?', f'Does {an(nm)} have {w}?', f'Do {p} breathe with {w}?']), *yes_no(yes, f'{p} breathe with {x["breath"].replace("its", "their")}', '' if yes else f'they have no {w}' if w == 'gills' or 'lung' not in x['breath'] else '', '')
    if k in (6, 7):
        w = c(['fur', 'feathers', 'scales'])
        yes = w in x['cover'] or (w == 'fur' and x['cover'] in ('hair', 'wool'))
        return c([f'Do {p} have {w}?', f'Does {an(nm)} have {w}?']), *yes_no(yes, f'{p} have {x["cover"]}' + ('' if yes else f', not {w}'), '', '')
    if k in (8, 9, 10):
        g = x['cls'] if R.random() < .5 else c([z for z in CLASSES if z != x['cls']])
        yes = g == x['cls']
        st = f'{an(nm)} is {an(x["cls"])}' + ('' if yes else f', not {an(g)}')
        return c([f'Is {an(nm)} {an(g)}?', f'Are {p} {g + "s" if g != "fish" else "fish"}?', f'Is the {nm} {an(g)}?']), *yes_no(yes, st, FACT[x['cls']], '')
    if k == 11:
        g = c([z for z in CLASSES if z != x['cls']])
        o = [x['cls'], g]
        R.shuffle(o)
        return c([f'Is {an(nm)} {an(o[0])} or {an(o[1])}?', f'Are {p} {o[0]}s or {o[1]}s?'.replace('fishs', 'fish')]), c([f'{cap(an(nm))} is {an(x["cls"])}.', f'{cap(p)} are {x["cls"]}s.'.replace('fishs', 'fish'), f'{cap(an(x["cls"]))}.']), f'{cap(FACT[x["cls"]])}. {cap(p)} fit that, so it is {an(x["cls"])}.'
    if k == 12:
        m = int(x['legs'])
        w = {0: 'no legs', 2: 'two legs', 4: 'four legs', 6: 'six legs', 8: 'eight legs', 10: 'ten legs'}[m]
        return c([f'How many legs does {an(nm)} have?', f'How many legs do {p} have?']), c([f'{cap(an(nm))} has {w}.', f'{cap(p)} have {w}.']), f'{cap(an(nm))} is {an(x["cls"])}. It has {w}.'
    if k == 13:
        return c([f'What do {p} eat?', f'What does {an(nm)} eat?', f'What is the food of {p}?']), c([f'{cap(p)} eat {x["food"]}.', f'Mostly {x["food"]}.' if 'almost' not in x['food'] else f'{cap(p)} eat {x["food"]}.']), f'{cap(p)} live {x["home"]} and eat {x["food"]}.'
    if k == 14:
        return c([f'Where do {p} live?', f'Where does {an(nm)} live?', f'Where can I find {p}?']), f'{cap(p)} live {x["home"]}.', ''
    if k == 15:
        a_, b_ = float(x['kg']), float(y['kg'])
        if max(a_, b_) < 2 * min(a_, b_):
            return None
        big = x if a_ > b_ else y
        small = y if big is x else x
        w = c(['bigger', 'heavier', 'smaller', 'lighter'])
        r = big if w in ('bigger', 'heavier') else small
        o = small if r is big else big
        return c([f'Which is {w}, {an(nm)} or {an(y["name"])}?', f'What is {w}: {an(nm)} or {an(y["name"])}?', f'{cap(an(nm))} or {an(y["name"])}: which is {w}?']), c([f'{cap(an(r["name"]))} is {w} than {an(o["name"])}.', f'The {r["name"]} is {w}.', f'{cap(an(r["name"]))}.']), f'{cap(an(big["name"]))} weighs about {big["kg"]} kg and {an(small["name"])} about {small["kg"]} kg. So the {r["name"]} is {w}.'
    if k == 16:
        a_, b_ = float(x['kg']), float(y['kg'])
        if max(a_, b_) < 2 * min(a_, b_):
            return None
        w = c(['bigger', 'heavier', 'smaller'])
        yes = (a_ > b_) == (w != 'smaller')
        big, small = (x, y) if a_ > b_ else (y, x)
        return f'Is {an(nm)} {w} than {an(y["name"])}?', *yes_no(yes, f'{an(big["name"])} is {"bigger" if w == "smaller" else w} than {an(small["name"])}', f'{an(big["name"])} weighs about {big["kg"]} kg, {an(small["name"])} about {small["kg"]} kg' if R.random() < .5 else '', '')
    if k == 17:
        a_, b_ = float(x['speed']), float(y['speed'])
        if max(a_, b_) < 1.5 * min(a_, b_):
            return None
        f_, s_ = (x, y) if a_ > b_ else (y, x)
        return c([f'Which is faster, {an(nm)} or {an(y["name"])}?', f'Is {an(f_["name"])} faster than {an(s_["name"])}?']), c([f'{cap(an(f_["name"]))} is faster than {an(s_["name"])}.', f'The {f_["name"]} is faster.']), f'{cap(an(f_["name"]))} reaches about {f_["speed"]} km/h, {an(s_["name"])} about {s_["speed"]} km/h.'
    if k == 18 and nm in F.YOUNG:
        return c([f'What is a young {nm} called?', f'What do you call a baby {nm}?', f'What is the young of {an(nm)} called?']), f'A young {nm} is called {an(F.YOUNG[nm])}.', ''
    if k == 18 and nm in F.SOUND:
        return c([f'What sound does {an(nm)} make?', f'What noise do {p} make?']), f'{cap(an(nm))} {F.SOUND[nm]}.', ''
    yes = x['swims'] == 'y'
    if k == 19 and (yes or nm in ('camel', 'hen', 'snail', 'ant', 'mole')):
        return c([f'Can {p} swim?', f'Can {an(nm)} swim?']), *yes_no(yes, f'{p} can swim' if yes else f'{p} are not swimmers', '', '')
    return None


for _ in range(n(16000)):
    x, y = R.sample(AN, 2)
    t = about_animal(x, y)
    if t and 'hen or' not in t[0]:
        put('animals', t[:2], t[2])
FD = [dict(zip('name colour fruit kitchen grows taste'.split(), x)) for x in F.FOODS]
for _ in range(n(3500)):
    x = c(FD)
    nm, fruit = x['name'], x['fruit'] == 'y'
    bare = nm.split(' ', 1)[1]
    k = R.randint(0, 6)
    why = 'it grows from the flower and holds the seeds' if fruit else 'it is not the part with the seeds'
    both = f'in botany {nm} is a fruit, because {why}; in the kitchen it is used as a vegetable'
    if k == 0:
        put('food', (c([f'Is {nm} a fruit?', f'Is the {bare} a fruit?', f'Is {nm} a kind of fruit?']), c([f'Yes, {both}.', f'Yes. {cap(both)}.']) if fruit and x['kitchen'] == 'vegetable' else c([f'Yes, {nm} is a fruit.', f'Yes. It {x["grows"].replace("on", "grows on", 1)} and tastes {x["taste"]}.']) if fruit else c([f'No, {nm} is a vegetable.', f'No. {cap(nm)} is a vegetable; {why}.'])),
            f'A fruit holds the seeds of a plant. For {nm}: {why}. So the answer is {"yes" if fruit else "no"}.')
    elif k == 1:
        put('food', (c([f'Is {nm} a vegetable?', f'Is the {bare} a vegetable?']), f'In the kitchen yes, but {both.split(";")[0]}.' if fruit and x['kitchen'] == 'vegetable' else f'No, {nm} is a fruit.' if fruit else f'Yes, {nm} is a vegetable.'), f'{cap(nm)}: {why}. In the kitchen it is used as a {x["kitchen"]}.')
    elif k == 2:
        put('food', (c([f'What colour is {nm}?', f'What color is {nm}?', f'Which colour does {nm} have?']), c([f'{cap(nm)} is {x["colour"]}.', f'{cap(x["colour"])}.'])))
    elif k == 3:
        put('food', (c([f'Where does {nm} grow?', f'How does {nm} grow?']), f'{cap(nm)} grows {x["grows"]}.'))
    elif k == 4:
        yes = 'under' in x['grows']
        put('food', (f'Does {nm} grow under the ground?', f'{"Yes" if yes else "No"}, {nm} grows {x["grows"]}.'), f'{cap(nm)} grows {x["grows"]}.')
    elif k == 5:
        put('food', (c([f'What does {nm} taste like?', f'How does {nm} taste?']), f'{cap(nm)} tastes {x["taste"]}.'))
    else:
        w = c(['sweet', 'sour'])
        yes = w in x['taste']
        put('food', (f'Is {nm} {w}?', f'{"Yes" if yes else "No"}, {nm} tastes {x["taste"]}.'), f'The taste of {nm} is {x["taste"]}.')
TH = [dict(zip('name material kind use kg floats electric wheels'.split(), x)) for x in F.THINGS]
for _ in range(n(7000)):
    x, y = R.sample(TH, 2)
    nm = x['name']
    k = R.randint(0, 11)
    if k == 0:
        put('things', (c([f'What is {nm} used for?', f'What do people use {nm} for?', f'What can I do with {nm}?']), c([f'{cap(nm)} is used to {x["use"]}.', f'People use it to {x["use"]}.'])))
    elif k == 1:
        put('things', (c([f'What is {nm} made of?', f'Which material is {nm} made of?']), f'{cap(nm)} is usually made of {x["material"]}.'))
    elif k == 2:
        put('things', (c([f'Does {nm} need electricity?', f'Do I need electricity for {nm}?']), *[yes_no(x['electric'] == 'y', f'{nm} needs electricity' if x['electric'] == 'y' else f'{nm} works without electricity', '', '')[0]]))
    elif k == 3:
        t = yes_no(x['wheels'] == 'y', f'{nm} has wheels' if x['wheels'] == 'y' else f'{nm} has no wheels', f'it is used to {x["use"]}', '')
        put('things', (f'Does {nm} have wheels?', t[0]), t[1])
    elif k == 4:
        t = yes_no(False, f'{nm} is not a living thing', 'it does not eat, grow or breathe', '')
        put('things', (c([f'Is {nm} alive?', f'Is {nm} a living thing?', f'Can {nm} breathe?', f'Does {nm} need food?', f'Can {nm} think?', f'Does {nm} sleep?']), t[0]), t[1])
    elif k == 5:
        t = yes_no(False, f'{nm} cannot be eaten', f'it is made of {x["material"]}', '')
        put('things', (c([f'Can I eat {nm}?', f'Can you eat {nm}?', f'Is {nm} edible?']), t[0]), t[1])
    elif k in (6, 7):
        kind = x['kind'] if R.random() < .5 else y['kind']
        if kind != x['kind'] and ('household' in kind or 'machine' in kind or 'device' in kind or 'item' in kind):
            continue
        yes = kind == x['kind']
        t = yes_no(yes, f'{nm} is {an(x["kind"])}' + ('' if yes else f', not {an(kind)}'), f'it is used to {x["use"]}', '')
        put('things', (f'Is {nm} {an(kind)}?', t[0]), t[1])
    elif k == 8:
        a_, b_ = float(x['kg']), float(y['kg'])
        if max(a_, b_) < 2.5 * min(a_, b_):
            continue
        big, small = (x, y) if a_ > b_ else (y, x)
        w = c(['heavier', 'lighter'])
        r = big if w == 'heavier' else small
        put('things', (c([f'Which is {w}, {nm} or {y["name"]}?', f'What is {w}: {nm} or {y["name"]}?']), c([f'{cap(r["name"])} is {w}.', f'{cap(r["name"])} is {w} than {(small if r is big else big)["name"]}.'])), f'{cap(big["name"])} weighs about {big["kg"]} kg, {small["name"]} about {small["kg"]} kg. So {r["name"]} is {w}.')
    elif k == 9:
        a_, b_ = float(x['kg']), float(y['kg'])
        if max(a_, b_) < 2.5 * min(a_, b_):
            continue
        yes = a_ > b_
        big, small = (x, y) if yes else (y, x)
        t = yes_no(yes, f'{big["name"]} is heavier than {small["name"]}', '', '')
        put('things', (f'Is {nm} heavier than {y["name"]}?', t[0]), t[1])
    elif k == 10:
        put('things', (c([f'What do I need to {x["use"]}?', f'Which thing is used to {x["use"]}?']), c([f'You need {nm}.', f'{cap(nm)}.'])))
    else:
        if x['floats'] == 'y' or x['name'] in ('a hammer', 'a key', 'a coin', 'a stone', 'a brick', 'a spoon', 'a knife', 'a pan', 'a saw'):
            yes = x['floats'] == 'y'
            t = yes_no(yes, f'{nm} floats on water' if yes else f'{nm} sinks in water', f'it is made of {x["material"]}', '')
            put('things', (c([f'Does {nm} float on water?', f'Can {nm} float?', f'Does {nm} sink in water?'] if not yes else [f'Does {nm} float on water?', f'Can {nm} float?']), t[0] if yes else c([f'{cap(nm)} sinks in water.', f'{cap(nm)} sinks, because it is made of {x["material"]}.'])), t[1] if yes else f'{cap(nm)} is made of {x["material"]}, so it sinks.')
for claim, truth, why in F.CLAIMS:
    yes = truth == 't'
    for _ in range(n(34)):
        m = re.match(r'(.+?) (is both|is|are|has|have|can|was|were|may)\b (.+)', claim)
        k = R.randint(0, 5)
        if k < 3 and m and m.group(2) in ('is', 'are', 'can', 'was', 'were') and not m.group(3).startswith(('produced',)):
            q = f'{cap(m.group(2))} {m.group(1)} {m.group(3)}?'
        elif k == 3:
            q = f'True or false: {claim}.'
        elif k == 4:
            q = c([f'Is it true that {claim}?', f'Is this right: {claim}?', f'Is the following statement correct? "{cap(claim)}."'])
        else:
            q = c([f'{cap(claim)}, right?', f'I heard that {claim}. Is that true?', f'My friend says that {claim}. Is that right?'])
        if q.startswith('True or false'):
            ans = c([f'{"True" if yes else "False"}. {why}', f'{"True" if yes else "False"}.'])
        else:
            ans = c([f'{"Yes" if yes else "No"}. {why}', f'{c(["Yes, that is true", "Yes, that is right", "Yes"]) if yes else c(["No, that is not true", "No, that is wrong", "No"])}. {why}', why if not yes and R.random() < .3 else f'{"Yes" if yes else "No"}. {why}'])
        put('claims', (q, ans), c([f'The claim is: {claim}. {why} So it is {"true" if yes else "false"}.', f'{why} That makes the statement {"true" if yes else "false"}.']))
for _ in range(n(4500)):                                     # numbers, dates, places
    k = R.randint(0, 9)
    if k == 0:
        x = R.randint(1, 200)
        w = c(['even', 'odd'])
        yes = (x % 2 == 0) == (w == 'even')
        put('numbers', (c([f'Is {x} {"an even" if w == "even" else "an odd"} number?', f'Is {x} {w}?']), f'{"Yes" if yes else "No"}, {x} is {"even" if x % 2 == 0 else "odd"}.'), f'{x} ends in {x % 10}, so it is {"even" if x % 2 == 0 else "odd"}.')
    elif k == 1:
        x = R.randint(2, 100)
        d = next((i for i in range(2, x) if x % i == 0), 0)
        put('numbers', (c([f'Is {x} a prime number?', f'Is {x} prime?']), f'No, {x} is {d} x {x // d}.' if d else f'Yes, {x} is a prime number.'), f'I look for a divisor of {x}. ' + (f'{x} / {d} = {x // d}, so it is not prime.' if d else f'None of the smaller numbers above 1 divides it, so it is prime.'))
    elif k == 2:
        x, d = R.randint(2, 120), R.randint(2, 12)
        yes = x % d == 0
        put('numbers', (c([f'Is {x} divisible by {d}?', f'Can {x} be divided by {d} without a rest?']), f'Yes, {x} / {d} = {x // d}.' if yes else f'No, {x} / {d} is {x // d} with a rest of {x % d}.'), f'{d} x {x // d} = {d * (x // d)}' + (', which is exactly the number.' if yes else f', and {x} - {d * (x // d)} = {x % d} is left.'))
    elif k == 3:
        x, y = R.sample(range(1, 999), 2)
        w = c(['more', 'less', 'bigger', 'smaller'])
        yes = (x > y) == (w in ('more', 'bigger'))
        put('numbers', (f'Is {x} {w} than {y}?', f'{"Yes" if yes else "No"}, {x} is {"bigger" if x > y else "smaller"} than {y}.'), f'{max(x, y)} - {min(x, y)} = {abs(x - y)}, so {max(x, y)} is the bigger one.')
    elif k == 4:
        m = R.randint(0, 11)
        d = c([30, 31])
        have = word_problems.LENGTH[m]
        put('dates', (f'Does {word_problems.MONTHS[m]} have {d} days?', (f'Yes, {word_problems.MONTHS[m]} has {d} days.' if have == d else f'No, {word_problems.MONTHS[m]} has {have} days' + (', or 29 in a leap year.' if m == 1 else '.'))), f'{word_problems.MONTHS[m]} has {have} days.')
    elif k == 5:
        y = R.randint(1896, 2060)
        yes = y % 4 == 0 and (y % 100 != 0 or y % 400 == 0)
        put('dates', (c([f'Is {y} a leap year?', f'Was {y} a leap year?' if y < 2026 else f'Will {y} be a leap year?']), f'{"Yes" if yes else "No"}, {y} ' + ('can be divided by 4, so it is a leap year.' if yes else 'is not a leap year.')), f'{y} / 4 = {y // 4}' + (f' with a rest of {y % 4}.' if y % 4 else ' exactly.') + (' But it is a full century that 400 does not divide.' if not yes and y % 4 == 0 else ''))
    elif k == 6:
        i, j = R.sample(range(7), 2)
        D = word_problems.DAYS
        put('dates', (f'Does {D[i]} come directly after {D[j]}?', f'Yes, {D[i]} is the day after {D[j]}.' if (j + 1) % 7 == i else f'No, {D[(j + 1) % 7]} comes after {D[j]}.'), f'After {D[j]} comes {D[(j + 1) % 7]}.')
    else:
        co, cap_, cur, lang = c(COUNTRY)
        cap0 = cap_.split(' (')[0]
        if k == 7 and co in F.CONTINENT:
            g = F.CONTINENT[co] if R.random() < .5 else c(['Europe', 'Asia', 'Africa', 'North America', 'South America'])
            yes = g == F.CONTINENT[co]
            put('places', (c([f'Is {co} in {g}?', f'Does {co} lie in {g}?']), f'{"Yes" if yes else "No"}, {co} is in {F.CONTINENT[co]}.'), f'{cap(co)} lies in {F.CONTINENT[co]}.')
            put('places', (c([f'On which continent is {co}?', f'Which continent does {co} belong to?', f'Where is {co}?']), f'{cap(co)} is in {F.CONTINENT[co]}.'))
        else:
            o = c(COUNTRY)[1].split(' (')[0] if R.random() < .5 else cap0
            yes = o == cap0
            put('places', (f'Is {o} the capital of {co}?', f'{"Yes" if yes else "No"}, the capital of {co} is {cap0}.' if not yes or R.random() < .5 else f'Yes, {o} is the capital of {co}.'), f'The capital of {co} is {cap0}.')

# ------------------------------------------------------------------ wrong premises, and the same forms with right ones
for q, ans in PREMISES:
    for _ in range(n(26)):
        put('premise', (q, ans), c([f'The question assumes something that is not so. {ans}', 'Is what the question assumes true? It is not, so I should say that.', f'Wait, the question has a wrong assumption. {ans.split(". ")[0]}.']))
for _ in range(n(5000)):
    d, e = R.sample(F.DEEDS, 2)
    who, did, base, year, what = d
    first = lambda s: 'in ' + s if s[0].isdigit() else s
    k = R.randint(0, 4)
    if k == 0:
        q = c([f'When did {e[0]} {base}?', f'In which year did {e[0]} {base}?', f'Why did {e[0]} {base}?', f'How did {e[0]} {base}?'])
        if ' his ' in ' ' + base + ' ':
            continue
        put('premise', (q, c([f'{e[0]} did not {base}. {who} {did}, {first(year)}.', f'That was not {e[0]}: {who} {did} ({year}).', f'It was {who} who {did}, not {e[0]}.'])), f'Who {did}? {who}, {first(year)}. The question names {e[0]}, {e[4]}, so its assumption is wrong.')
    elif k == 1:
        put('deeds', (c([f'When did {who} {base}?', f'In which year did {who} {base}?']), c([f'{who} {did} {first(year)}.', f'{cap(first(year))}.'])), f'{who} was {what}, and {did} {first(year)}.')
    elif k == 2:
        put('deeds', (c([f'Who {did}?', f'Who was it that {did}?', f'Do you know who {did}?']) if ' his ' not in did else f'Which composer {did}?', c([f'{who} {did}.', f'{who}, {first(year)}.', f'It was {who}.'])), f'{who}, {what}, {did} {first(year)}.')
    elif k == 3:
        yes = R.random() < .5
        w = who if yes else e[0]
        if ' his ' in ' ' + base + ' ':
            continue
        put('deeds', (f'Did {w} {base}?', f'Yes, {who} {did} {first(year)}.' if yes else f'No, {who} {did}, not {w}.'), f'{who} {did}. So the answer is {"yes" if yes else "no"}.')
    else:
        put('deeds', (c([f'Who was {who}?', f'Who is {who}?', f'What is {who} known for?', f'Tell me about {who}.']), c([f'{who} was {what} who {did} {first(year)}.', f'{who} was {what}. In the year {year}, {who.split()[-1]} {did}.' if year.isdigit() else f'{who} was {what} who {did}.'])))
for _ in range(n(3000)):
    x = c(AN)
    p, nm = x['plural'], x['name']
    k = R.randint(0, 4)
    if k == 0 and x['flies'] == 'n':
        put('premise', (c([f'Why do {p} fly south in winter?', f'How high can {p} fly?', f'How fast do {p} fly?', f'Why can {p} fly?']), c([f'{cap(p)} cannot fly.', f'{cap(p)} do not fly' + ('; they have no wings.' if x['cls'] not in ('bird', 'insect') else '.')])), f'Can {p} fly? No. So I correct that.')
    elif k == 0:
        put('animals', (f'Why can {p} fly?', f'{cap(p)} have wings and light bodies, so they can fly.'), f'{cap(p)} do fly: they have wings.')
    elif k == 1 and x['eggs'] == 'n':
        put('premise', (c([f'How many eggs does {an(nm)} lay?', f'Where do {p} lay their eggs?', f'What colour are the eggs of {p}?']), f'{cap(p)} do not lay eggs. They are mammals and give birth to live young.'), f'{cap(p)} are mammals and do not lay eggs, so the question is wrong.')
    elif k == 2:
        w = c(['feathers', 'fur', 'gills', 'wings', 'wheels', 'roots', 'leaves'])
        if w in x['cover'] or w in x['breath'] or (w == 'wings' and (x['cls'] in ('bird', 'insect') or nm == 'bat')) or (w == 'fur' and x['cls'] == 'mammal') or (w == 'gills' and nm in ('frog', 'newt', 'toad', 'snail')) or (w == 'fur' and x['cover'] == 'hairs'):
            continue
        put('premise', (c([f'Why do {p} have {w}?', f'What colour are the {w} of {an(nm)}?', f'What do {p} use their {w} for?']), c([f'{cap(p)} have no {w}.', f'{cap(p)} do not have {w}; they have {x["cover"]}.' if w in ('feathers', 'fur') else f'{cap(p)} do not have {w}.'])), f'Do {p} have {w}? No. I should say that.')
    elif k == 3:
        t = c(TH)
        v = c(['breathe', 'sleep', 'eat', 'think', 'dream', 'grow up', 'feel'])
        put('premise', (c([f'How does {t["name"]} {v}?', f'Why does {t["name"]} {v}?', f'When does {t["name"]} {v}?']), f'{cap(t["name"])} does not {v}; it is not a living thing.'), f'{cap(t["name"])} is {an(t["kind"])}, not a living thing, so it cannot {v}.')
    else:
        t = c([z for z in TH if z['electric'] == 'n' and z['wheels'] == 'n'])
        put('premise', (c([f'Where do I plug in {t["name"]}?', f'How much electricity does {t["name"]} use?', f'How do I charge the battery of {t["name"]}?']), f'{cap(t["name"])} needs no electricity.'), f'{cap(t["name"])} is made of {t["material"]} and works without electricity.')
for _ in range(n(1500)):
    co, cap_, cur, lang = c(COUNTRY)
    o = c(COUNTRY)
    cap0, o0 = cap_.split(' (')[0], o[1].split(' (')[0]
    if o[0] == co or co not in F.CONTINENT:
        continue
    put('premise', c([(f'How long has {o0} been the capital of {co}?', f'{o0} is not the capital of {co}. The capital is {cap0}.'), (f'Why is {o0} the capital of {co}?', f'It is not. The capital of {co} is {cap0}; {o0} is the capital of {o[0]}.'),
                      (f'Where in {co} is {o0}?', f'{o0} is not in {co}. It is the capital of {o[0]}.')]), f'The capital of {co} is {cap0}, and {o0} belongs to {o[0]}.')

# ------------------------------------------------------------------ "I don't know"
SYL = 'bra kel dor vin mel tar zo quil ner fen lu mar ti sol gan dre pol vex rin tho bel cor aza wim jun hal ost pri'.split()


def made_up():
    return ''.join(R.sample(SYL, c([2, 3]))).capitalize()


for _ in range(n(6500)):
    nm, sn = made_up(), made_up()
    k = R.randint(0, 9)
    person = f'{c(word_problems.NAMES)} {sn}'
    q, x = c([(f'Who is {person}?', person), (f'What is {nm}?', f'"{nm}"'), (f'Where is {nm}?', nm), (f'What is the capital of {nm}?', f'a country called {nm}'), (f'How many people live in {nm}?', f'a place called {nm}'), (f'When was {person} born?', person),
              (f'Who wrote the book "{nm} and {sn}"?', f'a book called "{nm} and {sn}"'), (f'What does the word "{nm.lower()}" mean?', f'the word "{nm.lower()}"'), (f'Tell me about the {nm} War.', f'a war of that name'), (f'What did {person} discover?', person),
              (f'What does the company {nm} make?', f'a company called {nm}'), (f'Which language do people speak in {nm}?', f'a place called {nm}'), (f'How old is {person}?', person), (f'What is the plot of the film "{nm}"?', f'a film called "{nm}"'),
              (f'How do I install {nm.lower()}?', f'a program called {nm.lower()}'), (f'How do you cook {nm.lower()}?', f'a dish called {nm.lower()}'), (f'What colour is the flag of {nm}?', f'a country called {nm}'), (f'Is {person} a good singer?', person), (f'Who is the president of {nm}?', f'a country called {nm}')])
    put('unknown', (q, c([f"I don't know {x}.", f"I don't know; I have never heard of {x}.", f"I'm not sure. I don't know {x}. Can you tell me more?", f"I don't know that. Could it be spelled differently?", f"I have no information about {x}."])),
        c([f'Do I know {x}? No. I should say so instead of making something up.', f'The name is unknown to me. I say that I don\'t know.']))
for text, times in ((T.UNKNOWN, 26), (T.IDENTITY, 26), (T.TALK, 13)):
    kind = {T.UNKNOWN: 'unknown', T.IDENTITY: 'identity', T.TALK: 'talk'}[text]
    for qs, answers in T.blocks(text):
        for q in qs:
            for _ in range(n(times)):
                ans = c(answers)
                th = {'unknown': 'I cannot know this: it is about something that I have no access to. I should say so honestly.', 'identity': c(['The user asks about me. I am a small language model that runs in Anabranch, made by the Anabranch project.', 'This is about me, so I say what I am.']),
                      'talk': c(['This is small talk. A short, friendly answer fits.', 'The user is just talking. I answer in a friendly way.', 'A friendly reply is enough here.'])}[kind]
                q2 = q if R.random() < .7 else c([q.lower(), q.rstrip('?.!'), q + '!', q.lower().rstrip('?.!'), c(['Hi! ', 'Hey, ', 'So, ', 'Well, ', 'Hmm, ']) + q])
                put(kind, (q2, ans), th, vary_it=False)
for _ in range(n(3500)):                                     # what was said earlier in the conversation
    nm, m2 = R.sample(word_problems.NAMES, 2)
    city = c([x[1].split(' (')[0] for x in COUNTRY])
    job = c('nurse teacher baker driver student gardener engineer cook lawyer farmer painter'.split())
    pet = c(['dog', 'cat', 'rabbit', 'parrot', 'horse'])
    col = c('red blue green yellow purple orange black white'.split())
    num = R.randint(2, 99)
    said, ask, ans = c([(f'My name is {nm}.', 'What is my name?', f'Your name is {nm}.'), (f"I'm {nm} from {city}.", 'Where am I from?', f'You are from {city}.'), (f'I am {num} years old.', 'How old am I?', f'You are {num} years old.'),
                        (f'I work as a {job}.', 'What is my job?', f'You work as a {job}.'), (f'My {pet} is called {m2}.', f'What is my {pet} called?', f'Your {pet} is called {m2}.'), (f'My favourite colour is {col}.', 'What is my favourite colour?', f'Your favourite colour is {col}.'),
                        (f'My sister {m2} lives in {city}.', 'Where does my sister live?', f'Your sister {m2} lives in {city}.'), (f'Remember the number {num}.', 'Which number did I tell you?', f'You told me the number {num}.'), (f'I have an appointment in {city} on Friday.', 'Where is my appointment?', f'It is in {city}, on Friday.')])
    turns = [(said, c([f'Nice to know, thank you!', 'Thanks for telling me!', 'Good to know.', 'All right, I will keep that in mind.', 'Noted!', f'Nice to meet you, {nm}!' if said.startswith(('My name', "I'm")) else 'I see.']))]
    for _ in range(R.randint(0, 2)):
        t = c(pool)
        if len(t[0]) + len(t[1]) < 200:
            turns.append(t)
    put('earlier', turns + [(c([ask, ask, 'Do you remember? ' + ask, ask.lower().rstrip('?')]), ans)], f'Earlier the user said: "{said}" So the answer is in the conversation.')

# ------------------------------------------------------------------ word problems, facts, words
for _ in range(n(26000)):
    q, th, ans = word_problems.make(R)
    put('problems', (q, ans), th, think=.55, vary_it=R.random() < .3)
blk = [tuple(x.split(' => ')) for x in MORE_QA.strip().split('\n')]
for q, ans in blk:
    qs = [x.strip() for x in q.split('|')]
    for _ in range(n(12 + 5 * len(qs))):
        put('facts', (c(qs), ans), c([f'I know this: {ans}', 'A simple fact. I answer in one sentence.']), think=.2)
wn = WordNet(a.wordnet)
EX = wn.examples()
R.shuffle(EX)


def spoil(s):
    """-> the sentence with one error of grammar or spelling, or None"""
    k = R.randint(0, 7)
    rules = [(r'\b(He|She|It|he|she|it) is\b', r'\1 are'), (r'\b(They|We|they|we) are\b', r'\1 is'), (r'\b(He|She|It|he|she|it) has\b', r'\1 have'), (r'\b(They|We|I|they|we) have\b', r'\1 has'), (r'\b(He|She|he|she) was\b', r'\1 were'),
             (r'\b(They|We|they|we) were\b', r'\1 was'), (r'\b(a) ([bcdfgklmnpqrstvwz])', r'an \2'), (r'\ban ([aeio])', r'a \1'), (r'\bdoes not\b', 'do not'), (r'\b(He|She|he|she) (\w+)s\b', r'\1 \2')]
    R.shuffle(rules)
    if k < 6:
        for p, w in rules:
            t = re.sub(p, w, s, count=1)
            if t != s:
                return t
    words = s.split()
    i = R.randrange(len(words))
    w = words[i]
    if len(w) < 6 or not w.isalpha():
        return None
    j = R.randint(1, len(w) - 3)
    words[i] = w[:j] + w[j + 1] + w[j] + w[j + 2:]
    t = ' '.join(words)
    return t if t != s else None


for s in EX[:n(9000)]:
    t = spoil(s)
    if t:
        q, ans = c([(f'Correct this sentence: {t}', s), (f'Fix the mistake: {t}', s), (f'Correct the grammar and spelling: "{t}"', s), (f'Is this sentence correct? {t}', f'No. It should be: {s}'), (f'What is wrong here? "{t}"', f'There is a mistake. The correct sentence is: "{s}"')])
        put('correct', (q, ans), f'I compare word by word. The correct form is: {s}', vary_it=False)
        if R.random() < .25:
            put('correct', (c([f'Is this sentence correct? {s}', f'Correct this sentence if needed: {s}']), c(['Yes, it is correct.', 'The sentence is correct as it is.'])), 'I find no mistake in it.', vary_it=False)
for w in wn.frequent('adj')[:900]:
    d, ex = wn.gloss(w, 'adj')
    if 8 < len(d) < 110:
        put('words', (c([f'What does "{w}" mean?', f'Define "{w}".', f'What is the meaning of the word {w}?']), c([f'"{cap(w)}" means {d}.', f'{cap(d)}.'])))
PLURAL = dict(mouse='mice', child='children', foot='feet', tooth='teeth', goose='geese', knife='knives', leaf='leaves', city='cities', baby='babies', box='boxes', potato='potatoes', tomato='tomatoes', sheep='sheep', person='people', life='lives', cherry='cherries',
              ox='oxen', wife='wives', shelf='shelves', half='halves', thief='thieves', loaf='loaves', scarf='scarves', calf='calves', hero='heroes', echo='echoes', piano='pianos', photo='photos', lady='ladies', fly='flies', country='countries', story='stories', berry='berries', berth='berths',
              dish='dishes', watch='watches', bench='benches', glass='glasses', class_='classes', bus='buses', fox='foxes', crisis='crises', analysis='analyses', cactus='cacti', deer='deer', fish='fish', series='series', species='species', man='men', woman='women', day='days', key='keys', toy='toys', boy='boys', roof='roofs', chief='chiefs')
PAST = dict(go='went gone', eat='ate eaten', see='saw seen', run='ran run', write='wrote written', buy='bought bought', take='took taken', drink='drank drunk', give='gave given', come='came come', think='thought thought', bring='brought brought', know='knew known', speak='spoke spoken',
            fly='flew flown', drive='drove driven', sing='sang sung', sit='sat sat', stand='stood stood', sleep='slept slept', teach='taught taught', catch='caught caught', find='found found', begin='began begun', choose='chose chosen', forget='forgot forgotten', grow='grew grown', hear='heard heard',
            leave='left left', lose='lost lost', make='made made', meet='met met', pay='paid paid', read='read read', ride='rode ridden', ring='rang rung', rise='rose risen', say='said said', sell='sold sold', send='sent sent', shake='shook shaken', shine='shone shone', show='showed shown', shut='shut shut',
            steal='stole stolen', tell='told told', throw='threw thrown', understand='understood understood', wake='woke woken', wear='wore worn', win='won won', break_='broke broken', build='built built', cut='cut cut', draw='drew drawn', fall='fell fallen', feel='felt felt', fight='fought fought', freeze='froze frozen',
            hide='hid hidden', hold='held held', keep='kept kept', lend='lent lent', lie='lay lain', put='put put', spend='spent spent', walk='walked walked', play='played played', stop='stopped stopped', try_='tried tried', work='worked worked', jump='jumped jumped', cook='cooked cooked')
COMP = dict(good='better best', bad='worse worst', big='bigger biggest', small='smaller smallest', happy='happier happiest', easy='easier easiest', fast='faster fastest', far='farther farthest', nice='nicer nicest', hot='hotter hottest', cold='colder coldest', early='earlier earliest', heavy='heavier heaviest', young='younger youngest', thin='thinner thinnest', strong='stronger strongest', funny='funnier funniest', large='larger largest', little='less least', many='more most', beautiful='more|beautiful most|beautiful', careful='more|careful most|careful', expensive='more|expensive most|expensive', interesting='more|interesting most|interesting')
for w, p in PLURAL.items():
    w = w.strip('_')
    for _ in range(n(9)):
        k = R.randint(0, 3)
        put('words', (c([f'What is the plural of {w}?', f'What is the plural of "{w}"?', f'plural of {w}', f'One {w}, two ...?', f'How do I write {w} in the plural?']), c([f'The plural of {w} is {p}.', f'{cap(p)}.', f'One {w}, two {p}.'])) if k else (f'Is "{p}" the plural of "{w}"?', f'Yes, the plural of "{w}" is "{p}".'), '')
for w, p in PAST.items():
    w = w.strip('_')
    x, y = p.split()
    for _ in range(n(9)):
        put('words', c([(f'What is the past tense of {w}?', f'The past tense of {w} is {x}.'), (f'Past tense of "{w}"?', f'{cap(x)}.'), (f'What is the past participle of {w}?', f'The past participle of {w} is {y}.'), (f'Give me the three forms of {w}.', f'{w}, {x}, {y}'), (f'Put into the past tense: I {w} every day.', f'I {x} every day.') if w != 'read' else (f'Past of read?', 'The past of read is also written read.')]))
for w, p in COMP.items():
    x, y = [z.replace('|', ' ') for z in p.split()]
    for _ in range(n(9)):
        put('words', c([(f'What is the comparative of {w}?', f'The comparative of {w} is {x}.'), (f'What is the superlative of {w}?', f'The superlative of {w} is {y}.'), (f'Compare the adjective {w}.', f'{w}, {x}, {y}')]))
LANG = LANGS
for row in TRANS.strip().split('\n'):
    t = row.split('|')
    for i, la in enumerate(LANG):
        for _ in range(n(2.2)):
            put('translate', c([(f'How do you say "{t[0]}" in {la}?', f'"{t[0]}" in {la} is "{t[i + 1]}".'), (f'What is the {la} for "{t[0]}"?', t[i + 1]), (f'{t[0]} in {la}?', f'{t[i + 1]}'), (f'Translate to {la}: {t[0]}', t[i + 1]), (f'Translate "{t[0]}" into {la}, please.', f'In {la}: {t[i + 1]}'),
                             (f'What does "{t[i + 1]}" mean?', f'"{t[i + 1]}" is {la} for "{t[0]}".'), (f'Translate from {la}: {t[i + 1]}', t[0])]))
# ------------------------------------------------------------------ lists and answers in a given form
CATS = {'fruits': 'apple banana orange pear grape mango peach plum cherry kiwi', 'vegetables': 'carrot potato onion cabbage spinach cucumber leek pea bean pumpkin', 'animals': 'dog cat horse cow lion tiger rabbit wolf bear fox', 'birds': 'eagle sparrow owl robin crow parrot swan duck', 'fish': 'salmon trout tuna cod herring carp',
        'insects': 'bee ant butterfly beetle mosquito fly wasp', 'trees': 'oak pine birch maple beech willow ash', 'flowers': 'rose tulip daisy lily sunflower violet', 'colours': 'red blue green yellow purple orange brown pink', 'planets': 'Mercury Venus Earth Mars Jupiter Saturn Uranus Neptune',
        'tools': 'hammer saw screwdriver drill pliers axe spade', 'vehicles': 'car bus train bicycle truck tram plane', 'sports': 'football tennis swimming basketball hockey rowing running', 'instruments': 'piano violin guitar flute drum trumpet cello', 'drinks': 'water tea coffee milk juice lemonade', 'metals': 'iron gold silver copper tin lead zinc',
        'jobs': 'teacher baker nurse farmer pilot lawyer carpenter', 'clothes': 'shirt coat hat scarf dress skirt jacket', 'European countries': 'France Germany Italy Spain Poland Norway Greece Austria', 'Asian countries': 'Japan China India Vietnam Thailand Nepal', 'African countries': 'Egypt Kenya Ghana Morocco Nigeria Senegal',
        'European capitals': 'Paris Rome Berlin Madrid Lisbon Vienna Prague Warsaw', 'rivers': 'Nile Amazon Danube Rhine Thames Volga', 'furniture': 'table chair bed shelf sofa desk', 'kitchen things': 'pan pot knife fork spoon plate bowl', 'body parts': 'head arm leg hand foot nose ear', 'farm animals': 'cow pig sheep goat hen horse', 'pets': 'dog cat hamster rabbit parrot goldfish',
        'school subjects': 'maths history geography biology music art physics', 'programming languages': 'Python Java C Rust Go JavaScript Ruby', 'operating systems': 'Linux Windows macOS Android iOS', 'languages': 'English French Spanish German Italian Japanese Arabic', 'months': 'January March May July August October', 'spices': 'pepper cinnamon ginger cumin nutmeg paprika', 'musicians\' tempo words': 'allegro andante adagio presto largo'}
WORDS = 'zero one two three four five six seven'.split()
for _ in range(n(6500)):
    g, xs = c(list(CATS.items()))
    xs = xs.split()
    m = R.randint(2, min(6, len(xs)))
    l = R.sample(xs, m)
    form = R.randint(0, 5)
    asks = [f'Name {WORDS[m]} {g}.', f'List {WORDS[m]} {g}.', f'Give me {m} {g}.', f'Tell me {WORDS[m]} {g}.', f'Can you name {WORDS[m]} {g}?', f'{WORDS[m].capitalize()} {g}, please.', f'I need the names of {m} {g}.', f'List {m} {g}']
    if form == 0:
        q, ans = c(asks) + ' Separate them by commas.', ', '.join(l)
    elif form == 1:
        q, ans = c(asks) + c([' Use bullet points.', ' As bullet points, please.']), '\n'.join('- ' + cap(x) for x in l)
    elif form == 2:
        q, ans = c(asks) + c([' As a numbered list.', ' Number them.']), '\n'.join(f'{i + 1}. {cap(x)}' for i, x in enumerate(l))
    elif form == 3:
        q, ans = c(asks) + c([' As a JSON array.', ' Answer with a JSON list only.']), json.dumps(l)
    else:
        q = c(asks)
        ans = c(['\n'.join(f'{i + 1}. {cap(x)}' for i, x in enumerate(l)), ', '.join(l[:-1]).capitalize() + ' and ' + l[-1] + '.', '\n'.join('- ' + cap(x) for x in l), cap(', '.join(l)) + '.'])
    put('lists', (q, ans), f'I need {m} {g}. I choose {", ".join(l)}.', vary_it=False, think=.25)
    if R.random() < .2:
        o, ys = c(list(CATS.items()))
        y = c(ys.split())
        if y not in xs and not ({g, o} & {'animals', 'farm animals', 'pets', 'birds', 'fish', 'insects', 'European capitals', 'fruits', 'colours'}):
            l2 = R.sample(xs, 3) + [y]
            R.shuffle(l2)
            put('lists', (f'Which word does not belong: {", ".join(l2)}?', f'{cap(y)}. The others are {g}.'), f'{", ".join(x for x in l2 if x != y)} are {g}. {cap(y)} is not.', vary_it=False)
SHORT = [(q, ans) for q, ans in pool if len(ans) < 60]
for _ in range(n(5000)):
    co, cap_, cur, lang = c(COUNTRY)
    x, y = R.randint(2, 60), R.randint(2, 40)
    q, full, one = c([(f'What is the capital of {co}?', f'The capital of {co} is {cap_.split(" (")[0]}.', cap_.split(' (')[0]), (f'What is {x} + {y}?', f'{x} + {y} = {x + y}', str(x + y)), (f'What is {x} times {y % 10 + 2}?', f'{x} times {y % 10 + 2} is {x * (y % 10 + 2)}.', str(x * (y % 10 + 2))),
                      (f'Which language is spoken in {co}?', f'People in {co} speak {lang}.', lang), (lambda z: (f'What is the opposite of {z[0]}?', f'The opposite of {z[0]} is {z[1]}.', z[1]))(c(OPP.split('|')).split()), (lambda z: (f'Who {z[1]}?', f'{z[0]} {z[1]}.', z[0]))(c([d for d in F.DEEDS if ' his ' not in d[1]])),
                      (lambda z: (f'How many legs does {an(z["name"])} have?', f'{cap(an(z["name"]))} has {z["legs"]} legs.', z['legs']))(c([z for z in AN if z['legs'] != '0']))])
    k = R.randint(0, 6)
    if k <= 1:
        put('form', (q + c([' Answer with one word.', ' One word only.', ' Just the answer, nothing else.', ' Give only the answer.']), one), vary_it=False)
    elif k == 2:
        put('form', (q + c([' Answer in a full sentence.', ' Please answer in a complete sentence.']), full if full.endswith('.') else f'The answer to {x} + {y} is {x + y}.'), vary_it=False)
    elif k == 3:
        put('form', (q + ' Answer in capital letters.', one.upper()), vary_it=False)
    elif k == 4:
        put('form', (q + c([' Answer as JSON with the key "answer".', ' Reply with JSON: {"answer": ...}']), json.dumps({'answer': int(one) if one.isdigit() else one}, ensure_ascii=False)), vary_it=False)
    elif k == 5:
        put('form', (q + ' Put the answer in quotation marks.', f'"{one}"'), vary_it=False)
    else:
        t = c(F.CLAIMS)
        put('form', (f'Answer only with yes or no: is it true that {t[0]}?', 'Yes' if t[1] == 't' else 'No'), t[2], vary_it=False)
# ------------------------------------------------------------------ long quotes, code, JSON
quotes = json.load(open(a.quotes))
for _ in range(n(17000)):
    t = quote_task(R, quotes)
    if t:
        put('quotes', t[:2], t[2], think=.35, vary_it=False)
for _ in range(n(9000)):
    t = code_task(R)
    put('code', t[:2], t[2], think=.2, vary_it=False)
# ------------------------------------------------------------------ several turns
for _ in range(n(9000)):
    k = R.randint(2, 4)
    ts = [t for t in R.sample(pool, k) if len(t[1]) < 300]
    if R.random() < .4:
        b = T.blocks(c([T.TALK, T.IDENTITY, T.UNKNOWN]))
        qs, answers = c(b)
        ts.insert(R.randint(0, len(ts)), (c(qs), c(answers)))
    if len(ts) > 1:
        put('several', ts, '', vary_it=False)
R.shuffle(docs)
print('documents', len(docs), counts)
for turns, system, thought in docs[:: max(1, len(docs) // 60)]:
    print('|', turns[-1][0][:300].replace('\n', '\\n'), '|', thought[:160].replace('\n', '\\n'), '|', turns[-1][1][:200].replace('\n', '\\n'))
save(docs, a.tokenizer, a.out, a.procs)
