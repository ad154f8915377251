"""Runs each program once, in a process of its own, and reads its figures."""

import json
import os
import subprocess

from table import DECODE_TOKENS, MLX_DECODE_TOKENS, MLX_PROMPT_TOKENS

HERE = os.path.dirname(os.path.abspath(__file__))
TURN_TIMEOUT = 3600  # seconds; the slowest turn known (prefill 4096 of the 0.8B model, cold) takes a few minutes


class Failure(Exception):
    """Something outside went wrong; the message says what, and what can be done."""


def run(command, timeout, log=None):
    """Runs a command to its end and returns its standard output; with `log`, both outputs go into that file."""
    name = os.path.basename(command[0])
    try:
        if log:
            with open(log, "w") as out:
                result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                        timeout=timeout)
        else:
            result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout)
    except FileNotFoundError:
        raise Failure(f"{command[0]} was not found")
    except PermissionError:
        raise Failure(f"{command[0]} cannot be run: it is not executable")
    except subprocess.TimeoutExpired:
        raise Failure(f"{name} was stopped after {timeout} s: {' '.join(command)}")
    if result.returncode == 0:
        return "" if log else result.stdout.decode(errors="replace")
    if log:
        with open(log, errors="replace") as out:
            tail = out.read()[-2000:]
    else:
        tail = result.stderr.decode(errors="replace")[-2000:]
    where = f"\n(whole log: {log})" if log else ""
    raise Failure(f"{name} failed with status {result.returncode}: {' '.join(command)}\n{tail.strip()}{where}")


def figures(program, text, read, *rest):
    """read(text, ...), with a Failure for output that is not of the form expected."""
    try:
        return read(text, *rest)
    except (ValueError, KeyError, TypeError, StopIteration):
        raise Failure(f"{program} printed something else than its figures: {text[:200]!r}")


def read_anabranch(text, work):
    """One turn's figures, out of what `anabranch bench --json` printed."""
    report = json.loads(text)
    line = next(line for line in report["results"] if line["work"].startswith("pp") == (work.kind == "prefill"))
    unit, limit = ("GOP/s", "int8_gop_s") if work.kind == "prefill" else ("GB/s", "memory_gb_s")
    return {"tok_s": line["tok_s"], "rate": line[unit], "unit": unit, "limit": report["limits"][limit],
            "kernels": report["kernels"], "read_mb_per_token": report["read_mb_per_token"]}


def anabranch(program, model, work, threads):
    command = [program, "bench", "--model", model, "--threads", str(threads), "--reps", "1", "--json"]
    if work.kind == "prefill":
        command += ["--pp", str(work.size), "--tg", "0"]
    else:
        command += ["--pp", "0", "--tg", str(DECODE_TOKENS), "--depth", str(work.size)]
    return figures("anabranch", run(command, TURN_TIMEOUT), read_anabranch, work)


def read_llama_bench(text, work):
    """tok/s, out of what `llama-bench -o jsonl` printed."""
    rows = (json.loads(line) for line in text.splitlines() if line.startswith("{"))
    return next(row["avg_ts"] for row in rows if (row["n_prompt"] > 0) == (work.kind == "prefill"))


def llama_bench(program, model, flash, work, threads):
    command = [program, "-m", model, "-t", str(threads), "-r", "1", "-fa", flash, "-o", "jsonl"]
    if work.kind == "prefill":
        command += ["-p", str(work.size), "-n", "0"]
    else:
        command += ["-p", "0", "-n", str(DECODE_TOKENS), "-d", str(work.size)]
    return figures("llama-bench", run(command, TURN_TIMEOUT), read_llama_bench, work)


def mlx_lm(python, model):
    """{"prefill_tok_s", "decode_tok_s"} of a short run."""
    script = os.path.join(HERE, "mlx_lm_bench.py")
    text = run([python, script, model, str(MLX_PROMPT_TOKENS), str(MLX_DECODE_TOKENS)], TURN_TIMEOUT)
    return figures("mlx_lm_bench.py", text, json.loads)
