"""What was asked for and what the measurements mean: works, medians, the variant that counts, ratios, the table.

Pure functions: nothing here runs a program or reads a file. A row is what the JSON report holds for one model and one
work:

    {"model": "smollm2", "work": "decode-4096",
     "anabranch": [{"tok_s": 20.1, "rate": 3.2, "unit": "GB/s", "limit": 9.0}, ...],      one per turn
     "llama.cpp": {"Q4_1, flash off": [11.9, ...], "Q4_1, flash on": [6.2]},              one list per variant
     "mlx-lm": 1.2 or None,
     "errors": ["llama.cpp Q4_1, flash on: ..."]}                                         empty when all went well
"""

import re
import statistics
from dataclasses import dataclass

DECODE_TOKENS = 128
MLX_PROMPT_TOKENS, MLX_DECODE_TOKENS = 16, 8  # it makes about one token a second on a CPU
LIMIT_NAMES = {"GB/s": "memory", "GOP/s": "int8"}  # what bounds decode, and prefill


@dataclass(frozen=True)
class Work:
    kind: str  # decode: DECODE_TOKENS tokens, one by one, after `size` others; prefill: `size` tokens
    size: int

    @property
    def name(self):
        return f"{self.kind}-{self.size}"

    def __str__(self):
        return f"prefill {self.size}" if self.kind == "prefill" else f"decode {DECODE_TOKENS} at depth {self.size}"


def parse_work(name):
    """Raises ValueError for what is not decode-DEPTH or prefill-TOKENS."""
    match = re.fullmatch(r"(decode|prefill)-(\d{1,7})", name)
    if not match or match[0] == "prefill-0":
        raise ValueError(f"'{name}' is no work: decode-DEPTH or prefill-TOKENS was expected, like decode-4096")
    return Work(match[1], int(match[2]))


def mlx_key(work):
    """Which of mlx-lm's two figures stands beside this work; None: none does, as its context was short."""
    if work.size > 512:
        return None
    return "prefill_tok_s" if work.kind == "prefill" else "decode_tok_s"


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def best_variant(variants):
    """The name of the variant with the highest median, of those with the most turns; None when none was measured."""
    most = max(map(len, variants.values()), default=0)
    if most == 0:
        return None
    return max((name for name in variants if len(variants[name]) == most),
               key=lambda name: statistics.median(variants[name]))


def still_in_race(variants, turns):
    """The variants worth another turn after `turns` of them: not those that failed, nor, from the second turn on,
    those whose best turn is more than a quarter behind the best variant's median."""
    best = best_variant(variants)
    bar = 0.75 * statistics.median(variants[best]) if best and turns > 1 else 0
    return [name for name, values in variants.items() if len(values) == turns and max(values) >= bar]


def machine_limits(rows):
    """{unit: the best limit seen in any turn}. Other work on the machine can only lower what one turn sees."""
    limits = {}
    for row in rows:
        for turn in row["anabranch"]:
            limits[turn["unit"]] = max(limits.get(turn["unit"], 0), turn["limit"])
    return limits


def summarise(row, limits):
    """The figures of a row's line in the table; None for what was not measured."""
    ours = row["anabranch"]
    best = best_variant(row["llama.cpp"])
    summary = {
        "anabranch": spread([turn["tok_s"] for turn in ours]) if ours else None,
        "llama.cpp": spread(row["llama.cpp"][best]) if best else None,
        "llama.cpp variant": best,
        "mlx-lm": row["mlx-lm"],
        "ratio to llama.cpp": None,
        "ratio to mlx-lm": None,
        "share of limit": None,
    }
    if ours:
        median = summary["anabranch"]["median"]
        summary["share of limit"] = statistics.median([turn["rate"] for turn in ours]) / limits[ours[0]["unit"]]
        if best:
            summary["ratio to llama.cpp"] = median / summary["llama.cpp"]["median"]
        if row["mlx-lm"]:
            summary["ratio to mlx-lm"] = median / row["mlx-lm"]
    return summary


def number(value):
    """Three significant digits, without an exponent."""
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def format_table(rows):
    """A Markdown table, one line a row, padded so that it also reads well in a terminal."""
    limits = machine_limits(rows)

    def show(spread):
        return f"{number(spread['median'])} ({number(spread['min'])} - {number(spread['max'])})" if spread else "-"

    def ratio(value):
        return f"{number(value)}x" if value else "-"

    lines = [("model", "work", "Anabranch tok/s", "llama.cpp tok/s", "its best", "ratio", "mlx-lm tok/s", "ratio",
              "of the limit")]
    for row in rows:
        s = summarise(row, limits)
        share = "-"
        if s["share of limit"]:
            share = f"{100 * s['share of limit']:.0f} % of {LIMIT_NAMES[row['anabranch'][0]['unit']]}"
        lines.append((row["model"], str(parse_work(row["work"])), show(s["anabranch"]), show(s["llama.cpp"]),
                      s["llama.cpp variant"] or "-", ratio(s["ratio to llama.cpp"]),
                      number(s["mlx-lm"]) if s["mlx-lm"] else "-", ratio(s["ratio to mlx-lm"]), share))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    padded = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |" for line in lines]
    padded.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(padded)


def format_notes(rows, reps):
    limits = machine_limits(rows)
    notes = [f"Turns: {reps}, each one process, the programs in alternation; medians (min - max). llama.cpp: the best"
             " of its quantisations and of flash attention on and off; a variant more than a quarter behind after two"
             " turns leaves the race."]
    if limits:
        known = [f"{LIMIT_NAMES[unit]} {number(limit)} {unit}" for unit, limit in limits.items()]
        notes.append(f"The machine's limits, best seen in the run: {', '.join(known)}. An op is half a multiply-add.")
    if any(row["mlx-lm"] for row in rows):
        notes.append(f"mlx-lm: 4-bit MLX weights on the CPU, measured once: prefill of {MLX_PROMPT_TOKENS} tokens and"
                     f" decode of {MLX_DECODE_TOKENS} after them, whatever lengths the line names.")
    return "\n".join(notes)
