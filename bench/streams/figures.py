"""What the times of streams mean: rates, percentiles, gaps. Pure functions: nothing here waits or reads a file."""


def brings_text(chunk):
    """Whether a chunk of a streamed completion holds text, as opposed to the end or the usage."""
    return any(choice.get("text") for choice in chunk.get("choices") or [])


def percentile(values, share):
    """The least of the values that at least so much of them does not exceed; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * share // 100) - 1)]


def gaps(events):
    return [after - before for before, after in zip(events, events[1:])]


def of_load(answers, begin, end, tokens):
    """answers: [{"sent": s, "events": [s, ...], "whole": bool}, ...], each of `tokens` tokens if whole, of clients that ask
    again as soon as they have one. Tokens are counted in the window from begin to end, times to the first token and gaps
    over all. A token without text of its own (half of a character) has no event: whole answers tell how many those are."""
    whole = [answer for answer in answers if answer["whole"] and answer["events"]]
    seen = sum(len(answer["events"]) for answer in whole)
    each = len(whole) * tokens / seen if seen else 1
    inside = sum(begin < event <= end for answer in answers for event in answer["events"])
    firsts = [answer["events"][0] - answer["sent"] for answer in answers if answer["events"]]
    between = [gap for answer in answers for gap in gaps(answer["events"])]
    return {"tok_s": inside * each / (end - begin), "answers": len(whole), "ttft_p50_s": percentile(firsts, 50),
            "ttft_p99_s": percentile(firsts, 99), "gap_p50_s": percentile(between, 50),
            "gap_p99_s": percentile(between, 99), "gap_max_s": max(between, default=None)}


def gaps_counted(metrics):
    """From the text of /metrics: (gaps of at most 60 ms, all gaps), or None."""
    name, counts = "anabranch_token_gap_seconds_", {}
    for line in metrics.splitlines():
        if line.startswith(name):
            key, _, value = line.removeprefix(name).rpartition(" ")
            counts[key] = float(value)
    short = counts.get('bucket{le="0.06"}')
    return None if short is None else (short, counts["count"])


def of_stall(streams, sent, first):
    """streams: when each one's events came; a long prompt was sent and got its first token at these times. A gap counts
    as beside it when it ends then; the first events, which share the machine with the streams' own prompts, do not."""
    settled = max(events[0] for events in streams)
    before, beside = [], []
    for events in streams:
        for start, end in zip(events, events[1:]):
            if settled <= start and end <= sent:
                before.append(end - start)
            elif sent < end <= first:
                beside.append(end - start)
    median, p99 = percentile(before, 50), percentile(beside, 99)
    return {"ttft_s": first - sent, "gap_before_p50_s": median,
            "gap_before_p99_s": percentile(before, 99), "gap_beside_p50_s": percentile(beside, 50),
            "gap_beside_p99_s": p99, "ratio": p99 / median if median and p99 else None}


def table(heads, rows):
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def ms(seconds):
    return "-" if seconds is None else f"{seconds * 1000:.{1 if seconds < 0.1 else 0}f}"


def text(report):
    parts = []
    if report["load"]:
        rows = [[r["model"], r["server"], str(r["streams"]), f"{r['tok_s']:.1f}", ms(r["ttft_p50_s"]),
                 ms(r["ttft_p99_s"]), ms(r["gap_p50_s"]), ms(r["gap_p99_s"]), ms(r["gap_max_s"]),
                 f"{100 * r['gaps_within_60ms']:.2f} %" if "gaps_within_60ms" in r else "-", str(r["answers"])]
                for r in report["load"]]
        parts.append(f"Prompts of {report['prompt_tokens']} tokens, answers of {report['tokens']}:\n\n" +
                     table(["model", "server", "streams", "tok/s of all", "TTFT p50, ms", "TTFT p99, ms", "gap p50, ms",
                            "gap p99, ms", "longest gap, ms", "tokens within 60 ms", "answers"], rows))
    if report["stall"]:
        rows = [[r["model"], r["server"], str(r["streams"]), f"{r['ttft_s']:.1f}", ms(r["gap_before_p50_s"]),
                 ms(r["gap_before_p99_s"]), ms(r["gap_beside_p50_s"]), ms(r["gap_beside_p99_s"]),
                 "-" if r["ratio"] is None else f"{r['ratio']:.2f}x"] for r in report["stall"]]
        parts.append(f"While a prompt of {report['prompt']} tokens is read:\n\n" +
                     table(["model", "server", "streams", "its TTFT, s", "gap p50 before, ms", "gap p99 before, ms",
                            "gap p50 beside, ms", "gap p99 beside, ms", "p99 over p50 before"], rows))
    return "\n\n".join(parts)
