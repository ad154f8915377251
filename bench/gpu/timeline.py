#!/usr/bin/env python3
"""Where the time of a decode step and of a prefill goes on a card, by kernel and gap.

    python3 bench/gpu/timeline.py trace REPORT [--gpu-bench PROGRAM] [--model 9b] [--cupti DIR]
    python3 bench/gpu/timeline.py table REPORT ...
    python3 bench/gpu/timeline.py draw PICTURE.svg LABEL=REPORT ...

trace runs `gpu_bench MODEL timeline` with CUPTI's records of each kernel (kernel_trace.c, built with cc; CUPTI is part of
the CUDA toolkit, and of PyTorch's packages: nvidia-cuda-cupti) and writes a report in JSON: of each work the median of its
steps, and when the kernels of that step ran. table prints reports, draw makes a picture of them, one below the other, such
as those before and after a change. A step ends with its copy to the host. Where a kernel starts before the one before it
ends (programmatic dependent launch), the time of both counts for the one that started first."""

import argparse
import html
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.dirname(HERE)]

WORK = re.compile(r"  timeline: (.+?), (.+), ([\d.]+) to ([\d.]+)$")
KEPT = 30  # last steps of a work, of which the median is taken
GAP = "nothing runs"


def read_trace(lines):
    """-> [(begin, end, name)] in seconds, in order."""
    spans = []
    for line in lines:
        begin, end, _, name = line.rstrip("\n").split(" ", 3)
        spans.append((int(begin) / 1e9, int(end) / 1e9, name))
    return sorted(spans)


def steps_of(spans, begin, end):
    """The steps between two times: lists of spans that each end with a copy to the host."""
    steps, step = [], []
    for span in spans:
        if begin <= span[0] < end:
            step.append(span)
            if span[2] == "copy to host":
                steps.append(step)
                step = []
    return steps


def shares(spans, begin):
    """Seconds by kernel, and in which nothing ran, from `begin` to the last one's end: {name: [calls, seconds]}"""
    out, until = {GAP: [0, 0.0]}, begin
    for start, end, name in spans:
        if start > until:
            out[GAP][0] += 1
            out[GAP][1] += start - until
        known = out.setdefault(name, [0, 0.0])
        known[0] += 1
        known[1] += max(0.0, end - max(start, until))
        until = max(until, end)
    return out


def median_step(steps):
    """(seconds, begin, spans) of the step of median length among the last ones; a step begins where the one before ended."""
    timed = [(now[-1][1] - before[-1][1], before[-1][1], now) for before, now in zip(steps, steps[1:])][-KEPT:]
    if not timed:
        timed = [(step[-1][1] - step[0][0], step[0][0], step) for step in steps]
    return sorted(timed, key=lambda step: step[0])[len(timed) // 2]


def of_work(spans, begin, end):
    seconds, start, step = median_step(steps_of(spans, begin, end))
    by_kernel = {name: [calls, round(1e6 * s, 2)] for name, (calls, s) in shares(step, start).items()}
    return {"step_us": round(1e6 * seconds, 2), "kernels": by_kernel,
            "spans": [[name, round(1e6 * (b - start), 2), round(1e6 * (e - start), 2)] for b, e, name in step]}


def cupti_folder(given):
    if given:
        return given
    spec = importlib.util.find_spec("nvidia")
    for folder in [*(os.path.join(p, "cu13") for p in (spec.submodule_search_locations if spec else [])),
                   "/usr/local/cuda/extras/CUPTI", "/usr/local/cuda"]:
        if os.path.exists(os.path.join(folder, "include", "cupti.h")):
            return folder
    sys.exit("timeline.py: CUPTI was not found: `pip install nvidia-cuda-cupti`, or name its folder with --cupti")


def build_tracer(cupti, library):
    lib = next((os.path.join(cupti, name) for name in ("lib", "lib64") if os.path.isdir(os.path.join(cupti, name))), cupti)
    files = [name for name in sorted(os.listdir(lib)) if name.startswith("libcupti.so")]
    if not files:
        sys.exit(f"timeline.py: no libcupti.so in {lib}")
    includes = ["-I" + os.path.join(cupti, "include"), "-I/usr/local/cuda/include"]
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", *includes, os.path.join(HERE, "kernel_trace.c"), "-o", library,
                    os.path.join(lib, files[0]), f"-Wl,-rpath,{lib}"], check=True)


def trace(args):
    with tempfile.TemporaryDirectory() as folder:
        library, file = os.path.join(folder, "kernel_trace.so"), os.path.join(folder, "trace")
        if args.tracer:
            library = os.path.abspath(args.tracer)
        else:
            build_tracer(cupti_folder(args.cupti), library)
        told = subprocess.run([args.gpu_bench, args.model, "timeline"], check=True, text=True, stdout=subprocess.PIPE,
                              env={**os.environ, "CUDA_INJECTION64_PATH": library, "KERNEL_TRACE": file}).stdout
        print(told, flush=True)
        with open(file) as lines:
            spans = read_trace(lines)
    works = [match for match in map(WORK.match, told.splitlines()) if match]
    report = {"card": told.split(":")[0], "date": time.strftime("%Y-%m-%d"), "model": works[0][1] if works else args.model,
              "works": {m[2]: of_work(spans, float(m[3]), float(m[4])) for m in works}}
    with open(args.report, "w") as out:
        json.dump(report, out, separators=(",", ":"))
    print_table(report)


def print_table(report):
    print(f"{report['card']}, {report['date']}, {report['model']}")
    for work, made in report["works"].items():
        print(f"\n{work}: {made['step_us'] / 1e3:.3f} ms a step\n\n| kernel | launches | us | share |\n|---|---|---|---|")
        for name, (calls, us) in sorted(made["kernels"].items(), key=lambda item: -item[1][1]):
            print(f"| {name} | {calls} | {us:,.1f} | {100 * us / made['step_us']:.1f} % |")


# ---- the picture

WIDTH, LEFT, BAR = 900, 10, 26
COLOURS = ["#0b6e99", "#d9730d", "#4d8a3d", "#9b51e0", "#b8860b", "#c2185b", "#00897b", "#6d4c41", "#3f51b5", "#7f8c8d"]
INK, EMPTY = "#57606a", "#e4e7eb"
ZOOM = 8  # a share of one in so many of a step is shown enlarged


def draw(args):
    from plot import text  # its letters look alike

    reports = []
    for named in args.reports:
        label, found, path = named.partition("=")
        if not found:
            sys.exit("timeline.py: LABEL=REPORT was expected")
        with open(path) as file:
            reports.append((label, json.load(file)))
    with open(args.picture, "w") as out:
        out.write(picture(reports, text))


def picture(reports, text):
    colours = {}
    totals = {}
    for _, report in reports:
        for made in report["works"].values():
            for name, (_, us) in made["kernels"].items():
                totals[name] = totals.get(name, 0) + us / made["step_us"]
    for name in sorted(totals, key=lambda name: -totals[name]):
        colours[name] = EMPTY if name == GAP else COLOURS[min(len(colours), len(COLOURS) - 1)]

    first = reports[0][1]
    body = [text(LEFT, 18, f"{first['model']} on {', '.join(sorted({r['card'] for _, r in reports}))}: where a step's time goes",
                 size=14, weight="bold")]
    x, y = LEFT, 32
    for name, colour in colours.items():
        wide = 26 + 8 * len(name)
        if x + wide > WIDTH:
            x, y = LEFT, y + 18
        body += [f'<rect x="{x}" y="{y}" width="11" height="11" fill="{colour}" stroke="{INK}" stroke-width="0.3"/>',
                 text(x + 15, y + 10, name)]
        x += wide
    y += 30
    for work in first["works"]:
        shown = [(label, report["works"][work]) for label, report in reports if work in report["works"]]
        longest = max(made["step_us"] for _, made in shown)
        body.append(text(LEFT, y + 6, work, size=13, weight="bold"))
        y += 16
        for label, made in shown:
            y = panel(body, text, y, label, made, longest, colours)
        y += 12
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}" '
                      'font-family="system-ui, sans-serif">', *body, "</svg>", ""])


def rect(x, y, width, height, colour, title):
    return (f'<rect x="{x:.2f}" y="{y}" width="{max(width, 0.05):.2f}" height="{height}" fill="{colour}">'
            f"<title>{html.escape(title)}</title></rect>")


def panel(body, text, y, label, made, longest, colours):
    """By kernel (sums), then the step as it ran, then its middle enlarged; returns where the panel ends."""
    room = WIDTH - 2 * LEFT
    scale = room / longest
    body.append(text(LEFT, y + 12, f"{label}: {made['step_us'] / 1e3:.2f} ms; nothing runs for "
                                   f"{100 * made['kernels'][GAP][1] / made['step_us']:.0f} %"))
    y += 18
    x = LEFT
    for name, (calls, us) in sorted(made["kernels"].items(), key=lambda item: (item[0] == GAP, -item[1][1])):
        body.append(rect(x, y, us * scale, BAR, colours[name], f"{name}: {us:,.0f} us, {calls} launches"))
        if us * scale > 7 * len(name) + 6 and name != GAP:
            body.append(text(x + 4, y + 17, name, size=11, ink="#ffffff"))
        x += us * scale
    y += BAR + 2
    strip(body, y, 14, made["spans"], 0, made["step_us"], scale, colours)
    y += 16
    width = made["step_us"] / ZOOM
    begin = (made["step_us"] - width) / 2
    strip(body, y, 14, made["spans"], begin, begin + width, room / width, colours)
    body.append(text(WIDTH - LEFT, y + 26, f"{width:,.0f} us of its middle", "end", size=10))
    return y + 32


def strip(body, y, height, spans, begin, end, scale, colours):
    """What runs from `begin` to `end`: a path for each kernel, of all its times."""
    body.append(rect(LEFT, y, (end - begin) * scale, height, EMPTY, GAP))
    paths, until = {}, begin
    for name, start, stop in spans:
        start, stop = max(start, until), min(stop, end)
        if stop > start:
            paths.setdefault(name, []).append(f"M{LEFT + (start - begin) * scale:.1f} {y}h{max((stop - start) * scale, 0.1):.1f}"
                                              f"v{height}h-{max((stop - start) * scale, 0.1):.1f}z")
            until = stop
    for name, drawn in paths.items():
        body.append(f'<path d="{"".join(drawn)}" fill="{colours[name]}"><title>{html.escape(name)}</title></path>')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = parser.add_subparsers(required=True)
    tracing = words.add_parser("trace")
    tracing.add_argument("report")
    tracing.add_argument("--gpu-bench", default=os.path.join(ROOT, "build", "gpu_bench"), metavar="PROGRAM")
    tracing.add_argument("--model", default="9b")
    tracing.add_argument("--cupti", metavar="DIR", help="with include/ and lib/; default: where it is found")
    tracing.add_argument("--tracer", metavar="FILE", help="kernel_trace.so, built before")
    tracing.set_defaults(run=trace)
    tables = words.add_parser("table")
    tables.add_argument("reports", nargs="+")
    tables.set_defaults(run=lambda args: [print_table(json.load(open(path))) for path in args.reports])
    drawing = words.add_parser("draw")
    drawing.add_argument("picture")
    drawing.add_argument("reports", nargs="+", metavar="LABEL=REPORT")
    drawing.set_defaults(run=draw)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
