#!/usr/bin/env python3
"""Writes tasks whose answers a program can check, one JSON object a line: make_tasks.py [OUT] [--seed N] [--at-most N]

The same seed gives the same file. Kinds: json (extraction into an object), arithmetic, needle (one fact in 2,000 to
6,000 tokens), code (short functions, which the checker runs, and what short programs print) and translation (by a
glossary in the prompt, and everyday phrases). They are of the sorts that models/hybrid-146m was trained on, with other
words, names and wordings; nothing here is shared with tools/train_hybrid.
"""
import argparse
import json
import pathlib
import random

FIRST = "Amara Bastian Celine Dmitri Esther Farid Greta Haruki Ingrid Joaquin Katya Leon Mireille Nadia Otto Priya Rufus Selma Tobias Uma Viktor Wanda Yara Zeno".split()
LAST = "Albrecht Bianchi Castillo Dubois Eriksen Fontaine Gruber Hassan Ibarra Jansen Kovacs Lindgren Moreau Novak Okafor Petrov Quist Rossi Sandoval Takeda Ulrich Varga Weber Ziegler".split()
TOWN = "Aarhus Bergen Cordoba Delft Evora Freiburg Ghent Heidelberg Innsbruck Jena Krakow Leiden Malaga Nantes Odense Porto Quimper Riga Salzburg Turin Uppsala Verona Wroclaw York".split()
GOODS = "kettle lamp backpack keyboard blanket helmet tripod monitor cushion toaster wallet jacket headset thermos".split()
THINGS = "pears lemons tiles nails candles folders beads spoons buttons seeds bricks cups sheets badges".split()
WORK = "baker tailor carpenter dentist gardener librarian pharmacist translator".split()
PLACE = "library harbour office greenhouse workshop museum bakery station theatre cellar observatory clinic".split()
CONTAINER = "drawer cupboard basket suitcase crate locker envelope toolbox".split()
OBJECT = "passport compass stopwatch flashlight receipt diary whistle magnifier contract photograph".split()
MONTH = "January February March April May June July August September October November December".split()
# What a word or phrase may become; any of the alternatives, compared without case, accents and marks.
PHRASES = {
    "French": {"good morning": "bonjour", "thank you": "merci", "good night": "bonne nuit", "cat": "chat", "dog": "chien", "water": "eau", "house": "maison",
               "red": "rouge", "goodbye": "au revoir", "please": "s'il vous plait|s'il te plait", "bread": "pain", "book": "livre", "friend": "ami|amie", "sun": "soleil"},
    "German": {"good morning": "guten morgen", "thank you": "danke", "good night": "gute nacht", "cat": "katze", "dog": "hund", "water": "wasser", "house": "haus",
               "red": "rot", "goodbye": "auf wiedersehen|tschuss", "please": "bitte", "bread": "brot", "book": "buch", "friend": "freund|freundin", "sun": "sonne"},
    "Spanish": {"good morning": "buenos dias", "thank you": "gracias", "good night": "buenas noches", "cat": "gato|gata", "dog": "perro|perra", "water": "agua", "house": "casa",
                "red": "rojo|roja", "goodbye": "adios|hasta luego", "please": "por favor", "bread": "pan", "book": "libro", "friend": "amigo|amiga", "sun": "sol"},
}


class Maker:
    def __init__(self, seed, kind):
        self.random = random.Random(f"eval-tasks/{seed}/{kind}")
        self.pick = self.random.choice
        self.number = self.random.randint

    # ------------------------------------------------------------ json
    def json(self):
        schema = self.pick([self.person, self.person, self.person, self.order, self.meeting])
        fields, sentences = schema()
        keys = list(fields)
        kept = self.random.sample(keys[1:], self.number(2, len(keys) - 1))
        shown = [keys[0]] + kept
        text = " ".join(sentences[k] for k in shown)
        wanted = self.random.sample(shown, self.number(2, len(shown)))
        ask = self.pick([
            "Return a JSON object with the keys {k} from this note.\n\n{t}",
            "{t}\n\nExtract {k} as JSON.",
            "Read the note and answer only with JSON. The keys are {k}.\n\nNote: {t}",
        ])
        return ask.format(k=", ".join(wanted), t=text), {"type": "json", "expected": {k: fields[k] for k in wanted}}

    def order(self):
        name, item = f"{self.pick(FIRST)} {self.pick(LAST)}", self.pick(GOODS)
        fields = {"customer": name, "item": item, "quantity": self.number(2, 40), "town": self.pick(TOWN), "order_id": f"{self.pick('KPRT')}-{self.number(100, 999)}"}
        return fields, {"customer": f"The customer is {name}.", "item": f"The item ordered is a {item}.", "quantity": f"The quantity is {fields['quantity']}.",
                        "town": f"It goes to the town of {fields['town']}.", "order_id": f"The order id is {fields['order_id']}."}

    def person(self):
        first, last = self.pick(FIRST), self.pick(LAST)
        fields = {"name": f"{first} {last}", "age": self.number(19, 79), "city": self.pick(TOWN), "job": self.pick(WORK),
                  "email": f"{first.lower()}{self.number(1, 99)}@example.com", "phone": f"555-{self.number(1000, 9999)}"}
        return fields, {"name": f"{first} {last} called this morning.", "age": f"{first} is {fields['age']} years old.", "city": f"{first} lives in {fields['city']}.",
                        "job": f"{first} works as a {fields['job']}.", "email": f"The email is {fields['email']}.", "phone": f"The phone number is {fields['phone']}."}

    def meeting(self):
        topic = self.pick("budget roof garden hiring safety travel".split())
        fields = {"topic": topic, "room": f"{self.pick('ABCD')}{self.number(10, 49)}", "month": self.pick(MONTH), "guests": self.number(3, 30)}
        return fields, {"topic": f"The topic of the meeting is {topic}.", "room": f"We meet in room {fields['room']}.", "month": f"The meeting is in {fields['month']}.",
                        "guests": f"There will be {fields['guests']} guests."}

    # ------------------------------------------------------------ arithmetic
    def arithmetic(self):
        kind = self.number(0, 5)
        a, b = self.number(11, 480), self.number(11, 480)
        name, thing = self.pick(FIRST), self.pick(THINGS)
        if kind == 0:
            return f"What do you get when you add {a} to {b}?", number(a + b)
        if kind == 1:
            a, b = max(a, b), min(a, b)
            return f"How much is {a} minus {b}?", number(a - b)
        if kind == 2:
            a, b = self.number(3, 60), self.number(2, 9)
            return f"Work out {a} times {b}.", number(a * b)
        if kind == 3:
            a, b = self.number(20, 70), self.number(2, 19)
            return f"{name} had {a} {thing} and lost {b} of them. How many {thing} does {name} have left?", number(a - b)
        if kind == 4:
            a, b = self.number(2, 9), self.number(3, 25)
            return f"There are {a} shelves with {b} {thing} on each. How many {thing} are there in total?", number(a * b)
        a, b = self.number(5, 60), self.number(5, 60)
        return f"{name} counted {a} {thing} in the morning and {b} more in the evening. How many {thing} is that together?", number(a + b)

    # ------------------------------------------------------------ needle
    def needle(self):
        kind = self.number(0, 3)
        who, place = f"{self.pick(FIRST)} {self.pick(LAST)}", self.pick(PLACE)
        value = str(self.number(1200, 98999))
        if kind == 0:
            fact, question, answer = f"The access number of the {place} is {value}.", f"What is the access number of the {place}?", value
        elif kind == 1:
            container = f"{self.pick('green grey brass wooden narrow striped'.split())} {self.pick(CONTAINER)}"
            thing = self.pick(OBJECT)
            fact, question, answer = f"{who} put the {thing} into the {container}.", f"Where did {who} put the {thing}?", container
        elif kind == 2:
            fact, question, answer = f"The membership number of {who} is {value}.", f"What is the membership number of {who}?", value
        else:
            town = self.pick(TOWN)
            fact, question, answer = f"{who} moved to {town} last year.", f"To which town did {who} move last year?", town
        tokens = self.number(2000, 5800)
        text = self.filler(tokens)
        text.insert(self.number(0, len(text)), fact)
        paragraphs, i = [], 0
        while i < len(text):
            step = self.number(4, 9)
            paragraphs.append(" ".join(text[i:i + step]))
            i += step
        document = "\n\n".join(paragraphs)
        ask = self.pick(["Read the following text.\n\n{d}\n\nQuestion: {q}", "{d}\n\n{q}", "Here is a report:\n\n{d}\n\nUsing only the report, answer: {q}"])
        return ask.format(d=document, q=question), {"type": "contains", "expected": answer, "about_tokens": tokens}

    def filler(self, tokens):
        """Sentences that answer none of the questions; an English token is about 4.8 characters of them."""
        kinds = [
            "The {a} {n} near the {p} was {v} before the {t}.", "Several {n}s were {v} by the {w} during the {t}.",
            "Nobody in the {p} had expected such a {a} {t}.", "A {w} described how the {n} had been {v} twice.",
            "It took the {w} most of the {t} to understand why the {n} looked so {a}.", "After the {t}, the {p} seemed {a} again.",
            "Some people said that the {w} preferred a {a} {n}, while others were not sure.", "Behind the {p} there was a {n}, {a} and {v}.",
        ]
        words = {
            "a": "quiet dusty bright heavy curious pale ancient gentle crooked lively modest sudden".split(),
            "n": "bridge ledger orchard wagon statue fountain carpet window barrel painting chimney ladder".split(),
            "p": "village market chapel valley courtyard mill tavern meadow quarry square".split(),
            "v": "repaired forgotten painted admired moved cleaned sold measured covered praised".split(),
            "t": "storm festival winter harvest concert auction voyage evening ceremony flood".split(),
            "w": "baker painter sailor gardener clerk judge weaver miller tailor traveller".split(),
        }
        sentences, length = [], 0
        while length < tokens * 4.8:
            sentences.append(self.pick(kinds).format(**{k: self.pick(v) for k, v in words.items()}))
            length += len(sentences[-1]) + 1
        return sentences

    # ------------------------------------------------------------ code
    def code(self):
        return self.function() if self.random.random() < 0.5 else self.output()

    def function(self):
        what, cases = self.pick([
            ("takes two numbers and returns the larger one", [[[3, 8], 8], [[8, 3], 8], [[-1, -2], -1]]),
            ("takes two numbers and returns their sum", [[[3, 8], 11], [[-1, 1], 0], [[10, 10], 20]]),
            ("takes two numbers and returns their product", [[[3, 8], 24], [[-1, 5], -5], [[10, 0], 0]]),
            ("returns True if a number is even and False otherwise", [[[4], True], [[7], False], [[0], True]]),
            ("returns True if a number is odd and False otherwise", [[[4], False], [[7], True], [[0], False]]),
            ("takes a list of numbers and returns their sum", [[[[1, 2, 3]], 6], [[[4]], 4], [[[-5, 5, 9]], 9]]),
            ("returns the largest number in a list", [[[[1, 3, 2]], 3], [[[4]], 4], [[[-5, -7]], -5]]),
            ("returns the smallest number in a list", [[[[1, 3, 2]], 1], [[[4]], 4], [[[-5, -7]], -7]]),
            ("takes a string and returns it reversed", [[["abc"], "cba"], [["x"], "x"], [["level up"], "pu level"]]),
            ("returns the length of a string", [[["abc"], 3], [["x"], 1], [["a b"], 3]]),
            ("returns the square of a number", [[[3], 9], [[-2], 4], [[0], 0]]),
            ("returns the first item of a list", [[[[7, 8]], 7], [[["x"]], "x"], [[[0, 1, 2]], 0]]),
            ("doubles a number", [[[3], 6], [[-2], -4], [[0], 0]]),
            ("converts a string to upper case", [[["abc"], "ABC"], [["Ab c"], "AB C"], [["X"], "X"]]),
        ])
        ask = self.pick(["Write a Python function that {w}.", "Give me a Python function that {w}. Only the code, please.", "I need a short Python function that {w}."])
        return ask.format(w=what), {"type": "python", "cases": cases}

    def output(self):
        a, b, c = self.number(2, 30), self.number(2, 30), self.number(2, 6)
        program, value = self.pick([
            (f"a = {a}\nb = {b}\nprint(a - b)", a - b), (f"n = {a}\nn = n + {b}\nprint(n)", a + b), (f"print(len('{'xyz' * c}'))", 3 * c),
            (f"values = [{a}, {b}, {c}]\nprint(values[{c % 3}])", [a, b, c][c % 3]), (f"print({a} * {c})", a * c), (f"print(max({a}, {b}))", max(a, b)),
        ])
        question = self.pick(["What does this program print?", "Which number does this Python program print?", "What is the output of this code?"])
        return f"{question}\n```python\n{program}\n```", number(value)

    # ------------------------------------------------------------ translation
    def translation(self):
        """With a few pairs to look the word up in, or from what the model knows."""
        language = self.pick(sorted(PHRASES))
        pairs = PHRASES[language]
        phrase = self.pick(sorted(pairs))
        ask = self.pick(['Translate "{p}" into {l}.', "What is {p} in {l}?", "How do you say {p} in {l}?"]).format(p=phrase, l=language)
        if self.random.random() < 0.75:
            shown = self.random.sample(sorted(set(pairs) - {phrase}), self.number(2, 5)) + [phrase]
            self.random.shuffle(shown)
            glossary = {p: pairs[p].split("|")[0] for p in shown}
            ask = "\n".join(f"{k}: {v}" for k, v in glossary.items()) + "\n\n" + ask
        return ask, {"type": "contains", "expected": pairs[phrase], "fold": True}


def number(value):
    return {"type": "number", "expected": value}


# How many there are of each: long prompts take long to read.
KINDS = {"json": 52, "arithmetic": 52, "needle": 32, "code": 52, "translation": 52}


def make_tasks(seed, at_most=None):
    """No two tasks are equal; at_most of each kind are the first ones of that kind."""
    tasks = []
    for kind, count in KINDS.items():
        count = min(count, at_most or count)
        maker, column, seen = Maker(seed, kind), [], set()
        for _ in range(1000 * count):
            prompt, check = getattr(maker, kind)()
            if prompt not in seen:
                seen.add(prompt)
                column.append({"id": f"{kind}-{len(column):03}", "kind": kind, "messages": [{"role": "user", "content": prompt}], "check": check})
            if len(column) == count:
                break
        else:
            raise SystemExit(f"there are only {len(column)} different tasks of the kind {kind}")
        tasks += column
    return tasks


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", default="tasks.jsonl")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-most", type=int, help="tasks of each kind (default: all, {} in total)".format(sum(KINDS.values())))
    args = parser.parse_args()
    tasks = make_tasks(args.seed, args.at_most)
    pathlib.Path(args.out).write_text("".join(json.dumps(t, ensure_ascii=False) + "\n" for t in tasks), encoding="utf-8")
    print(f"{len(tasks)} tasks in {args.out}")


if __name__ == "__main__":
    main()
