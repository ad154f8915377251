"""Whether an answer is right: check(task, answer) -> {"valid_json": bool or None, "correct": bool}."""
import json
import re
import subprocess
import sys
import unicodedata

RUN_SECONDS = 5


def check(task, answer):
    rule = task["check"]
    kind = rule["type"]
    if kind == "json":
        value = read_json(answer)
        return {"valid_json": value is not None, "correct": value is not None and same_fields(value, rule["expected"])}
    correct = {"number": is_number, "contains": contains, "python": runs}[kind](rule, answer)
    return {"valid_json": None, "correct": correct}


def read_json(answer):
    """The object that the answer is, a code fence around it aside; None if it is anything else."""
    text = answer.strip()
    fence = re.fullmatch(r"```(?:json|JSON)?\s*\n(.*?)\n?```", text, re.DOTALL)
    try:
        value = json.loads(fence[1] if fence else text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def same_fields(value, expected):
    return set(value) == set(expected) and all(str(value[k]).strip().lower() == str(v).lower() for k, v in expected.items())


def is_number(rule, answer):
    """The last number counts, since answers repeat those of the question first."""
    numbers = re.findall(r"-?\d[\d,]*(?:\.\d+)?", answer)
    try:
        return bool(numbers) and float(numbers[-1].replace(",", "")) == rule["expected"]
    except ValueError:
        return False


def fold(text):
    plain = "".join(c for c in unicodedata.normalize("NFKD", text.lower()) if not unicodedata.combining(c))
    return plain.replace("\u2019", "'").replace("\u00df", "ss")


def contains(rule, answer):
    text = fold(answer) if rule.get("fold") else answer.lower()
    return any(re.search(rf"(?<!\w){re.escape(a.lower())}(?!\w)", text) for a in rule["expected"].split("|"))


# Runs in a process of its own, without files, children or much time and memory.
HARNESS = """
import ast, collections, functools, itertools, json, math, re, resource, string, sys, typing
job = json.load(sys.stdin)
for limit, value in ((resource.RLIMIT_CPU, 2), (resource.RLIMIT_AS, 1 << 29), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_NOFILE, 3)):
    resource.setrlimit(limit, (value, value))
def refuse(event, arguments):
    if event == "open" or event.split(".")[0] in ("os", "subprocess", "socket", "shutil", "ctypes", "sys"):
        raise PermissionError(event)
sys.addaudithook(refuse)
space = {"__name__": "answer"}
name = next(node.name for node in ast.parse(job["source"]).body if isinstance(node, ast.FunctionDef))
exec(compile(job["source"], "answer", "exec"), space)
if not all(space[name](*args) == wanted for args, wanted in job["cases"]):
    raise ValueError("another result")
"""


def runs(rule, answer):
    """The first function of the first code block, or of what stands before the end of one that was never opened."""
    block = re.search(r"```(?:python|py)?[ \t]*\n(.*?def .*?)(?:```|\Z)", answer, re.DOTALL)
    source = block[1] if block else answer.split("```")[0]
    job = {"source": source.strip("\n"), "cases": rule["cases"]}
    try:
        done = subprocess.run([sys.executable, "-I", "-S", "-c", HARNESS], input=json.dumps(job), text=True, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, timeout=RUN_SECONDS, env={})
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0
