#!/usr/bin/env python3
"""The pictures of README.md and docs/, drawn from the reports in bench/results:

    python3 bench/plot.py [--check]

bench/results/peers.json -> docs/images/speed.svg, bench/results/fleet.json -> docs/images/fleet.svg. With --check nothing is written; exit status 1 means that a picture is
out of date. To renew a report: bench/peers/run.py --json bench/results/peers.json, on a machine that does nothing else;
bench/fleet/simulate.py --json bench/results/fleet.json anywhere."""

import html
import json
import math
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NAMES = {"smollm2": "SmolLM2-135M, Q4_1", "qwen35-0.8b": "Qwen3.5-0.8B's shape, 4 bits", "8b-a1b": "8B-A1B (128 experts), Q4_0"}
PROGRAMS = {"anabranch": ("Anabranch", "#0b6e99"), "llama.cpp": ("llama.cpp", "#b8b8b8")}
WIDTH, LEFT, BAR, GAP, TOP = 720, 250, 16, 14, 58
INK = "#57606a"  # readable on light and on dark pages


def text(x, y, content, anchor="start", size=12, weight="normal", ink=INK):
    return (f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" fill="{ink}">'
            f"{html.escape(content)}</text>")


def number(value):
    return f"{value:,.0f}" if value >= 99.5 else f"{value:.1f}"


def panel(top, title, groups):
    """groups: [(label, {program: {"median", "min", "max"}})]. Returns the elements and where the panel ends."""
    most = max(v["max"] for _, values in groups for v in values.values())
    scale = (WIDTH - LEFT - 110) / most
    out, y = [text(10, top, title, size=13, weight="bold")], top + 14
    for label, values in groups:
        out.append(text(LEFT - 10, y + BAR * len(values) / 2 + 5, label, "end"))
        for program, v in values.items():
            name, colour = PROGRAMS[program]
            out.append(f'<rect x="{LEFT}" y="{y}" width="{v["median"] * scale:.1f}" height="{BAR - 2}" fill="{colour}"><title>{name}: '
                       f'{number(v["median"])} tok/s ({number(v["min"])} to {number(v["max"])})</title></rect>')
            middle = y + BAR / 2 - 1
            out.append(f'<path d="M{LEFT + v["min"] * scale:.1f} {middle}H{LEFT + v["max"] * scale:.1f}" stroke="{INK}"/>')
            shown = number(v["median"])
            if program == "anabranch" and "llama.cpp" in values:
                shown += f"  ({v['median'] / values['llama.cpp']['median']:.1f}x)"
            out.append(text(LEFT + v["max"] * scale + 6, y + BAR - 4, shown))
            y += BAR
        y += GAP
    return out, y


def speed_picture(report):
    body, y = [], TOP
    for kind, title in (("decode", "Decode, tokens a second"), ("prefill", "Prefill of 512 tokens, tokens a second")):
        groups = []
        for row in report["rows"]:
            values = {p: row["summary"][p] for p in PROGRAMS if row["summary"][p]}
            if row["work"] in ("decode-0", "prefill-512") and row["work"].startswith(kind) and "anabranch" in values:
                groups.append((NAMES.get(row["model"], row["model"]), values))
        if groups:
            more, y = panel(y + 10, title, groups)
            body += more
            y += 16
    legend, x = [], 10
    for name, colour in PROGRAMS.values():
        legend += [f'<rect x="{x}" y="30" width="11" height="11" fill="{colour}"/>', text(x + 16, 40, name)]
        x += 110
    about = (f"CPU: {report['cpu']}, {report['threads']} threads, {report['date'][:10]}; median of {report['reps']} turns, lines from the "
             "slowest to the fastest")
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}" '
                      'font-family="system-ui, sans-serif">', text(10, 18, about), *legend, *body, "</svg>", ""])


POLICIES = {"neither": ("round robin", "#b8b8b8"), "shared": ("round robin, shared states", "#d1802b"),
            "prefix": ("prefix-aware", "#0b6e99"), "both": ("prefix-aware, shared states", "#3f9b5a")}


def curves(left, title, rows, series, ticks, place):
    """A panel of lines over the number of workers. series: [(key, dash)]; ticks: [(value, label)]; place(value): 0 to 1."""
    width, height, top = 260, 190, 84
    counts = sorted({row["workers"] for row in rows})
    out = [text(left, top - 16, title, size=13, weight="bold")]

    def x(workers):
        return left + 44 + (width - 44) * math.log2(workers / counts[0]) / max(1, math.log2(counts[-1] / counts[0]))

    def y(value):
        return top + height * (1 - place(value))

    for value, label in ticks:
        out.append(f'<path d="M{left + 44} {y(value):.1f}H{left + width}" stroke="{INK}" stroke-opacity="0.25"/>')
        out.append(text(left + 38, y(value) + 4, label, "end"))
    out += [text(x(count), top + height + 18, str(count), "middle") for count in counts]
    for policy, (_, colour) in POLICIES.items():
        for key, dash in series:
            points = [(row["workers"], row[key]) for row in rows if row["policy"] == policy]
            path = " ".join(f"{x(workers):.1f},{y(value):.1f}" for workers, value in sorted(points))
            out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
    return out


def fleet_picture(report):
    rows, legend, at = report["rows"], [], 10
    for name, colour in POLICIES.values():
        legend += [f'<rect x="{at}" y="30" width="11" height="11" fill="{colour}"/>', text(at + 16, 40, name)]
        at += 40 + 7 * len(name)
    seconds = [(0.01, "10 ms"), (0.1, "100 ms"), (1, "1 s"), (10, "10 s")]
    body = curves(10, "TTFT: median, p99 (dashed)", rows, [("ttft_p50_s", ""), ("ttft_p99_s", ' stroke-dasharray="5 4"')], seconds,
                  lambda value: math.log10(value / 0.01) / 3)
    body += curves(390, "Share of prompt tokens found", rows, [("hit_rate", "")], [(i / 4, f"{i * 25} %") for i in range(5)],
                   lambda value: value)
    about = f"Simulated: {report['costs']}, {rows[0]['gbits']:g} Gbit/s"
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="318" viewBox="0 0 {WIDTH} 318" '
                      'font-family="system-ui, sans-serif">', text(10, 18, about), *legend, *body,
                      text(WIDTH / 2, 312, "workers", "middle"), "</svg>", ""])


PICTURES = {"docs/images/speed.svg": ("bench/results/peers.json", speed_picture),
            "docs/images/fleet.svg": ("bench/results/fleet.json", fleet_picture)}


def main():
    stale = False
    for picture, (report, draw) in PICTURES.items():
        with open(os.path.join(ROOT, report)) as file:
            drawn = draw(json.load(file))
        path = os.path.join(ROOT, picture)
        if "--check" in sys.argv:
            with open(path) as file:
                stale |= file.read() != drawn
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(drawn)
    return stale


if __name__ == "__main__":
    sys.exit(main())
