"""Runs the steps of one program's quickstart, in the environment that has the program: steps.py FILE

A step is a function of the file that is named in STEPS; it returns what the program answered. Prints a line of JSON for each step:
its name, whether the answer is right, seconds, and what came instead."""

import asyncio
import importlib.util
import inspect
import json
import sys
import time
import traceback

import asked

def cities(answer):
    """Of a call's arguments (an object, or its JSON), or of the calls that the program made (asked.called_for). Other text is an error."""
    if isinstance(answer, str):
        answer = json.loads(answer)
    return answer if isinstance(answer, list) else [answer["city"]]


# What is right: the small model of the repository knows this capital, calls this tool, and fills this form.
STEPS = {
    "chat": lambda answer: "Paris" in answer,
    "stream": lambda answer: "Paris" in "".join(answer) and len(answer) > 1,  # the parts
    "tools": lambda answer: any("Paris" in city for city in cities(answer)),
    "structured": lambda answer: isinstance(answer, str) and answer != "",  # a field of the object
    "embeddings": lambda answer: len(answer) > 100,
}


def run(step, right):
    asked.called_for.clear()
    answer = step()
    if inspect.isawaitable(answer):
        answer = asyncio.run(answer)
    return None if right(answer) else f"not the right answer: {answer!r}"[:500]


def main():
    spec = importlib.util.spec_from_file_location("quickstart", sys.argv[1])
    module = importlib.util.module_from_spec(spec)
    begin = time.monotonic()
    spec.loader.exec_module(module)
    print(json.dumps({"step": "import", "fault": None, "seconds": round(time.monotonic() - begin, 2)}), flush=True)
    for name, function in inspect.getmembers(module, inspect.isfunction):
        kind = name.partition("_")[0]
        if function.__module__ != "quickstart" or kind not in STEPS:
            continue
        begin = time.monotonic()
        try:
            fault = run(function, STEPS[kind])
        except Exception as error:  # of any kind: the program is not ours
            traceback.print_exc()
            fault = f"{type(error).__name__}: {error}"[:500]
        print(json.dumps({"step": name, "fault": fault, "seconds": round(time.monotonic() - begin, 2)}), flush=True)


main()
