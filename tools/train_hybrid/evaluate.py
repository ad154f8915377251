"""Asks a model through the server: everyday questions, code fences, tools, look-up in long prompts.

usage: evaluate.py --program build/anabranch [--show] MODEL...     prints one row per model; --show prints every answer
Needs no packages. All answers are greedy.
"""

import argparse
import concurrent.futures
import json
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from everyday import EVERYDAY  # noqa: E402
from evalset import EVAL, score  # noqa: E402
from harness import paths  # noqa: E402
from harness.server import Server  # noqa: E402

CODE = [
    "Write a Python function that triples a number.",
    "Write a Python function that returns the last character of a string.",
    "Write a Python program that prints the numbers from 5 to 15.",
    "Write a JavaScript function that adds 10 to a number.",
    "Write a C program that prints Good morning.",
    "Write a bash script that prints your name.",
    "Write an SQL query that counts the rows of the table cars.",
    "Write the HTML for a page with the heading Welcome.",
    "Write a Java method that returns the sum of two integers.",
    "Write a Rust function that returns true if a number is negative.",
    "Write a Python function to check whether a number is divisible by 3.",
    "Write a function in Go that returns the length of a string.",
    "Python code to print the current year",
    "Write a CSS rule that makes all paragraphs red.",
    "Write a Python class for a book with title and author.",
    "Write a TypeScript function that joins two strings.",
    "Write a Python loop that prints hello five times.",
    "Write a C++ function that returns the maximum of three numbers.",
    "Write a Python lambda that squares a number.",
    "Give me a shell command that shows all hidden files.",
]


def tool(name, what, /, **properties):
    parameters = {"type": "object", "properties": {k: {"type": v} for k, v in properties.items()}, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": what, "parameters": parameters}}


WEATHER = tool("get_weather", "Get the weather of a city", city="string")
PEOPLE = tool("get_population", "Get the population of a country", country="string")
DOOR = tool("open_door", "Open a door by its number", number="integer")
MESSAGE = tool("send_message", "Send a text message", to="string", text="string")
KNOWN = [  # (question, tools, the function to call or None, what its arguments contain)
    ("What is the weather in Madrid?", [WEATHER], "get_weather", "Madrid"),
    ("How many people live in Norway?", [PEOPLE], "get_population", "Norway"),
    ("Open door 7.", [DOOR], "open_door", "7"),
    ("Send a message to Tom: I am late.", [MESSAGE], "send_message", "Tom"),
    ("What is the weather like in Oslo today?", [WEATHER, PEOPLE, DOOR], "get_weather", "Oslo"),
    ("Please open door number 12.", [WEATHER, DOOR], "open_door", "12"),
    ("What is the population of Chile?", [WEATHER, PEOPLE], "get_population", "Chile"),
    ("hi", [WEATHER], None, ""),
    ("Thanks!", [WEATHER, PEOPLE], None, ""),
    ("Tell me a joke.", [WEATHER], None, ""),
    ("What is the capital of Italy?", [DOOR], None, ""),
    ("Write a haiku about rain.", [MESSAGE, DOOR], None, ""),
    ("Who are you?", [WEATHER, PEOPLE, DOOR], None, ""),
]
AREA = tool("get_area", "Area of a country", country="string")
CALL = tool("call_person", "Call a person", name="string")
CAR = tool("charge_car", "Charge the car", percent="integer")
PLANTS = tool("water_plants", "Water the plants", place="string")
UNKNOWN = [  # functions that no training data has
    ("Water the plants in the garden.", [PLANTS], "water_plants", "garden"),
    ("What is the area of Spain?", [AREA], "get_area", "Spain"),
    ("Charge the car to 80 percent.", [CAR, AREA], "charge_car", "80"),
    ("Write a note with the text buy milk.", [tool("write_note", "Write a note", text="string")], "write_note", "milk"),
    ("Call Robert.", [CALL, WEATHER], "call_person", "Robert"),
    ("hi", [PLANTS], None, ""),
    ("What is 2 + 2?", [CALL], None, ""),
    ("Explain photosynthesis.", [CAR], None, ""),
]
LOOKUP = [
    ("garden", 48213, 600),
    ("castle", 7751, 1500),
    ("museum", 930412, 3500),
    ("bakery", 3307, 600),
    ("harbor", 66120, 1500),
    ("tower", 152, 3500),
]


def ask(server, question, thinking=False, tokens=200, **more):
    body = {"messages": [{"role": "user", "content": question}], "max_tokens": tokens, "temperature": 0, **more}
    if thinking is not None:
        body["enable_thinking"] = thinking
    return server.ask("/v1/chat/completions", body)["choices"][0]["message"]


def everyday_right(question, good, bad, answer):
    return bool(re.search(good, answer, re.I | re.S)) and not (bad and re.search(bad, answer, re.I))


def tool_right(wanted, argument, message):
    calls = message.get("tool_calls") or []
    if wanted is None:
        return not calls
    f = calls[0]["function"] if calls else {}
    return f.get("name") == wanted and argument.lower() in json.dumps(f["arguments"]).lower()


def filler(length):
    text = (ROOT / "tests/models/data/heldout.txt").read_text()[:length]
    cut = text.rfind("\n", 0, length // 2 + 50)
    return text[:cut], text[cut:]


def evaluate(server, model, show):
    result = {"model": model}
    report = []

    def part(name, questions, answer, right):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(answer, questions))
        ok = right(questions, answers)
        result[name] = sum(ok)
        for q, m, o in zip(questions, answers, ok):
            said = (m.get("content") or "") + ("".join(json.dumps(c["function"]) for c in m.get("tool_calls") or []))
            report.append((name, o, str(q[0]) if isinstance(q, tuple) else q, said.replace("\n", "\\n")[:240]))

    def each(check):
        return lambda questions, answers: [check(q, m, m.get("content") or "") for q, m in zip(questions, answers)]

    for name, thinking in (("everyday", False), ("everyday, auto", None)):
        part(
            name,
            EVERYDAY,
            lambda q: ask(server, q[0], thinking, 400 if thinking is None else 200),
            each(lambda q, m, text: everyday_right(*q, text)),
        )
    for name, thinking in (("sixty", False), ("sixty, auto", None)):
        part(
            name,
            EVAL,
            lambda q: ask(server, q[0], thinking, 400 if thinking is None else 200),
            lambda _, a: score([m.get("content") or "" for m in a]),
        )
    part(
        "fences",
        CODE,
        lambda q: ask(server, q, tokens=260),
        each(lambda q, m, text: "```" in text and text.count("```") % 2 == 0),
    )
    for name, rows in (("tools", KNOWN), ("unknown tools", UNKNOWN)):
        part(
            name, rows, lambda q: ask(server, q[0], tokens=120, tools=q[1]), each(lambda q, m, _: tool_right(q[2], q[3], m))
        )
    prompts = []
    for what, code, length in LOOKUP:
        before, after = filler(length)
        prompts.append(
            (
                f"{before}\nThe secret code for the {what} is {code}.\n{after}\n\nWhat is the secret code for the {what}?",
                code,
            )
        )
    part("look-up", prompts, lambda q: ask(server, q[0], tokens=40), each(lambda q, m, text: str(q[1]) in text))
    if show:
        for name, o, q, said in report:
            print("OK " if o else "BAD", name, "|", q[-120:].replace("\n", "\\n"), "->", said)
    return result


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--program", default="build/anabranch")
    ap.add_argument("--show", action="store_true")
    ap.add_argument("models", nargs="+")
    args = ap.parse_args()
    for model in args.models:
        paths.choose(args.program, model)
        with tempfile.TemporaryDirectory() as home:
            with Server("--offline", "--cache-dir", home + "/cache", environment={"HOME": home}, before=["--no-auto-tune"]) as server:
                print(json.dumps(evaluate(server, model, args.show)), flush=True)


if __name__ == "__main__":
    main()
