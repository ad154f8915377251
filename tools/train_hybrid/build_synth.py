"""Programmatic tasks -> token stream + flags (2 = learn this token by CE, 4 = no loss). Each doc rendered with the chat template.

usage: build_synth.py SEED TOKENS OUT     The tokenizer is read from tok/, text between the tasks from corpus.u16.xz.
The everyday documents (everyday_documents.py) use these tasks too; they call use() first.
"""
import random, json, lzma, sys, string
import numpy as np
from jinja2 import Environment
from tokenizers import Tokenizer
R = random.Random()
tk = TPL = FILLER = None


def use(folder, filler):
    """Sets the tokenizer's folder, and the file of tokens that filler() takes text from."""
    global tk, TPL, FILLER
    tk = Tokenizer.from_file(folder + '/tokenizer.json')
    env = Environment()
    env.filters['tojson'] = lambda x: json.dumps(x, ensure_ascii=False)
    TPL = env.from_string(open(folder + '/chat_template.jinja').read())
    FILLER = filler


NAMES = 'Alice Bob Carol David Emma Frank Grace Henry Iris Jack Karen Liam Maria Noah Olivia Peter Quinn Rosa Samuel Tara Umar Vera William Xenia Yusuf Zoe Anna Ben Chloe Daniel Elena Felix Gina Hugo Ivan Julia Kevin Laura Mark Nina Oscar Paula Ravi Sofia Tom Ursula Victor Wendy'.split()
LAST = 'Smith Johnson Brown Garcia Miller Davis Martinez Lopez Wilson Anderson Thomas Taylor Moore Jackson Lee Perez White Harris Clark Lewis Walker Hall Young King Wright Scott Green Baker Adams Nelson Hill Rivera Carter Mitchell'.split()
CITY = 'Paris London Rome Berlin Madrid Tokyo Cairo Lima Oslo Dublin Vienna Prague Lisbon Athens Boston Chicago Denver Seattle Toronto Sydney Mumbai Seoul Bangkok Nairobi Warsaw Helsinki Zurich Milan Hamburg Kyoto'.split()
ITEM = 'apples oranges pencils books marbles cookies stamps coins bottles chairs tickets eggs bananas cards flowers shirts toys notebooks balloons batteries'.split()
COLOR = 'red blue green yellow purple orange black white silver gold pink brown teal'.split()
ANIM = 'cat dog horse rabbit parrot turtle hamster fish fox owl goat sheep'.split()
JOB = 'engineer teacher nurse lawyer chef pilot writer farmer designer doctor plumber analyst'.split()
WORD = 'river mountain lantern copper velvet thunder meadow anchor candle marble orchid falcon timber harbor crystal saddle pepper willow magnet puzzle ribbon cactus donkey engine feather glacier hammer island jungle kettle ladder mirror needle oyster pillow quartz rocket spider tunnel umbrella violin walnut yogurt zipper'.split()
SYS = [None, None, None, 'You are a helpful assistant.', 'You are a careful assistant. Answer briefly.', 'You are a concise math tutor.', 'Answer with only what is asked.', 'You are an expert assistant. Be accurate and short.', 'You help people extract information from text.', 'You are a friendly assistant.']
c = R.choice
ri = R.randint

def add():
    a, b = ri(1, 10 ** ri(1, 4)), ri(1, 10 ** ri(1, 4))
    q = c([f'What is {a} + {b}?', f'Calculate {a} + {b}.', f'Add {a} and {b}.', f'{a} plus {b} equals what?', f'Please compute {a} + {b}', f'How much is {a} + {b}?'])
    s, x, y, car, out = [], str(a)[::-1], str(b)[::-1], 0, ''
    for i in range(max(len(x), len(y))):
        p, r = int(x[i]) if i < len(x) else 0, int(y[i]) if i < len(y) else 0
        t = p + r + car
        s.append(f'{p} + {r}' + (f' + {car}' if car else '') + f' = {t}, write {t % 10}' + (', carry 1' if t > 9 else ''))
        car = t // 10; out = str(t % 10) + out
    if car: s.append('carry 1 in front')
    return q, f'I need to add {a} and {b}, digit by digit from the right.\n' + '\n'.join(s) + f'\nSo the result is {a + b}.', c([f'{a} + {b} = {a + b}', f'The answer is {a + b}.', f'{a + b}', f'The sum of {a} and {b} is {a + b}.'])
def sub():
    a, b = ri(1, 999), ri(1, 999); a, b = max(a, b), min(a, b)
    q = c([f'What is {a} - {b}?', f'Subtract {b} from {a}.', f'Calculate {a} minus {b}.', f'{a} - {b} = ?'])
    h = b // 100 * 100; t = b % 100 // 10 * 10; o = b % 10
    st, cur = [], a
    for d in (h, t, o):
        if d: st.append(f'{cur} - {d} = {cur - d}'); cur -= d
    return q, f'I subtract {b} from {a} in parts.\n' + '\n'.join(st) + f'\nThe result is {a - b}.', c([f'{a} - {b} = {a - b}', f'The answer is {a - b}.', f'{a - b}'])
def mul():
    a, b = ri(2, 99), ri(2, 12)
    q = c([f'What is {a} times {b}?', f'Multiply {a} by {b}.', f'What is {a} * {b}?', f'Compute {a} x {b}.'])
    t, o = a // 10 * 10, a % 10
    return q, (f'{a} = {t} + {o}.\n{t} x {b} = {t * b}\n{o} x {b} = {o * b}\n{t * b} + {o * b} = {a * b}' if t and o else f'{a} x {b} = {a * b}'), c([f'{a} x {b} = {a * b}', f'The answer is {a * b}.', f'{a * b}'])
def story():
    n, m, i = c(NAMES), c(NAMES), c(ITEM); a, b, d = ri(5, 60), ri(1, 30), ri(1, 5)
    k = ri(0, 3)
    if k == 0:
        return f'{n} has {a} {i}. {m} gives {n} {b} more. How many {i} does {n} have now?', f'{n} starts with {a} {i} and gets {b} more.\n{a} + {b} = {a + b}.', f'{n} has {a + b} {i}.'
    if k == 1:
        b = min(a, b)
        return f'{n} had {a} {i} and gave {b} of them to {m}. How many {i} are left?', f'{n} had {a} and gave away {b}.\n{a} - {b} = {a - b}.', f'{n} has {a - b} {i} left.'
    if k == 2:
        return f'{n} buys {d} boxes of {i}. Each box holds {b} {i}. How many {i} did {n} buy in total?', f'There are {d} boxes with {b} each.\n{d} x {b} = {d * b}.', f'{n} bought {d * b} {i} in total.'
    return f'{n} has {a} {i}. {m} has {b} more {i} than {n}. How many {i} do they have together?', f'{n} has {a}.\n{m} has {a} + {b} = {a + b}.\nTogether: {a} + {a + b} = {2 * a + b}.', f'Together they have {2 * a + b} {i}.'
def jsonx():
    n = f'{c(NAMES)} {c(LAST)}'; age, city, job = ri(18, 80), c(CITY), c(JOB); em = n.split()[0].lower() + str(ri(1, 99)) + '@example.com'; ph = f'555-{ri(1000, 9999)}'
    f = {'name': n, 'age': age, 'city': city, 'job': job, 'email': em, 'phone': ph}
    sent = {'name': f'{n} sent us a message today.', 'age': c([f'{n.split()[0]} is {age} years old.', f'At the age of {age}, {n.split()[0]} is very active.']), 'city': c([f'{n.split()[0]} lives in {city}.', f'The address is in {city}.']), 'job': f'The person works as a {job}.', 'email': f'The email address is {em}.', 'phone': f'You can call {ph}.'}
    ks = ['name'] + R.sample(['age', 'city', 'job', 'email', 'phone'], ri(2, 5)); order = ks[:1] + R.sample(ks[1:], len(ks) - 1)
    txt = ' '.join(sent[k] for k in order); want = R.sample(ks, ri(1, len(ks)))
    q = c(['Extract the following fields as JSON: {w}.\n\nText: {t}', 'Read the text and return a JSON object with the keys {w}.\n\n{t}', '{t}\n\nReturn JSON with keys {w}.']).format(w=', '.join(want), t=txt)
    return q, 'Let me find each field.\n' + '\n'.join(f'{k}: {f[k]}' for k in want), json.dumps({k: f[k] for k in want})
CORP = None
def filler(n):
    global CORP
    if CORP is None:
        CORP = np.frombuffer(lzma.decompress(open(FILLER, 'rb').read()), np.uint16)
    s = ri(0, len(CORP) - n - 1)
    return tk.decode(CORP[s:s + n].tolist()).replace('\ufffd', '').replace('<|endoftext|>', '\n')
def needle():
    w = c(WORD); num = ri(1000, 999999); who = c(NAMES)
    k = ri(0, 3)
    nd, q, a = [(f'The secret code for {w} is {num}.', f'What is the secret code for {w}?', f'The secret code for {w} is {num}.'), (f'{who} hid the key under the {c(COLOR)} {w}.', f'Where did {who} hide the key?', None), (f'The special magic number of {who} is {num}.', f'What is the special magic number of {who}?', f'The special magic number of {who} is {num}.'), (f'The password for the {w} room is "{c(WORD)}-{num}".', f'What is the password for the {w} room?', None)][k]
    if a is None: a = nd
    L = c([60, 120, 250, 500, 700, 1200, 2400]) if R.random() < 0.35 else c([40, 80, 150, 300])
    t = filler(L).split('\n'); p = ri(0, len(t)); t.insert(p, nd); t = '\n'.join(t)
    q = c(['Read this text carefully.\n\n{t}\n\nQuestion: {q}', '{t}\n\n{q}', 'Here is a document:\n{t}\n\nBased on the document, {q}']).format(t=t, q=q)
    return q, f'I look for the relevant sentence in the text. It says: "{nd}"', a
def kvlook():
    ks = R.sample(WORD, ri(3, 14)); d = {k: ri(10, 9999) for k in ks}; k = c(ks)
    t = c(['\n'.join(f'{a}: {b}' for a, b in d.items()), ', '.join(f'{a} = {b}' for a, b in d.items()), json.dumps(d)])
    return c([f'Given these values:\n{t}\n\nWhat is the value of {k}?', f'{t}\n\nTell me the value for {k}.']), f'I look up {k} in the list. The entry is {k} with the value {d[k]}.', c([f'{d[k]}', f'The value of {k} is {d[k]}.'])
def sortl():
    if R.random() < .5:
        l = [ri(0, 99) for _ in range(ri(3, 8))]; s = sorted(l); q = c(['Sort these numbers in ascending order: ', 'Put these numbers from smallest to largest: '])
        if R.random() < .3: s = s[::-1]; q = 'Sort these numbers in descending order: '
        return q + ', '.join(map(str, l)), 'I pick the next number each time.\n' + '\n'.join(f'{i + 1}. {x}' for i, x in enumerate(s)), ', '.join(map(str, s))
    l = R.sample(WORD, ri(3, 7)); s = sorted(l)
    return 'Sort these words alphabetically: ' + ', '.join(l), 'I order them by the first letters.\n' + '\n'.join(f'{i + 1}. {x}' for i, x in enumerate(s)), ', '.join(s)
def maxmin():
    l = [ri(0, 999) for _ in range(ri(3, 9))]; k = c(['largest', 'smallest']); v = max(l) if k == 'largest' else min(l)
    st, cur = [], l[0]
    for x in l[1:]:
        b = x > cur if k == 'largest' else x < cur
        if b: cur = x
        st.append(f'{x}: best so far {cur}')
    return f'What is the {k} number in this list: ' + ', '.join(map(str, l)) + '?', f'I start with {l[0]}.\n' + '\n'.join(st), c([f'The {k} number is {v}.', f'{v}'])
def rev():
    w = c(WORD)
    return c([f'Reverse the word "{w}".', f'Spell "{w}" backwards.']), f'The letters are {" ".join(w)}.\nReversed: {" ".join(w[::-1])}.', w[::-1]
def count():
    w = c(WORD); l = c(w)
    return f'How many times does the letter "{l}" appear in "{w}"?', 'Letters: ' + ', '.join(f'{x} ({"yes" if x == l else "no"})' for x in w) + f'\nCount: {w.count(l)}.', f'The letter "{l}" appears {w.count(l)} time{"s" if w.count(l) != 1 else ""} in "{w}".'
DAYS = 'Monday Tuesday Wednesday Thursday Friday Saturday Sunday'.split()
def day():
    d = ri(0, 6); n = ri(1, 20)
    return f'If today is {DAYS[d]}, what day will it be in {n} days?', f'{n} days is {n // 7} full weeks and {n % 7} days.\n{n % 7} days after {DAYS[d]} is {DAYS[(d + n) % 7]}.', f'It will be {DAYS[(d + n) % 7]}.'
def conv():
    u = c([('kilometers', 'meters', 1000), ('hours', 'minutes', 60), ('minutes', 'seconds', 60), ('kilograms', 'grams', 1000), ('days', 'hours', 24), ('feet', 'inches', 12), ('weeks', 'days', 7), ('meters', 'centimeters', 100)]); n = ri(2, 30)
    return f'Convert {n} {u[0]} to {u[1]}.', f'One {u[0][:-1] if u[0] != "feet" else "foot"} is {u[2]} {u[1]}.\n{n} x {u[2]} = {n * u[2]}.', f'{n} {u[0]} is {n * u[2]} {u[1]}.'
def cmpn():
    a, b = ri(1, 9999), ri(1, 9999)
    if a == b: b += 1
    return f'Which is larger, {a} or {b}?', f'{max(a, b)} - {min(a, b)} = {abs(a - b)}, so {max(a, b)} is larger.', f'{max(a, b)} is larger than {min(a, b)}.'
def seq():
    a, d = ri(1, 50), ri(2, 12); l = [a + i * d for i in range(ri(4, 6))]
    return 'What is the next number in the sequence ' + ', '.join(map(str, l)) + '?', f'The difference is {l[1]} - {l[0]} = {d}.\n{l[-1]} + {d} = {l[-1] + d}.', f'The next number is {l[-1] + d}.'
def even():
    a = ri(1, 9999); e = a % 2 == 0
    return f'Is {a} even or odd?', f'The last digit of {a} is {a % 10}, which is {"even" if e else "odd"}.', f'{a} is {"even" if e else "odd"}.'
def logic():
    x, y, z = R.sample(NAMES, 3); w = c([('taller', 'tallest', 'shortest'), ('older', 'oldest', 'youngest'), ('faster', 'fastest', 'slowest')])
    k = ri(1, 2)
    return f'{x} is {w[0]} than {y}. {y} is {w[0]} than {z}. Who is the {w[k]}?', f'The order is {x}, then {y}, then {z}.\nThe {w[k]} is {x if k == 1 else z}.', f'{x if k == 1 else z} is the {w[k]}.'
def pyexpr():
    a, b, d = ri(1, 20), ri(1, 20), ri(1, 9)
    k = ri(0, 2)
    if k == 0: code, v, th = f'x = {a}\ny = {b}\nprint(x + y * {d})', a + b * d, f'y * {d} = {b * d}.\nx + {b * d} = {a + b * d}.'
    elif k == 1:
        l = [ri(0, 9) for _ in range(4)]; i = ri(0, 3); code, v, th = f'l = {l}\nprint(l[{i}] + {d})', l[i] + d, f'l[{i}] is {l[i]}.\n{l[i]} + {d} = {l[i] + d}.'
    else: code, v, th = f't = 0\nfor i in range({d}):\n    t += i\nprint(t)', sum(range(d)), 'The loop adds ' + ' + '.join(map(str, range(d))) + f' = {sum(range(d))}.'
    return f'What does this Python code print?\n```python\n{code}\n```', th, c([f'It prints {v}.', f'The output is `{v}`.', f'{v}'])
TASKS = [(add, 3), (sub, 2), (mul, 2), (story, 3), (jsonx, 4), (needle, 4), (kvlook, 2), (sortl, 2), (maxmin, 1.5), (rev, 1), (count, 1), (day, 1), (conv, 1), (cmpn, 1), (seq, 1.5), (even, .7), (logic, 1.5), (pyexpr, 1.5)]
TF, TWT = zip(*TASKS)
TOOLS = {
 'get_weather': ('Get the current weather for a city', {'city': ('string', lambda: c(CITY))}, lambda a: (json.dumps({'city': a['city'], 'temperature': (t := ri(-5, 35)), 'condition': (k := c(['sunny', 'cloudy', 'rainy', 'windy', 'snowy']))}), f"It is {k} in {a['city']} with a temperature of {t} degrees."), ['What is the weather in {city}?', 'How is the weather in {city} today?', 'Tell me the current weather for {city}.']),
 'add_numbers': ('Add two numbers', {'a': ('integer', lambda: ri(1, 9999)), 'b': ('integer', lambda: ri(1, 9999))}, lambda a: (str(a['a'] + a['b']), f"{a['a']} + {a['b']} = {a['a'] + a['b']}"), ['What is {a} + {b}? Use the tool.', 'Please add {a} and {b}.']),
 'send_email': ('Send an email to a person', {'to': ('string', lambda: c(NAMES).lower() + '@example.com'), 'subject': ('string', lambda: c(WORD).capitalize() + ' report')}, lambda a: ('{"status": "sent"}', f"I sent the email \"{a['subject']}\" to {a['to']}."), ['Send an email to {to} with the subject "{subject}".', 'Email {to}, subject "{subject}".']),
 'search_files': ('Search files by keyword', {'query': ('string', lambda: c(WORD)), 'limit': ('integer', lambda: ri(1, 20))}, lambda a: (json.dumps([f"{a['query']}_{i}.txt" for i in range(1, 3)]), f"I found these files: {a['query']}_1.txt and {a['query']}_2.txt."), ['Find up to {limit} files about {query}.', 'Search my files for "{query}", at most {limit} results.']),
 'set_timer': ('Set a timer', {'minutes': ('integer', lambda: ri(1, 90))}, lambda a: ('{"ok": true}', f"Your timer is set for {a['minutes']} minutes."), ['Set a timer for {minutes} minutes.', 'Start a {minutes} minute timer please.']),
 'get_stock_price': ('Get the latest stock price of a company', {'symbol': ('string', lambda: ''.join(c(string.ascii_uppercase) for _ in range(ri(3, 4))))}, lambda a: (json.dumps({'symbol': a['symbol'], 'price': (p := ri(100, 90000) / 100)}), f"The latest price of {a['symbol']} is {p}."), ['What is the stock price of {symbol}?', 'How much is {symbol} trading at?']),
 'translate_text': ('Translate text to a language', {'text': ('string', lambda: c(['Good morning', 'Thank you', 'Where is the station?', 'See you tomorrow'])), 'language': ('string', lambda: c(['French', 'German', 'Spanish', 'Italian']))}, lambda a: ('(translated) ' + a['text'], f"The {a['language']} translation is: (translated) {a['text']}"), ['Translate "{text}" into {language}.', 'How do you say "{text}" in {language}?']),
}
def spec(n):
    d, ps, _, _ = TOOLS[n]
    return {'type': 'function', 'function': {'name': n, 'description': d, 'parameters': {'type': 'object', 'properties': {k: {'type': t} for k, (t, _) in ps.items()}, 'required': list(ps)}}}
def tooldoc():
    ns = R.sample(list(TOOLS), ri(1, 4)); n = c(ns); d, ps, rf, qs = TOOLS[n]
    a = {k: f() for k, (_, f) in ps.items()}; res, ans = rf(a)
    think = R.random() < .5
    m = []
    s = c(SYS)
    if s: m.append(dict(role='system', content=s))
    if R.random() < .15:
        q, t, an = c([conv, cmpn, even])(); m += [dict(role='user', content=q), dict(role='assistant', content=an, reasoning_content='No tool is needed here. ' + t if think else '')]
        return m, [spec(x) for x in ns]
    m += [dict(role='user', content=c(qs).format(**a)),
          dict(role='assistant', content='', reasoning_content=(f'The user asks for something that the {n} function can do. I should call {n} with ' + ', '.join(f'{k} = {v}' for k, v in a.items()) + '.') if think else '', tool_calls=[dict(function=dict(name=n, arguments=a))])]
    if R.random() < .75:
        m += [dict(role='tool', content=res), dict(role='assistant', content=ans, reasoning_content='The function returned a result. I can answer now.' if think else '')]
    return m, [spec(x) for x in ns]
def memdoc():
    """multi-turn memory chat"""
    n, ci, co, an, jb = c(NAMES), c(CITY), c(COLOR), c(ANIM), c(JOB); think = R.random() < .5
    facts = R.sample([(c([f'My name is {n}.', f"Hi, I'm {n}.", f'Please call me {n}.']), f'Nice to meet you, {n}!', c(['What is my name?', 'Do you remember my name?']), f'Your name is {n}.'), (c([f'I live in {ci}.', f'I am from {ci}.']), f'{ci} is a lovely place!', c(['Where do I live?', 'Which city am I in?']), f'You live in {ci}.'), (f'My favorite color is {co}.', f'{co.capitalize()} is a nice color.', 'What is my favorite color?', f'Your favorite color is {co}.'), (f'I have a pet {an}.', f'That is great, a {an} is a wonderful pet.', 'What pet do I have?', f'You have a {an}.'), (f'I work as a {jb}.', f'Being a {jb} sounds interesting.', 'What is my job?', f'You work as a {jb}.')], ri(1, 4))
    m = []; s = c(SYS)
    if s: m.append(dict(role='system', content=s))
    for a, b, _, _ in facts:
        m += [dict(role='user', content=a), dict(role='assistant', content=b)]
        if R.random() < .4:
            q, t, x = R.choices(TF, TWT)[0]() if R.random() < .5 else c([even, cmpn, conv])()
            if len(q) < 600: m += [dict(role='user', content=q), dict(role='assistant', content=x)]
    _, _, q, x = c(facts)
    f0 = [f for f in facts if f[3] == x][0]
    m += [dict(role='user', content=q), dict(role='assistant', content=x, reasoning_content=f'Earlier the user said: "{f0[0]}" So the answer is clear.' if think else '')]
    return m, None
def taskdoc():
    m = []; s = c(SYS); k = 1 if R.random() < .6 else ri(2, 4)
    if s: m.append(dict(role='system', content=s))
    think = R.random() < .6
    for i in range(k):
        q, t, a = R.choices(TF, TWT)[0]()
        if k > 1 and len(q) > 1500: q, t, a = add()
        m += [dict(role='user', content=q), dict(role='assistant', content=a, reasoning_content=t if think and i == k - 1 else '')]
    return m, None


def main():
    NTOK, OUT = int(float(sys.argv[2])), sys.argv[3]
    R.seed(int(sys.argv[1]))
    use('tok', 'corpus.u16.xz')
    toks, flags = [], []
    n = 0; nd = 0
    while n < NTOK:
        r = R.random()
        m, tools = taskdoc() if r < .72 else tooldoc() if r < .88 else memdoc()
        txt = TPL.render(messages=m, tools=tools, add_generation_prompt=False)
        parts = txt.split('<|im_start|>assistant\n')
        ids, fl = [], []
        for j, p in enumerate(parts):
            if j == 0:
                e = tk.encode(p).ids; ids += e; fl += [4] * len(e); continue
            h = [1] + tk.encode('assistant\n').ids; ids += h; fl += [4] * len(h)
            cut = p.index('<|im_end|>') + len('<|im_end|>')
            a, b = p[:cut], p[cut:]
            # the part that the generation prompt supplies gets no loss
            pre = ''
            if a.startswith('<think>\n\n</think>\n\n'): pre = '<think>\n\n</think>\n\n'
            elif a.startswith('<think>\n'): pre = '<think>\n'
            e = tk.encode(pre).ids if pre else []; ids += e; fl += [4] * len(e)
            e = tk.encode(a[len(pre):]).ids; ids += e; fl += [2] * len(e)
            e = tk.encode(b).ids; ids += e; fl += [4] * len(e)
        if nd < 3: print(txt, '\n-----'); assert tk.decode(ids, skip_special_tokens=False) == txt
        toks.append(np.array(ids, np.uint16)); flags.append(np.array(fl, np.uint8)); n += len(ids); nd += 1
    t = np.concatenate(toks); f = np.concatenate(flags)
    print('docs', nd, 'tokens', len(t), 'CE tokens', (f == 2).sum())
    b = lzma.compress(t.tobytes() + f.tobytes(), preset=6)
    open(OUT, 'wb').write(b); print('xz', len(b))


if __name__ == '__main__':
    main()
