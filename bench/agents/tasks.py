"""Twelve small tasks, each in a fresh repository that is the same for every program, down to the hash of its commit."""

import json
import os
import re
import shutil
import subprocess
import sys
from typing import Callable, NamedTuple

FILES = {
    "README.md": "# Shop\n\nPrices, carts and receipts. Run the tests with `python3 -m unittest`.\n",
    "notes.txt": "The shop opens at nine.\nThe door is teal.\nDeliveries come on Tuesdays.\nThe cat is called Miso.\n",
    "order.schema.json": json.dumps({"type": "object", "properties": {"item": {"type": "string"}, "count": {"type": "integer"}},
                                     "required": ["item", "count"], "additionalProperties": False}, indent=2) + "\n",
    "shop/__init__.py": "",
    "shop/config.py": 'CURRENCY = "EUR"\nVAT_PERCENT = 19\n',
    "shop/cart.py": '''class Cart:
    def __init__(self):
        self.prices = []

    def add(self, price, count=1):
        self.prices += [price] * count

    def total(self):
        return sum(self.prices)

    def average(self):
        return self.total() / (len(self.prices) + 1)
''',
    "shop/prices.py": '''def parse_price(text):
    amount, _, currency = text.partition(" ")
    return round(float(amount) * 100), currency


def fmt(cents):
    return f"{cents // 100}.{cents % 100:02}"
''',
    "shop/receipt.py": '''from shop.prices import fmt


def line(name, cents):
    return f"{name}: {fmt(cents)}"
''',
    "test_cart.py": '''import unittest

from shop.cart import Cart


class CartTest(unittest.TestCase):
    def test_total(self):
        cart = Cart()
        cart.add(250, 2)
        self.assertEqual(cart.total(), 500)

    def test_average(self):
        cart = Cart()
        cart.add(100)
        cart.add(300)
        self.assertEqual(cart.average(), 200)
''',
}


def make_repository(folder):
    """The repository, with one commit; what was in the folder is removed."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in FILES.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
    person = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER")
              for key, value in (("NAME", "Ada"), ("EMAIL", "ada@example.com"), ("DATE", "2026-01-31T12:00:00Z"))}
    for words in (["init", "-q", "-b", "main"], ["config", "user.name", "Ada"], ["config", "user.email", "ada@example.com"], ["add", "."],
                  ["commit", "-q", "-m", "The shop"]):
        subprocess.run(["git", *words], cwd=folder, check=True, env=os.environ | person)


def read(folder, name):
    try:
        with open(os.path.join(folder, name)) as file:
            return file.read()
    except OSError:
        return ""


def passes_tests(folder):
    done = subprocess.run([sys.executable, "-m", "unittest"], cwd=folder, capture_output=True, timeout=60)
    return done.returncode == 0 and "cart.average(), 200" in read(folder, "test_cart.py")


def is_order(folder):
    try:
        order = json.loads(read(folder, "order.json"))
    except ValueError:
        return False
    return isinstance(order, dict) and order == {"item": "lamp", "count": 3}


class Task(NamedTuple):
    name: str
    prompt: str
    is_done: Callable  # of the repository's folder and of all that the program printed


TASKS = [
    Task("read", "Read the file notes.txt and tell me which colour the door has.", lambda folder, said: "teal" in said.lower()),
    Task("edit", "In shop/config.py, change VAT_PERCENT from 19 to 21.", lambda folder, said: "VAT_PERCENT = 21\n" in read(folder, "shop/config.py")),
    Task("create", "Create a file hello.txt with the text: hello", lambda folder, said: read(folder, "hello.txt").strip() == "hello"),
    Task("list", "List the files in the folder shop.", lambda folder, said: all(name in said for name in ("cart.py", "receipt.py"))),
    Task("test", "Run the tests with `python3 -m unittest` and tell me the name of the test that fails.", lambda folder, said: "test_average" in said),
    Task("fix", "One test of test_cart.py fails. Fix shop/cart.py so that all tests pass; do not change the test.",
         lambda folder, said: passes_tests(folder)),
    Task("search", "Search the code: which file defines the function parse_price?", lambda folder, said: "prices.py" in said),
    Task("schema", "Write a file order.json that matches order.schema.json, for an order of 3 of the item lamp.",
         lambda folder, said: is_order(folder)),
    Task("rename", "Rename the function fmt to format_cents in shop/prices.py and wherever it is used.",
         lambda folder, said: not re.search(r"\bfmt\b", read(folder, "shop/prices.py") + read(folder, "shop/receipt.py"))
         and "format_cents(cents)" in read(folder, "shop/receipt.py")),
    Task("docstring", "Add a docstring to the method total of the class Cart in shop/cart.py.",
         lambda folder, said: re.search(r'def total\(self\):\n\s+"""', read(folder, "shop/cart.py")) is not None),
    Task("count", "How many lines does notes.txt have?", lambda folder, said: re.search(r"\b(4|four)\b", said, re.I) is not None),
    Task("question", "What does Cart.total() in shop/cart.py return for a cart without items?", lambda folder, said: "0" in said),
]
