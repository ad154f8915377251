"""Word problems and small calculations with the working written out. make(r) -> question, thought, short answer."""

NAMES = 'Ada Ali Amir Ana Anton Bea Bruno Carla Cem Clara Dana Dario Edith Eli Elsa Emil Eva Finn Fiona Gloria Hana Hans Ida Ines Ivan Jana Jonas Jun Kai Kira Lara Leo Lina Luca Mara Marco Mia Milo Mina Nadia Nico Nora Oscar Otto Paula Pia Rafael Rita Ruth Sami Sara Simon Sofia Stella Theo Tim Tina Tom Vera Victor Yara Zara'.split()
ITEMS = 'apples pears plums pencils books marbles stamps coins shells tickets eggs cards flowers stickers buttons nails muffins cookies balloons badges candles cups'.split()
SHOPS = 'baker|grocer|book shop|flower shop|kiosk|market|toy shop|hardware store'.split('|')
DAYS = 'Monday Tuesday Wednesday Thursday Friday Saturday Sunday'.split()
MONTHS = 'January February March April May June July August September October November December'.split()
LENGTH = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]


def money(c):
    return f'${c // 100}.{c % 100:02d}' if c % 100 else f'${c // 100}'


def clock(m):
    return f'{m // 60 % 24}:{m % 60:02d}'


def one(n, word):
    return f'{n} {word[:-1] if n == 1 else word}'


def give_and_get(r):
    n, m, i = r.choice(NAMES), r.choice(NAMES), r.choice(ITEMS)
    a, b = r.randint(8, 60), r.randint(2, 7)
    d = r.randint(2, 20)
    v = a - b + d
    q = r.choice(
        [
            f'{n} has {a} {i}. {n} gives {b} to {m} and then finds {d} more. How many {i} does {n} have now?',
            f'There are {a} {i} in a box. {m} takes {b} out and puts {d} in. How many {i} are in the box?',
            f'{n} had {a} {i}, lost {b} and bought {d}. How many are there now?',
        ]
    )
    return (
        q,
        f'Start with {a}.\nTake away {b}: {a} - {b} = {a - b}.\nAdd {d}: {a - b} + {d} = {v}.',
        f'{a} - {b} + {d} = {v}, so there are {v} {i}.' if 'box' in q else f'{n} has {v} {i} now.',
    )


def groups(r):
    i, a, b = r.choice(ITEMS), r.randint(2, 12), r.randint(2, 15)
    c = r.choice(['boxes', 'bags', 'rows', 'baskets', 'packs'])
    q = r.choice(
        [
            f'There are {a} {c} with {b} {i} each. How many {i} are there in all?',
            f'{r.choice(NAMES)} buys {a} {c} of {i}. Each holds {b}. How many {i} is that?',
            f'How many {i} are in {a} {c} of {b}?',
        ]
    )
    return q, f'{a} {c} with {b} in each.\n{a} x {b} = {a * b}.', f'{a} x {b} = {a * b}, so there are {a * b} {i}.'


def share(r):
    i, a, b = r.choice(ITEMS), r.randint(2, 9), r.randint(2, 12)
    rest = r.choice([0, 0, r.randint(1, a - 1) if a > 2 else 1])
    t = a * b + rest
    q = r.choice(
        [
            f'{t} {i} are shared equally among {a} children. How many does each child get?',
            f'{r.choice(NAMES)} shares {t} {i} fairly with {a - 1} friends, so {a} people share. How many {i} does each get?',
        ]
    )
    th = f'{t} divided by {a}.\n{a} x {b} = {a * b}' + (
        f', and {t} - {a * b} = {rest} is left over.' if rest else ', so nothing is left over.'
    )
    return q, th, f'Each gets {b}' + (f', and {rest} {"is" if rest == 1 else "are"} left over.' if rest else ' ' + i + '.')


def shopping(r):
    n = r.choice(NAMES)
    xs = r.sample(
        ['bread', 'milk', 'a newspaper', 'cheese', 'a cake', 'jam', 'tea', 'a pen', 'rice', 'soap'], r.choice([2, 2, 3])
    )
    ps = [r.randint(2, 18) * 50 for _ in xs]
    t = sum(ps)
    pay = min(x for x in (500, 1000, 2000, 5000) if x >= t)
    lst = ', '.join(f'{x} for {money(p)}' for x, p in zip(xs[:-1], ps)) + f' and {xs[-1]} for {money(ps[-1])}'
    run, steps = 0, []
    for p in ps:
        if run:
            steps.append(f'{money(run)} + {money(p)} = {money(run + p)}.')
        run += p
    if r.random() < 0.5:
        return (
            f'{n} buys {lst}. How much does it cost together?',
            'I add the prices.\n' + '\n'.join(steps),
            f'Together it costs {money(t)}.',
        )
    return (
        f'{n} buys {lst} and pays with {money(pay)}. How much change does {n} get?',
        'First the total.\n' + '\n'.join(steps) + f'\nThen the change: {money(pay)} - {money(t)} = {money(pay - t)}.',
        f'{n} gets {money(pay - t)} back.' if pay > t else f'{n} gets no change; the total is exactly {money(t)}.',
    )


def unit_price(r):
    i, a, p, b = r.choice(ITEMS), r.randint(2, 9), r.randint(1, 9), r.randint(2, 12)
    return (
        f'{a} {i} cost ${a * p}. How much do {b} {i} cost?',
        f'One costs ${a * p} / {a} = ${p}.\n{b} cost {b} x ${p} = ${b * p}.',
        f'{b} {i} cost ${b * p}.',
    )


def age(r):
    n, m = r.sample(NAMES, 2)
    a, d, y = r.randint(5, 40), r.randint(2, 20), r.randint(2, 15)
    k = r.randint(0, 3)
    if k == 0:
        return (
            f'{n} is {a} years old. {m} is {d} years older. How old is {m}?',
            f'{a} + {d} = {a + d}.',
            f'{m} is {a + d} years old.',
        )
    if k == 1:
        return (
            f'{n} is {a} years old and {m} is {a + d}. How old will {m} be when {n} is {a + y}?',
            f'{n} will be {a + y} in {y} years.\nIn {y} years {m} will be {a + d} + {y} = {a + d + y}.',
            f'{m} will be {a + d + y}.',
        )
    if k == 2:
        return (
            f'{n} is twice as old as {m}. {m} is {a}. How old are they together?',
            f'{n} is 2 x {a} = {2 * a}.\nTogether: {2 * a} + {a} = {3 * a}.',
            f'Together they are {3 * a} years old.',
        )
    b = 2026 - a
    return (
        f'{n} was born in {b}. How old does {n} become in {b + a + y}?',
        f'{b + a + y} - {b} = {a + y}.',
        f'{n} becomes {a + y}.',
    )


def speed(r):
    v, t = r.choice([4, 5, 12, 15, 20, 30, 40, 50, 60, 80, 90, 100]), r.randint(2, 8)
    who = r.choice(['A train', 'A car', 'A cyclist', 'A bus', 'A ship'])
    k = r.randint(0, 2)
    if k == 0:
        return (
            f'{who} travels at {v} km per hour for {t} hours. How far does it go?',
            f'Distance is speed times time.\n{v} x {t} = {v * t}.',
            f'It goes {v * t} km.',
        )
    if k == 1:
        return (
            f'{who} covers {v * t} km in {t} hours. What is its average speed?',
            f'Speed is distance divided by time.\n{v * t} / {t} = {v}.',
            f'The average speed is {v} km per hour.',
        )
    return (
        f'{who} travels {v * t} km at {v} km per hour. How long does it take?',
        f'Time is distance divided by speed.\n{v * t} / {v} = {t}.',
        f'It takes {t} hours.',
    )


def duration(r):
    s, d = r.randint(6 * 12, 20 * 12) * 5, r.randint(3, 40) * 5
    e = s + d
    what = r.choice(['A film', 'A lesson', 'The trip', 'A meeting', 'The match', 'The concert'])
    h = f'{d // 60} hour{"s" if d // 60 != 1 else ""}' if d >= 60 else ''
    m = f'{d % 60} minutes' if d % 60 else ''
    text = ' and '.join(x for x in (h, m) if x)
    if r.random() < 0.5:
        full = (s // 60 + 1) * 60
        if full <= e and s % 60:
            th = (
                f'From {clock(s)} to {clock(full)} are {full - s} minutes.\nFrom {clock(full)} to {clock(e)} are {e - full} minutes.\n{full - s} + {e - full} = {d} minutes'
                + (f', which is {text}.' if d >= 60 else '.')
            )
        else:
            th = f'From {clock(s)} to {clock(e)} are {d} minutes' + (f', which is {text}.' if d >= 60 else '.')
        return f'{what} starts at {clock(s)} and ends at {clock(e)}. How long does it last?', th, f'It lasts {text}.'
    th = (
        f'{clock(s)} plus {text}.\n'
        + (f'{clock(s)} + {h} = {clock(s + d // 60 * 60)}.\n' if h and m else '')
        + f'That gives {clock(e)}.'
    )
    return f'{what} starts at {clock(s)} and lasts {text}. When does it end?', th, f'It ends at {clock(e)}.'


def percent(r):
    p, a = r.choice([5, 10, 15, 20, 25, 30, 40, 50, 75]), r.randint(1, 40) * 20
    v = a * p // 100
    n = r.choice(NAMES)
    k = r.randint(0, 3)
    if k == 0:
        return (
            f'A coat costs ${a}. It is {p}% off. What is the new price?',
            f'{p}% of {a} is {a} x {p} / 100 = {v}.\n{a} - {v} = {a - v}.',
            f'The new price is ${a - v}.',
        )
    if k == 1:
        return (
            f'{n} earns ${a} and saves {p}% of it. How much does {n} save?',
            f'{p}% of {a} is {a} x {p} / 100 = {v}.',
            f'{n} saves ${v}.',
        )
    if k == 2:
        return (
            f'Of {a} students, {p}% come by bus. How many is that?',
            f'{p}% of {a} is {a} x {p} / 100 = {v}.',
            f'{v} students come by bus.',
        )
    return f'A price of ${a} rises by {p}%. What is it then?', f'{p}% of {a} is {v}.\n{a} + {v} = {a + v}.', f'It is ${a + v}.'


def average(r):
    k = r.choice([2, 3, 4, 5])
    m = r.randint(4, 40)
    xs = [m + r.randint(-3, 3) for _ in range(k - 1)]
    xs.append(m * k - sum(xs))
    r.shuffle(xs)
    t = sum(xs)
    s = ' + '.join(map(str, xs))
    return (
        r.choice(
            [
                f'What is the average of {", ".join(map(str, xs))}?',
                f'{r.choice(NAMES)} got these points: {", ".join(map(str, xs))}. What is the mean?',
                f'Find the mean of {", ".join(map(str, xs))}.',
            ]
        ),
        f'{s} = {t}.\nThere are {k} numbers: {t} / {k} = {m}.',
        f'The average is {m}.',
    )


def area(r):
    a, b = r.randint(2, 20), r.randint(2, 20)
    k = r.randint(0, 4)
    if k == 0:
        return (
            f'A garden is {a} m long and {b} m wide. What is its area?',
            f'Area is length times width.\n{a} x {b} = {a * b}.',
            f'The area is {a * b} square metres.',
        )
    if k == 1:
        return (
            f'A rectangle has sides of {a} cm and {b} cm. What is its perimeter?',
            f'The perimeter is 2 x ({a} + {b}).\n{a} + {b} = {a + b}.\n2 x {a + b} = {2 * (a + b)}.',
            f'The perimeter is {2 * (a + b)} cm.',
        )
    if k == 2:
        return (
            f'A square has a side of {a} cm. What are its area and perimeter?',
            f'Area: {a} x {a} = {a * a}.\nPerimeter: 4 x {a} = {4 * a}.',
            f'The area is {a * a} square cm and the perimeter is {4 * a} cm.',
        )
    if k == 3:
        return (
            f'A triangle has a base of {2 * a} cm and a height of {b} cm. What is its area?',
            f'The area is base times height divided by 2.\n{2 * a} x {b} = {2 * a * b}.\n{2 * a * b} / 2 = {a * b}.',
            f'The area is {a * b} square cm.',
        )
    c = r.randint(2, 10)
    return (
        f'A box is {a} cm long, {b} cm wide and {c} cm high. What is its volume?',
        f'{a} x {b} = {a * b}.\n{a * b} x {c} = {a * b * c}.',
        f'The volume is {a * b * c} cubic cm.',
    )


def recipe(r):
    a, b, f = r.randint(2, 6), r.randint(2, 6), r.choice([2, 3, 4])
    x = r.choice(['eggs', 'cups of flour', 'spoons of sugar', 'potatoes', 'tomatoes'])
    return (
        f'A recipe for {a} people needs {b} {x}. How many {x} do I need for {a * f} people?',
        f'{a * f} people are {f} times {a} people.\n{f} x {b} = {b * f}.',
        f'You need {b * f} {x}.',
    )


def legs(r):
    a, b = r.randint(1, 9), r.randint(1, 9)
    x, lx = r.choice([('cows', 4), ('sheep', 4), ('dogs', 4), ('horses', 4)])
    y, ly = r.choice([('ducks', 2), ('geese', 2), ('hens', 2), ('spiders', 8), ('ants', 6)])
    t = a * lx + b * ly
    return (
        f'A farmer sees {a} {x if a > 1 or x == "sheep" else x[:-1]} and {b} {y if b > 1 else y[:-1] if y != "geese" else "goose"}. How many legs is that in all?',
        f'{x.capitalize()}: {a} x {lx} = {a * lx}.\n{y.capitalize()}: {b} x {ly} = {b * ly}.\n{a * lx} + {b * ly} = {t}.',
        f'That is {t} legs.',
    )


def compare_two(r):
    n, m, i = *r.sample(NAMES, 2), r.choice(ITEMS)
    a, d = r.randint(10, 60), r.randint(2, 9)
    k = r.randint(0, 2)
    if k == 0:
        return (
            f'{n} has {a} {i} and {m} has {a - d}. How many more does {n} have?',
            f'{a} - {a - d} = {d}.',
            f'{n} has {d} more.',
        )
    if k == 1:
        return (
            f'{n} has {d} fewer {i} than {m}. {m} has {a}. How many does {n} have?',
            f'{a} - {d} = {a - d}.',
            f'{n} has {a - d} {i}.',
        )
    f = r.choice([2, 3, 4, 5])
    return (
        f'{n} has {d} {i}. {m} has {f} times as many. How many do they have together?',
        f'{m} has {f} x {d} = {f * d}.\nTogether: {d} + {f * d} = {d + f * d}.',
        f'They have {d + f * d} {i} together.',
    )


def weekday(r):
    d, n = r.randint(0, 6), r.randint(2, 30)
    if r.random() < 0.6:
        return (
            f'Today is {DAYS[d]}. Which day will it be in {n} days?',
            (f'{n} days are {one(n // 7, "weeks")} and {one(n % 7, "days")}.\n' if n >= 7 else '')
            + (
                f'{one(n % 7, "days")} after {DAYS[d]} is {DAYS[(d + n) % 7]}.'
                if n % 7
                else f'Full weeks do not change the day, so it is {DAYS[d]}.'
            ),
            f'It will be {DAYS[(d + n) % 7]}.',
        )
    n = r.randint(2, 6)
    return (
        f'Today is {DAYS[d]}. Which day was it {n} days ago?',
        f'I go back {n} days: ' + ', '.join(DAYS[(d - k) % 7] for k in range(1, n + 1)) + '.',
        f'It was {DAYS[(d - n) % 7]}.',
    )


def date_plus(r):
    m = r.randint(0, 10)
    d, n = r.randint(1, LENGTH[m]), r.randint(2, 20)
    e = d + n
    if e <= LENGTH[m]:
        return (
            f'What date is {n} days after {MONTHS[m]} {d}?',
            f'{d} + {n} = {e}, and {MONTHS[m]} has {LENGTH[m]} days, so it stays in {MONTHS[m]}.',
            f'It is {MONTHS[m]} {e}.',
        )
    return (
        f'What date is {n} days after {MONTHS[m]} {d}' + (' in a normal year?' if m == 1 else '?'),
        f'{MONTHS[m]} has {LENGTH[m]} days.\n{d} + {n} = {e}, and {e} - {LENGTH[m]} = {e - LENGTH[m]}.\nSo it is in {MONTHS[m + 1]}.',
        f'It is {MONTHS[m + 1]} {e - LENGTH[m]}.',
    )


def convert(r):
    a, b, f = r.choice(
        [
            ('metres', 'centimetres', 100),
            ('kilometres', 'metres', 1000),
            ('kilograms', 'grams', 1000),
            ('litres', 'millilitres', 1000),
            ('hours', 'minutes', 60),
            ('minutes', 'seconds', 60),
            ('days', 'hours', 24),
            ('weeks', 'days', 7),
            ('feet', 'inches', 12),
            ('years', 'months', 12),
            ('centimetres', 'millimetres', 10),
            ('dozens', 'pieces', 12),
            ('dollars', 'cents', 100),
        ]
    )
    n = r.randint(2, 25)
    if r.random() < 0.6:
        return (
            r.choice([f'How many {b} are {n} {a}?', f'Convert {n} {a} to {b}.', f'{n} {a} in {b}?']),
            f'One {"foot" if a == "feet" else a[:-1]} is {f} {b}.\n{n} x {f} = {n * f}.',
            f'{n} {a} are {n * f} {b}.',
        )
    return (
        r.choice([f'How many {a} are {n * f} {b}?', f'Convert {n * f} {b} to {a}.']),
        f'{f} {b} make one.\n{n * f} / {f} = {n}.',
        f'{n * f} {b} are {n} {a}.',
    )


def remaining(r):
    n = r.choice(NAMES)
    t = r.randint(6, 40) * 10
    a, days = r.choice([10, 12, 15, 20, 25]), r.randint(2, 6)
    while a * days >= t:
        t += 50
    return (
        f'{n} reads a book of {t} pages. {n} reads {a} pages a day. How many pages are left after {days} days?',
        f'Read so far: {a} x {days} = {a * days}.\n{t} - {a * days} = {t - a * days}.',
        f'{t - a * days} pages are left.',
    )


def saving(r):
    n, a, w = r.choice(NAMES), r.choice([2, 5, 8, 10, 15, 20, 25]), r.randint(3, 20)
    if r.random() < 0.5:
        return f'{n} saves ${a} every week. How much is that after {w} weeks?', f'{a} x {w} = {a * w}.', f'It is ${a * w}.'
    return (
        f'{n} saves ${a} every week for a bike that costs ${a * w}. How many weeks does it take?',
        f'{a * w} / {a} = {w}.',
        f'It takes {w} weeks.',
    )


def sequence(r):
    k = r.randint(0, 2)
    if k == 0:
        a, d = r.randint(1, 30), r.randint(2, 12)
        xs = [a + i * d for i in range(5)]
        th = f'Each number is {d} more than the one before.\n{xs[-1]} + {d} = {xs[-1] + d}.'
        v = xs[-1] + d
    elif k == 1:
        a, d = r.randint(60, 99), r.randint(2, 9)
        xs = [a - i * d for i in range(5)]
        th, v = f'Each number is {d} less than the one before.\n{xs[-1]} - {d} = {xs[-1] - d}.', xs[-1] - d
    else:
        a, f = r.randint(1, 5), r.choice([2, 3])
        xs = [a * f**i for i in range(5)]
        th, v = f'Each number is {f} times the one before.\n{xs[-1]} x {f} = {xs[-1] * f}.', xs[-1] * f
    return (
        r.choice(
            [
                f'What comes next: {", ".join(map(str, xs))}?',
                f'Continue the series: {", ".join(map(str, xs))}, ...',
                f'Which number follows {", ".join(map(str, xs))}?',
            ]
        ),
        th,
        f'The next number is {v}.',
    )


def equation(r):
    x, a, b = r.randint(1, 20), r.randint(2, 9), r.randint(1, 30)
    k = r.randint(0, 3)
    if k == 0:
        return f'Solve x + {b} = {x + b}.', f'I take {b} away from both sides: x = {x + b} - {b} = {x}.', f'x = {x}'
    if k == 1:
        return f'Solve {a}x + {b} = {a * x + b}.', f'Subtract {b}: {a}x = {a * x}.\nDivide by {a}: x = {x}.', f'x = {x}'
    if k == 2:
        return (
            f'I think of a number. I multiply it by {a} and add {b}. The result is {a * x + b}. What is my number?',
            f'Backwards: {a * x + b} - {b} = {a * x}.\n{a * x} / {a} = {x}.',
            f'Your number is {x}.',
        )
    return f'What number times {a} is {a * x}?', f'{a * x} / {a} = {x}.', f'{x}, because {a} x {x} = {a * x}.'


def fraction(r):
    f, w = r.choice([(2, 'half'), (3, 'a third'), (4, 'a quarter'), (5, 'a fifth'), (10, 'a tenth')])
    v, i, n = r.randint(2, 20), r.choice(ITEMS), r.choice(NAMES)
    if r.random() < 0.5:
        return f'What is {w} of {f * v}?', f'{f * v} / {f} = {v}.', f'{w.capitalize()} of {f * v} is {v}.'
    return (
        f'{n} has {f * v} {i} and gives {w} of them away. How many are left?',
        f'{w.capitalize()} of {f * v} is {f * v} / {f} = {v}.\n{f * v} - {v} = {f * v - v}.',
        f'{f * v - v} {i} are left.',
    )


def long_sum(r):
    a, b = r.randint(100, 999), r.randint(100, 999)
    if r.random() < 0.5:
        x, y, z = a // 100 * 100 + b // 100 * 100, a % 100 // 10 * 10 + b % 100 // 10 * 10, a % 10 + b % 10
        return (
            r.choice([f'What is {a} + {b}?', f'{a} + {b}', f'Add {a} and {b}.']),
            f'Hundreds: {a // 100 * 100} + {b // 100 * 100} = {x}.\nTens: {a % 100 // 10 * 10} + {b % 100 // 10 * 10} = {y}.\nOnes: {a % 10} + {b % 10} = {z}.\n{x} + {y} + {z} = {a + b}.',
            f'{a} + {b} = {a + b}',
        )
    a, b = r.randint(11, 99), r.randint(3, 9)
    return (
        r.choice([f'What is {a} x {b}?', f'{a} times {b}?', f'Multiply {a} by {b}.']),
        f'{a // 10 * 10} x {b} = {a // 10 * 10 * b}.\n{a % 10} x {b} = {a % 10 * b}.\n{a // 10 * 10 * b} + {a % 10 * b} = {a * b}.',
        f'{a} x {b} = {a * b}',
    )


def seats(r):
    p, s = r.randint(10, 99), r.choice([4, 5, 6, 8, 10, 12])
    v = -(-p // s)
    return (
        f'{p} people want to travel in vans with {s} seats. How many vans do they need?',
        f'{p} / {s} is {p // s}'
        + (f' with {p % s} left over, so one more van is needed: {v}.' if p % s else f' exactly, so {v}.'),
        f'They need {v} van{"s" if v > 1 else ""}.',
    )


def order(r):
    a, b, c = r.sample(NAMES, 3)
    w, o = r.choice([('taller', 'tallest'), ('older', 'oldest'), ('faster', 'fastest'), ('heavier', 'heaviest')])
    low = {'tallest': 'shortest', 'oldest': 'youngest', 'fastest': 'slowest', 'heaviest': 'lightest'}[o]
    if r.random() < 0.5:
        return (
            f'{a} is {w} than {b}. {b} is {w} than {c}. Who is the {o}?',
            f'The order is {a}, then {b}, then {c}.',
            f'{a} is the {o}.',
        )
    return (
        f'{a} is {w} than {b}. {b} is {w} than {c}. Who is the {low}?',
        f'The order is {a}, then {b}, then {c}. The last one is {c}.',
        f'{c} is the {low}.',
    )


FORMS = [
    give_and_get,
    groups,
    share,
    shopping,
    shopping,
    unit_price,
    age,
    age,
    speed,
    duration,
    duration,
    percent,
    percent,
    average,
    area,
    recipe,
    legs,
    compare_two,
    weekday,
    date_plus,
    convert,
    convert,
    remaining,
    saving,
    sequence,
    equation,
    fraction,
    long_sum,
    long_sum,
    seats,
    order,
]


def make(r):
    return r.choice(FORMS)(r)
