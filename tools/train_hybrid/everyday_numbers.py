"""Everyday documents about numbers, the calendar, spelling, kinds of things and word forms."""

from build_synth import DAYS, R, c, ri
from everyday_base import n, put, words

NUMW = 'zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty'.split()
MON = 'January February March April May June July August September October November December'.split()
MD = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
ORD = 'first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth'.split()


def arith():
    k = R.random()
    if k < 0.34:
        a, b = (ri(0, 20), ri(0, 20)) if R.random() < 0.55 else (ri(1, 99), ri(1, 99))
        v = a + b
        op = '+'
        q = c(
            [
                f'What is {a} + {b}?',
                f'{a} + {b}',
                f'{a}+{b}',
                f'What is {a} plus {b}?',
                f'Add {a} and {b}.',
                f'How much is {a} + {b}?',
                f'Calculate {a} + {b}.',
                f'what is {a}+{b}',
                f'{a} + {b} = ?',
            ]
        )
    elif k < 0.58:
        a, b = (ri(0, 20), ri(0, 20)) if R.random() < 0.55 else (ri(1, 99), ri(1, 99))
        a, b = max(a, b), min(a, b)
        v = a - b
        op = '-'
        q = c(
            [
                f'What is {a} - {b}?',
                f'{a} - {b}',
                f'{a}-{b}',
                f'What is {a} minus {b}?',
                f'Subtract {b} from {a}.',
                f'How much is {a} - {b}?',
                f'{a} - {b} = ?',
            ]
        )
    elif k < 0.85:
        a, b = ri(0, 12), ri(0, 12)
        v = a * b
        op = '×'
        q = c(
            [
                f'What is {a} times {b}?',
                f'{a} * {b}',
                f'{a} x {b}',
                f'What is {a} * {b}?',
                f'Multiply {a} by {b}.',
                f'How much is {a} x {b}?',
                f'{a} × {b} = ?',
                f'what is {a}*{b}',
            ]
        )
    else:
        b, v = ri(1, 12), ri(1, 12)
        a = b * v
        op = '÷'
        q = c(
            [
                f'What is {a} divided by {b}?',
                f'{a} / {b}',
                f'Divide {a} by {b}.',
                f'What is {a} / {b}?',
                f'How much is {a} divided by {b}?',
            ]
        )
    return q, c([f'{a} {op} {b} = {v}', f'{a} {op} {b} = {v}.', f'{v}', f'The answer is {v}.', f'It is {v}.'])


CATS = {
    'fruit': 'apple banana orange pear grape mango peach plum cherry kiwi',
    'vegetable': 'carrot potato broccoli onion cabbage spinach cucumber leek',
    'animal': 'dog cat horse cow lion tiger rabbit wolf',
    'bird': 'eagle sparrow owl robin crow parrot',
    'colour': 'red blue green yellow purple orange',
    'tool': 'hammer saw screwdriver wrench drill',
    'vehicle': 'car bus train bicycle truck',
    'country': 'France Japan Brazil Egypt Canada',
    'city': 'Paris London Tokyo Rome Cairo',
    'drink': 'water tea coffee juice milk',
    'instrument': 'piano guitar violin drum flute',
    'sport': 'football tennis golf hockey rugby',
    'planet': 'Mars Venus Jupiter Saturn Neptune',
    'metal': 'iron copper gold silver zinc',
    'month': 'January March July October',
    'flower': 'rose tulip daisy lily',
    'tree': 'oak pine maple birch',
    'insect': 'ant bee beetle butterfly',
    'fish': 'salmon trout tuna cod',
    'piece of furniture': 'table chair sofa bed desk',
}
CATS = {k: v.split() for k, v in CATS.items()}
IRR = dict(
    go='went',
    eat='ate',
    see='saw',
    run='ran',
    write='wrote',
    buy='bought',
    take='took',
    drink='drank',
    give='gave',
    come='came',
    think='thought',
    bring='brought',
    know='knew',
    speak='spoke',
    fly='flew',
    drive='drove',
    break_='broke',
    sing='sang',
    sit='sat',
    stand='stood',
    sleep='slept',
    teach='taught',
    catch='caught',
    find='found',
    begin='began',
    choose='chose',
    forget='forgot',
    grow='grew',
    hear='heard',
    leave='left',
    lose='lost',
    make='made',
    meet='met',
    pay='paid',
    read='read',
    ride='rode',
    say='said',
    sell='sold',
    send='sent',
    tell='told',
    wear='wore',
    win='won',
    walk='walked',
    play='played',
    work='worked',
    call='called',
)
PL = dict(
    mouse='mice',
    child='children',
    foot='feet',
    tooth='teeth',
    man='men',
    woman='women',
    goose='geese',
    knife='knives',
    leaf='leaves',
    city='cities',
    baby='babies',
    box='boxes',
    bus='buses',
    fox='foxes',
    potato='potatoes',
    tomato='tomatoes',
    sheep='sheep',
    fish='fish',
    person='people',
    life='lives',
    cat='cats',
    dog='dogs',
    house='houses',
    car='cars',
    book='books',
    story='stories',
    party='parties',
    church='churches',
    glass='glasses',
    ox='oxen',
    half='halves',
    shelf='shelves',
)


def an(w):
    return ('an ' if w[0].lower() in 'aeiou' else 'a ') + w


def misc():
    k = ri(0, 31)
    if k == 0:
        i = ri(0, 6)
        return c(
            [
                f'What day comes after {DAYS[i]}?',
                f'Which day follows {DAYS[i]}?',
                f'If today is {DAYS[i]}, what day is tomorrow?',
            ]
        ), (f'{DAYS[(i + 1) % 7]} comes after {DAYS[i]}.' if R.random() < 0.5 else f'{DAYS[(i + 1) % 7]}.')
    if k == 1:
        i = ri(0, 6)
        return (
            c(
                [
                    f'What day comes before {DAYS[i]}?',
                    f'Which day is before {DAYS[i]}?',
                    f'If today is {DAYS[i]}, what day was yesterday?',
                ]
            ),
            f'{DAYS[i - 1]}.',
        )
    if k == 2:
        i = ri(0, 11)
        return (
            c([f'Which month comes after {MON[i]}?', f'What month follows {MON[i]}?']),
            f'{MON[(i + 1) % 12]} comes after {MON[i]}.',
        )
    if k == 3:
        i = ri(0, 11)
        return (
            c([f'Which month comes before {MON[i]}?', f'What month is before {MON[i]}?']),
            f'{MON[i - 1]} comes before {MON[i]}.',
        )
    if k == 4:
        i = ri(0, 11)
        return c(
            [f'How many days does {MON[i]} have?', f'How many days are in {MON[i]}?', f'number of days in {MON[i]}']
        ), f'{MON[i]} has {MD[i]} days' + (' (29 in a leap year).' if i == 1 else '.')
    if k == 5:
        i = ri(0, 11)
        return (
            c([f'What is the {ORD[i]} month of the year?', f'Which month is the {ORD[i]}?']),
            f'The {ORD[i]} month is {MON[i]}.',
        )
    if k == 6:
        w = c(words[:2500])
        return (
            c([f'How many letters are in the word "{w}"?', f'How many letters does "{w}" have?']),
            f'The word "{w}" has {len(w)} letters.',
        )
    if k == 7:
        w = c(words[:2500])
        return c([f'Spell the word "{w}".', f'How do you spell {w}?', f'Spell {w}.']), (
            '-'.join(w.upper()) if R.random() < 0.5 else ' '.join(w)
        )
    if k == 8:
        w = c(words[:2500])
        j = R.random() < 0.5
        return (
            f'What is the {"first" if j else "last"} letter of "{w}"?',
            f'The {"first" if j else "last"} letter of "{w}" is "{w[0] if j else w[-1]}".',
        )
    if k == 9:
        w = c(words[:1500])
        return (
            c(
                [
                    f'Say "{w}".',
                    f'Repeat after me: {w}',
                    f'Repeat the word "{w}".',
                    f'Reply with the single word {w}.',
                    f'Write only the word {w}.',
                    f'Answer with just "{w}".',
                ]
            ),
            w,
        )
    if k == 10:
        w = c(words[:2500])
        u = R.random() < 0.5
        return f'Write "{w if u else w.upper()}" in {"upper" if u else "lower"} case.', w.upper() if u else w
    if k == 11:
        g, h = R.sample(list(CATS), 2)
        o = c(CATS[h])
        l = R.sample(CATS[g], 3) + [o]
        R.shuffle(l)
        if o in CATS[g]:
            return misc()
        return f'Which word does not belong: {", ".join(l)}?', f'{o} does not belong, because the others are each {an(g)}.'
    if k == 12:
        g = c(list(CATS))
        o = c(CATS[g])
        return (
            c([f'What kind of thing is {o}?', f'Is {o} {an(g)}?']) if False else f'Is {an(o) if o[0].islower() else o} {an(g)}?'
        ), f'Yes, {an(o) if o[0].islower() else o} is {an(g)}.'
    if k == 13:
        g, h = R.sample(list(CATS), 2)
        o = c(CATS[h])
        if o in CATS[g] or {g, h} <= {'animal', 'bird', 'fish', 'insect'} or {g, h} == {'fruit', 'colour'}:
            return misc()
        s = an(o) if o[0].islower() else o
        return f'Is {s} {an(g)}?', f'No, {s} is {an(h)}, not {an(g)}.'
    if k == 14:
        g, h = R.sample(
            ['fruit', 'vegetable', 'animal', 'bird', 'tool', 'vehicle', 'drink', 'sport', 'metal', 'city', 'country'], 2
        )
        o = c(CATS[g])
        s = an(o) if o[0].islower() else o
        x = [g, h]
        R.shuffle(x)
        return f'Is {s} {an(x[0])} or {an(x[1])}?', f'{s[0].upper() + s[1:]} is {an(g)}.'
    if k == 15:
        w, p = c(list(IRR.items()))
        w = w.strip('_')
        return (
            c([f'What is the past tense of {w}?', f'What is the past tense of "{w}"?', f'past tense of {w}']),
            f'The past tense of {w} is {p}.',
        )
    if k == 16:
        w, p = c(list(PL.items()))
        return (
            c([f'What is the plural of {w}?', f'What is the plural of "{w}"?', f'plural of {w}']),
            f'The plural of {w} is {p}.',
        )
    if k == 17:
        a = ri(1, 50) * 2
        return c([f'What is half of {a}?', f'Half of {a}?']), f'Half of {a} is {a // 2}.'
    if k == 18:
        a = ri(1, 60)
        return c([f'What is double {a}?', f'What is twice {a}?', f'Double {a}.']), f'Twice {a} is {2 * a}.'
    if k == 19:
        p, a = c([10, 20, 25, 50, 100]), ri(1, 20) * 20
        return c([f'What is {p}% of {a}?', f'What is {p} percent of {a}?']), f'{p}% of {a} is {a * p // 100}.'
    if k == 20:
        a, b = ri(1, 5), ri(1, 4)
        p = ri(a * b, a * b + 15)
        return (
            f'A {c(["pen", "apple", "ticket", "book", "coffee"])} costs {a} dollars. I buy {b} and pay with {p} dollars. How much change do I get?',
            f'{b} × {a} = {a * b}, so you get {p - a * b} dollars back.',
        )
    if k == 21:
        i = ri(0, 20)
        return c([f'Write the number {i} in words.', f'How do you write {i} as a word?']), NUMW[i]
    if k == 22:
        i = ri(0, 20)
        return c([f'Write {NUMW[i]} as a number.', f'What number is "{NUMW[i]}"?']), str(i)
    if k == 23:
        a = ri(1, 12)
        return f'Count from {a} to {a + (b := ri(3, 9))}.', ', '.join(map(str, range(a, a + b + 1)))
    if k == 24:
        a = ri(0, 500)
        return c([f'What number comes after {a}?', f'Which number follows {a}?']), f'The number after {a} is {a + 1}.'
    if k == 25:
        a = ri(1, 500)
        return f'What number comes before {a}?', f'The number before {a} is {a - 1}.'
    if k == 26:
        i = ri(0, 24)
        L_ = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'
        return (
            c([f'Which letter comes after {L_[i]}?', f'What letter comes after {L_[i]} in the alphabet?']),
            f'{L_[i + 1]} comes after {L_[i]}.',
        )
    if k == 27:
        h, ap = ri(1, 11), ri(1, 11)
        return f'It is {h} o\'clock. What time will it be in {ap} hours?', f'It will be {(h + ap - 1) % 12 + 1} o\'clock.'
    if k == 28:
        a, b = R.sample(range(0, 1000), 2)
        j = R.random() < 0.5
        return (
            c(
                [
                    f'Which is {"larger" if j else "smaller"}, {a} or {b}?',
                    f'Which number is {"bigger" if j else "smaller"}: {a} or {b}?',
                ]
            ),
            f'{(max if j else min)(a, b)} is {"larger" if j else "smaller"} than {(min if j else max)(a, b)}.',
        )
    if k == 29:
        l = R.sample(range(1, 100), ri(3, 5))
        return c(
            [
                f'Sort these numbers: {", ".join(map(str, l))}',
                f'Sort: {" ".join(map(str, l))}',
                f'Put in order from small to large: {", ".join(map(str, l))}',
            ]
        ), ', '.join(map(str, sorted(l)))
    if k == 30:
        a = ri(1, 200)
        return (
            c([f'Is {a} an even number?', f'Is {a} odd?', f'Is {a} even or odd?'])
            if False
            else (q := c([f'Is {a} an even number?', f'Is {a} odd or even?']))
        ), (
            f'{a} is {"even" if a % 2 == 0 else "odd"}.'
            if 'or' in q
            else ('Yes' if a % 2 == 0 else 'No') + f', {a} is {"even" if a % 2 == 0 else "odd"}.'
        )
    w = c(words[:2500])
    return c([f'Spell "{w}" backwards.', f'Reverse the word "{w}".', f'Write "{w}" backwards.']), w[::-1]


def numbers():
    for _ in range(n(26000)):
        put(*arith(), pth=0.3)
    for _ in range(n(36000)):
        q, a = misc()
        put(q, a, pth=0.32)
