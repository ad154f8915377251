"""What the measurements mean: tokens that could be reused, hit rates, ratios, bytes, and the tables.

Pure functions: nothing here runs a program or reads a file. A call is what the JSON report holds for one request:

    {"prompt": 900, "cached": 850, "reusable": 860, "ttft_s": 0.1, "why": "..."}    tokens; why: the server's reason
"""

import os.path
import statistics

RAM_TARGET, DISK_TARGET, HIT_TARGET, TURN_TARGET = 0.03, 0.06, 0.95, 1.3


def common(one, other):
    """Tokens that both begin with."""
    length = min(len(one), len(other))
    if one[:length] == other[:length]:
        return length
    return len(os.path.commonprefix([one, other]))


def computed(prompt, answer):
    """The tokens whose state a request leaves: all but the last one sampled, which was never put in."""
    return [*prompt, *answer[:-1]]


def reusable(prompt, earlier):
    """Tokens of the prompt whose state some earlier sequence had at its beginning too. The last one does not count:
    it must be put in again for what follows it."""
    return min(max((common(prompt, sequence) for sequence in earlier), default=0), len(prompt) - 1)


def distinct_tokens(sequences):
    """Nodes of the tree that the sequences make: each beginning counts once."""
    total, before = 0, []
    for sequence in sorted(sequences):
        total += len(sequence) - common(before, sequence)
        before = sequence
    return total


def hit_rate(calls):
    """Of the tokens that could be reused, the share that was; None when there was nothing to reuse."""
    could = sum(call["reusable"] for call in calls)
    return sum(call["cached"] for call in calls) / could if could else None


def least_bytes(distinct, per_token, fixed):
    """The least that keeps the whole work: keys and values of each distinct token once, and one recurrent state."""
    return distinct * per_token + fixed


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)} if values else None


def trace_summary(calls, written, on_disk, sequences, per_token, fixed):
    """written, on_disk: bytes, of the first run over the calls."""
    distinct = distinct_tokens(sequences)
    return {"calls": len(calls), "prompt tokens": sum(call["prompt"] for call in calls), "distinct tokens": distinct,
            "reusable": sum(call["reusable"] for call in calls), "cached": sum(call["cached"] for call in calls),
            "hit rate": hit_rate(calls), "prefilled": spread([call["prompt"] - call["cached"] for call in calls[1:]]),
            "must prefill": spread([call["prompt"] - call["reusable"] for call in calls[1:]]),
            "ttft_s": spread([call["ttft_s"] for call in calls[1:]]), "written": written, "on disk": on_disk,
            "bytes per 1k tokens": 1000 * on_disk / distinct,
            "write amplification": written / least_bytes(distinct, per_token, fixed)}


def compare(reference, reply):
    """"": the same answer; else what differs. Each is (said, log probabilities)."""
    if reply[0] != reference[0]:
        return "tokens"
    return "" if reply[1] == reference[1] else "log probabilities"


# ---- showing

def number(value):
    """Three significant digits, without an exponent."""
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def seconds(value):
    return f"{number(value)} s" if value >= 0.9995 else f"{number(1000 * value)} ms"


def percent(value):
    return "-" if value is None else f"{100 * value:.1f} %"


def megabytes(value):
    return f"{number(value / 1e6)} MB"


def show(values, form):
    return f"{form(values['median'])} ({form(values['min'])} - {form(values['max'])})" if values else "-"


def layout(lines):
    """A Markdown table, padded so that it also reads well in a terminal."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    padded = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |" for line in lines]
    padded.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(padded)


def first_text_table(rows):
    """rows: {"model", "program", "tokens", "cold": [s], "others": {name: ([s], target or None)}}."""
    lines = [("model", "program", "prompt", "how", "first text after", "of cold", "target")]
    for row in rows:
        cold = spread(row["cold"])
        lines.append((row["model"], row["program"], f"{row['tokens']:,}", "cold", show(cold, seconds), "1", ""))
        for name, (values, target) in row["others"].items():
            if values:
                share = statistics.median(values) / cold["median"]
                lines.append(("", "", "", name, show(spread(values), seconds), percent(share),
                              f"<= {100 * target:.0f} %: {'met' if share <= target else 'MISSED'}" if target else ""))
    return layout(lines)


def calls_table(calls):
    lines = [("call", "prompt", "reusable", "reused", "prefilled", "hit", "first text after")]
    for at, call in enumerate(calls):
        share = percent(call["cached"] / call["reusable"]) if call["reusable"] else "-"
        lines.append((str(at + 1), str(call["prompt"]), str(call["reusable"]), str(call["cached"]),
                      str(call["prompt"] - call["cached"]), share, seconds(call["ttft_s"])))
    return layout(lines)


def trace_table(rows):
    """rows: (model, program, trace_summary())."""
    lines = [("model", "program", "calls", "reusable tokens", "reused", "hit rate", "prefilled a call",
              "first text after", "on disk / 1k tokens", "write amplification")]
    for model, program, summary in rows:
        disk = summary["written"] > 0
        lines.append((model, program, str(summary["calls"]), f"{summary['reusable']:,}", f"{summary['cached']:,}",
                      percent(summary["hit rate"]), show(summary["prefilled"], number),
                      show(summary["ttft_s"], seconds), megabytes(summary["bytes per 1k tokens"]) if disk else "-",
                      f"{number(summary['write amplification'])}x" if disk else "-"))
    return layout(lines)


def answers_table(counts):
    """counts: {(work, variant): {"answers", "tokens", "log probabilities"}}, the latter those that differ."""
    lines = [("work", "against a cold run", "answers", "differing tokens", "differing log probabilities")]
    lines += [(work, variant, str(count["answers"]), str(count["tokens"]), str(count["log probabilities"]))
              for (work, variant), count in counts.items()]
    return layout(lines)
