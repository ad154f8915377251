"""The teacher's prompts: lists times forms, words of WordNet, and quotes of prose.

usage: build_prompts.py --wordnet DIR --quotes QUOTES.json --tokenizer TOKENIZER.json --out PROMPTS.json

TOKENIZER.json is the model's; it says which words are short. Questions of evalset.py are left out.
"""

import argparse
import itertools
import json
import random
import re

from tokenizers import Tokenizer

import older_prompt_lists as O
import prompt_lists as L
from evalset import blocked
from wordnet import WordNet

R = random.Random(47)
SYSTEM = [
    'You are a helpful assistant. Answer correctly and briefly.',
    'You are a helpful assistant. Give short, correct and clear answers.',
    'You are a helpful assistant.',
    'You are a helpful assistant. Be brief.',
    'You are a knowledgeable and friendly assistant. Keep answers short.',
    'Answer correctly, in a few sentences.',
]


def article(form, word):
    """Puts a word into a form, with "an" and the plural where they belong."""
    text = form.replace('{}', word)
    return re.sub(r'\b([Aa]) (?=[aeio]|u(?!s|ni|ti))', r'\1n ', text)


def noise(q):
    """Some users write without capitals or end mark, or add a wish."""
    r = R.random()
    if r < 0.80 or len(q) > 160 or '\n' in q:
        return q
    if r < 0.86:
        return q.lower().rstrip('?.')
    if r < 0.90:
        return q.rstrip('?.')
    return q + R.choice(
        [
            ' Keep it short.',
            ' Answer in one sentence.',
            ' Please be brief.',
            ' Thanks!',
            ' In simple words, please.',
            ' Give an example.',
            ' Two sentences at most.',
            ' Explain your answer.',
        ]
    )


def main():
    ap = argparse.ArgumentParser()
    for name in ('wordnet', 'quotes', 'tokenizer', 'out'):
        ap.add_argument('--' + name, required=True)
    a = ap.parse_args()
    tk = Tokenizer.from_file(a.tokenizer)
    groups = {}

    def add(group, q):
        groups.setdefault(group, set()).add(q)

    def cross(group, items, forms):
        for x in items:
            for f in forms:
                add(group, article(f, x))

    topics = L.TOPICS + [t for t in O.TOPIC if t not in L.TOPICS]
    cross('topic', topics, L.TOPIC_FORMS + O.QF)
    cross('how', L.HOW + O.HOW, L.HOW_FORMS)
    cross('why', L.WHY + O.WHY, L.WHY_FORMS)
    cross('code', L.CODE + O.CODE, L.CODE_FORMS)
    for items, forms in (
        (O.SQLQ, ['Write an SQL query that {}.', 'SQL query that {}', 'Give me a SQL statement that {}.']),
        (O.HTMLQ, ['Write the HTML for {}.', 'Create {} in HTML.', 'Show me {} in HTML and CSS.']),
        (O.SHQ, ['Write a bash command that {}.', 'Give me a shell command that {}.', 'Which Linux command {}?']),
    ):
        cross('code', items, forms)
    cross('command', L.COMMANDS, L.COMMAND_FORMS)
    cross('term', L.TERMS, L.TERM_FORMS)
    cross('docs', L.DOC_THINGS, L.DOC_FORMS)
    for x, y in itertools.product(L.WHO_TO, L.REASONS):
        for f in R.sample(L.MESSAGE_FORMS, 3):
            add('message', f.format(x, y))
    for _ in range(9000):
        n = R.choice([2, 2, 3, 3, 4])
        xs = R.sample(L.INGREDIENTS, n)
        add('food', R.choice(L.FRIDGE_FORMS).format(', '.join(xs[:-1]) + ' and ' + xs[-1]))
    cross('city', L.CITIES, L.CITY_FORMS)
    cross('name', L.NAME_KINDS, L.NAME_FORMS)
    cross('advice', L.ADVICE, L.ADVICE_FORMS)
    cross('format', R.sample(topics, 400), L.FORMAT_ASKS)
    for x, y in itertools.product(L.ROLES, L.ROLE_ASKS):
        for f in ('You are {}. {}.', 'Pretend to be {} and {}.', 'Answer like {}: {}.', 'In the voice of {}, {}.'):
            add('role', f.format(x, y if not f.startswith('You') else y[0].upper() + y[1:]))
    for x, y in itertools.product(L.STORY_WHO, L.STORY_WHAT):
        for f in R.sample(L.STORY_FORMS, 4):
            t = f.format(x, y)
            add('story', t.replace(': a', ': A').replace('. a', '. A').replace('. two', '. Two'))
    cross('chat', L.CHAT, L.CHAT_VARIANTS)
    for e in O.TIPS:
        for f in [
            'Give me three tips for {}.',
            'Give me five tips for {}.',
            'Tips for {}?',
            'What is your best advice for {}?',
            'How can I get better at {}?',
            'What mistakes do people make with {}?',
        ]:
            add('tips', f.format(e))
    for e in O.LISTS:
        for f in [
            'List five {}.',
            'Name three {}.',
            'Give me ten {}.',
            'Can you name some {}?',
            'List 5 {}',
            'Tell me four {}.',
            'Give me a list of {}.',
            'Name six {}, separated by commas.',
            'Write a numbered list of seven {}.',
            'Give me two {} and say one thing about each.',
        ]:
            add('list', f.format(e))
    for e in O.DIFF:
        for f in [
            'What is the difference between {}?',
            'Explain the difference between {}.',
            'difference between {}?',
            'How do {} differ?',
            'Compare {} in two sentences.',
            'What do {} have in common?',
            'Make a table that compares {}.',
        ]:
            add('compare', f.format(e))

    wn = WordNet(a.wordnet)
    pieces = lambda w: len(tk.encode(' ' + w).ids)
    for field, words in wn.fields().items():
        forms = L.FIELD_FORMS.get(field)
        if not forms:
            continue
        words = [w for w in words if pieces(w) <= (2 if field in ('animal', 'food', 'plant') else 3)][:900]
        k = min(len(forms), {'animal': 12, 'food': 10, 'thing': 10, 'person': 8, 'feeling': 9}.get(field, 5))
        for w in words:
            for f in R.sample(forms, k):
                add('word-' + field, article(f, w))
    for p, forms in (
        (
            'verb',
            [
                'What does "to {}" mean?',
                'Use the verb "{}" in a sentence.',
                'Give me three things you can {}.',
                'Write two sentences with the verb {}.',
                'Define the verb {}.',
            ],
        ),
        (
            'adj',
            [
                'What does "{}" mean?',
                'Use the word "{}" in a sentence.',
                'Name three things that are {}.',
                'Give me a synonym for {}.',
                'Describe something {}.',
                'Explain the word {} to a learner of English.',
            ],
        ),
        ('adv', ['Use the word "{}" in a sentence.', 'What does "{}" mean?']),
        (
            'noun',
            [
                'Write a sentence with the word "{}".',
                'Give me three words related to {}.',
                'Write a two-line poem with the word {}.',
            ],
        ),
    ):
        for w in wn.frequent(p)[:3000]:
            for f in R.sample(forms, min(3, len(forms))):
                add('word-' + p, f.format(w))
    nouns = wn.frequent('noun')[:1500]
    for _ in range(9000):
        x, y, z = R.sample(nouns, 3)
        add(
            'mix',
            R.choice(
                [
                    'Write a sentence with the words {}, {} and {}.',
                    'Write a very short story with these words: {}, {}, {}.',
                    'What do {}, {} and {} have in common?',
                    'Make up a title with the words {}, {} and {}.',
                ]
            ).format(x, y, z),
        )
    for e in wn.examples():
        for f in R.sample(L.SENTENCE_TASKS, 4):
            add('sentence', f.format(e))
    quotes = json.load(open(a.quotes))
    R.shuffle(quotes)
    for name, q in quotes[:45000]:
        for f in R.sample(L.QUOTE_TASKS, 1):
            add('quote', f.replace('\\n', '\n').format(q) if '{' not in q else f.replace('\\n', '\n').replace('{}', q))

    # everyday requests are asked several times, each time with another wording around them; long lists are cut
    limit = {'sentence': 45000, 'quote': 45000, 'topic': 40000}
    often = {
        'chat': 8,
        'how': 4,
        'why': 5,
        'code': 4,
        'command': 2,
        'term': 3,
        'docs': 6,
        'message': 3,
        'city': 3,
        'name': 4,
        'advice': 4,
        'tips': 6,
        'list': 6,
        'compare': 6,
        'format': 2,
        'role': 2,
        'story': 2,
    }
    out, report = [], {}
    for g, qs in groups.items():
        qs = sorted(q for q in qs if not blocked(q) and len(q) < 1100)
        R.shuffle(qs)
        qs = qs[: limit.get(g, 10**9)]
        report[g] = len(qs)
        for _ in range(often.get(g, 1)):
            out += [noise(q) for q in qs]
    out = [q for q in out if not blocked(q)]
    R.shuffle(out)
    stems = O.STEMS + [
        'Is a',
        'Are there',
        'Can a',
        'Do all',
        'Did the',
        'Was',
        'Were',
        'Has',
        'Will',
        'Would',
        'Does a',
        'Name the',
        'Name two',
        'Name five',
        'Write one sentence about',
        'Write a JSON',
        'Write a regular expression',
        'Write a letter',
        'Write a review',
        'Write a tweet',
        'Write a dialogue',
        'Write an essay',
        'Write a C++',
        'Write a Rust',
        'Write a Go',
        'Write a CSS',
        'Fix this',
        'Explain the difference',
        'Explain why',
        'Explain what',
        'What should I',
        'What can I',
        'What would happen if',
        'What is the meaning of',
        'What is the name of',
        'What is the purpose of',
        'What is an example of',
        'What is your',
        'What are three',
        'How is',
        'How are',
        'How would',
        'How should',
        'How often',
        'How tall',
        'How big',
        'How heavy',
        'How fast',
        'How deep',
        'How to',
        'Why are',
        'Why did',
        'Why does',
        'Why should',
        'Who is',
        'Who painted',
        'Who discovered',
        'When is',
        'When was',
        'Where was',
        'Where do',
        'Where can I',
        'Which city',
        'Which planet',
        'Which language',
        'Which is better,',
        'Which is bigger,',
        'Which word',
        'My friend',
        'My dog',
        'My boss',
        'My computer',
        'I feel',
        'I like',
        'I think',
        'I would like',
        'Let us',
        "Let's",
        'Imagine',
        'Suppose',
        'Pretend',
        'Act as',
        'You are',
        'Today',
        'Yesterday',
        'Once',
        'On Linux,',
        'In Python,',
        'In JavaScript,',
        'In SQL,',
        'In history,',
        'In music,',
        'In cooking,',
        'Tell me a',
        'Tell me why',
        'Give me two',
        'Give me three',
        'Give me a list',
        'Give me an idea',
        'Give me advice',
        'Help me write',
        'Help me understand',
        'Can you explain',
        'Can you give me',
        'Can you write',
        'Could you explain',
        'Please write',
        'Please list',
        'Please give',
        'Please help',
        'Hello, can',
        'Hey',
        'Good morning',
        'Thanks',
        'OK,',
        'So',
        'And',
        'But',
        'Sort',
        'Count',
        'Spell',
        'Rank',
        'Order',
        'Group',
        'Classify',
        'Extract',
        'Estimate',
        'Guess',
        'Choose',
        'Pick',
        'Add',
        'Subtract',
        'Multiply',
        'Divide',
        'Simplify',
        'Prove',
        'Draw',
        'Design',
        'Invent',
        'Outline',
        'Draft',
        'Edit',
        'Improve',
        'Shorten',
        'Expand',
        'Continue',
        'Complete',
        'Finish',
    ]
    json.dump(dict(system=SYSTEM, prompts=out, stems=stems + [''] * 12), open(a.out, 'w'))
    print('prompts', len(out), 'different', len(set(out)), 'characters', sum(map(len, out)), 'stems', len(stems), report)


if __name__ == '__main__':
    main()
