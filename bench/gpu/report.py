"""The figures of bench/gpu/run.py, kept in a file, and the tables that compare them. Nothing here runs a program."""

import json
import os

# Works of gpu_bench, as mlx_lm_gpu.py names them.
MLX_WORKS = {
    "decode, prompt 512": "decode, prompt 512",
    "decode, prompt 4096": "decode, prompt 4096",
    "prefill 512, chunks of 512": "prefill 512",
    "prefill 4096, chunks of 4096": "prefill 4096",
}


def read(path):
    if not path or not os.path.exists(path):
        return {}
    with open(path) as file:
        return json.load(file)


def write(path, figures):
    if not path:
        return
    with open(path + ".part", "w") as file:
        json.dump(figures, file, indent=1)
    os.replace(path + ".part", path)


def rate(value):
    return "-" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def times(ours, theirs):
    return f"{ours / theirs:.2f}x" if ours and theirs else "-"


def table(heads, rows):
    return "\n".join("| " + " | ".join(line) + " |" for line in [heads, ["---"] * len(heads), *rows])


def rows_of(ours, theirs):
    return [[work, rate(theirs.get(work)), rate(ours.get(work)), times(ours.get(work), theirs.get(work))]
            for work in dict.fromkeys([*ours, *theirs])]


def of_models(figures):
    """gpu_bench's models, each beside mlx-lm where it ran."""
    rows = []
    for name, mine in figures.get("models", {}).items():
        program, _, model = name.partition(" ")
        peer = figures["models"].get(f"mlx-lm {model}", {})
        if program == "ours":
            rows += [[model, work, rate(peer.get(MLX_WORKS.get(work))), rate(value), times(value, peer.get(MLX_WORKS.get(work)))]
                     for work, value in mine.items()]
    return "Random weights, groups of 64 (gpu_bench), tok/s", table(["model", "work", "mlx-lm", "ours", ""], rows) if rows else ""


def of_file(figures):
    got = figures.get("file", {})
    rows = rows_of(got.get("ours", {}), got.get("llama.cpp", {}))
    return "Qwen3.5-9B's shape, the same Q4_0 file, tok/s", table(["work", "llama.cpp", "ours", ""], rows) if rows else ""


def of_batched(figures):
    """llama-batched-bench's decoding (the file) beside gpu_bench's streams (groups of 64, depth 512)."""
    theirs = figures.get("batched", {}).get("llama.cpp", {})
    mine = figures.get("models", {}).get("ours 9b", {})
    works = [work for work in theirs if work.endswith("streams")]
    rows = [[work, rate(theirs[work]), rate(mine.get(work)), times(mine.get(work), theirs[work])] for work in works]
    return ("Decoding many streams, kernels only, tok/s: llama-batched-bench (Q4_0), gpu_bench (groups of 64)",
            table(["work", "llama.cpp", "ours", ""], rows) if rows else "")


def seconds(value):
    return "-" if value is None else f"{value:.2f} s" if value >= 1 else f"{1000 * value:.0f} ms"


def of_http(figures, work):
    got = figures.get(work, {})
    peer = next((rows for name, rows in got.items() if name.startswith("llama-server ")), {})
    rows = []
    for name, mine in got.items():
        program, _, model = name.partition(" ")
        for clients, row in mine.items() if program == "anabranch" else ():
            other = peer.get(clients, {})
            rows.append([model, clients, rate(other.get("tok_s")), rate(row["tok_s"]), times(row["tok_s"], other.get("tok_s")),
                         seconds(other.get("ttft_p50_s")), seconds(row["ttft_p50_s"]), seconds(other.get("gap_p99_s")),
                         seconds(row["gap_p99_s"])])
    heads = ["model", "clients", "llama-server, tok/s", "ours", "", "its TTFT p50", "ours", "its gap p99", "ours"]
    return f"HTTP, {work.removeprefix('http ')} tokens", table(heads, rows) if rows else ""


def of_stall(figures):
    rows = [[name, streams, seconds(row.get("ttft_alone_s")), seconds(row["ttft_s"]), times(row["ttft_s"], row.get("ttft_alone_s")),
             seconds(row["gap_before_p50_s"]), seconds(row["gap_beside_p50_s"]), seconds(row["gap_beside_p99_s"])]
            for name, all_streams in figures.get("stall", {}).items() for streams, row in all_streams.items()]
    heads = ["server", "streams", "TTFT alone", "TTFT beside them", "", "gap p50 before", "gap p50 beside", "gap p99 beside"]
    return "A prompt of 32,768 tokens beside streams", table(heads, rows) if rows else ""


def text(figures):
    parts = [f"{figures.get('card', 'no card')}, {figures.get('date', 'no date')}"]
    for title, made in [of_models(figures), of_file(figures), of_batched(figures), of_http(figures, "http 512+128"),
                        of_http(figures, "http 16+512"), of_stall(figures)]:
        if made:
            parts.append(f"{title}:\n\n{made}")
    return "\n\n".join(parts)
