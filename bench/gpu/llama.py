"""llama.cpp on this card: built from a source archive, and its own benchmarks."""

import json
import os
import shutil
import subprocess
import tarfile

from programs import Failure, run

PROGRAMS = ("llama-bench", "llama-batched-bench", "llama-server")
# No page, no download, no tests; one type of keys and values, its default; the card that is here.
OPTIONS = {"CMAKE_BUILD_TYPE": "Release", "GGML_CUDA": "ON", "BUILD_SHARED_LIBS": "OFF", "LLAMA_BUILD_SERVER": "ON",
           "LLAMA_BUILD_UI": "OFF", "LLAMA_USE_PREBUILT_UI": "OFF", "LLAMA_BUILD_TESTS": "OFF", "LLAMA_BUILD_EXAMPLES": "OFF",
           "LLAMA_OPENSSL": "OFF", "GGML_CUDA_NCCL": "OFF", "GGML_CUDA_FA_QUANTS": "f16-f16"}
ON_CARD = ["-ngl", "99", "-fa"]


def architecture():
    """As CMake names this card's."""
    told = run(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"], 60).split()
    number = told[0].replace(".", "") if told else ""
    if not number.isdigit():
        raise Failure(f"nvidia-smi told no compute capability, but: {told}")
    return number + ("a" if int(number) >= 90 else "") + "-real"


def build(archive, folder, log):
    """Builds the programs from an archive of llama.cpp's source, with this machine's nvcc; -> their folder."""
    binaries = os.path.join(folder, "build", "bin")
    if all(os.access(os.path.join(binaries, name), os.X_OK) for name in PROGRAMS):
        return binaries
    if not shutil.which("nvcc") and os.path.exists("/usr/local/cuda/bin/nvcc"):
        os.environ["PATH"] += os.pathsep + "/usr/local/cuda/bin"
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    with tarfile.open(archive) as tar:
        tar.extractall(folder)
    source = next((at for at, _, files in os.walk(folder) if "CMakeLists.txt" in files), None)
    if source is None:
        raise Failure(f"{archive} holds no CMakeLists.txt: is it llama.cpp's source?")
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    options = {**OPTIONS, "CMAKE_CUDA_ARCHITECTURES": architecture()}
    made = os.path.join(folder, "build")
    run(["cmake", *generator, "-S", source, "-B", made, *(f"-D{name}={value}" for name, value in options.items())], 600,
        log + "-configure.log")
    run(["cmake", "--build", made, "-j", str(os.cpu_count()), "--target", *PROGRAMS], 3600, log + "-build.log")
    return binaries


def rows(command, timeout):
    """What a benchmark prints in JSON lines; its other lines are left out."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, text=True)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failure(str(error))
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not found:
        raise Failure(f"{' '.join(command)} failed with status {done.returncode}:\n{done.stderr[-2000:]}")
    return found


def bench(binaries, model, prompts=(), depths=(), tokens=128, reps=5, timeout=600):
    """{"pp4096": tok/s, "tg @ d512": tok/s}, named as our bench's."""
    command = [os.path.join(binaries, "llama-bench"), "-m", model, *ON_CARD, "1", "-o", "jsonl", "-r", str(reps)]
    out = {}
    if prompts:
        for row in rows([*command, "-n", "0", "-p", ",".join(map(str, prompts))], timeout):
            out[f"pp{row['n_prompt']}"] = row["avg_ts"]
    if depths:
        for row in rows([*command, "-p", "0", "-n", str(tokens), "-d", ",".join(map(str, depths))], timeout):
            out[f"tg @ d{row['n_depth']}"] = row["avg_ts"]
    return out


def batched(binaries, model, streams, prompt=512, tokens=128, timeout=600):
    """{"8 streams": tok/s of decoding, "8 streams, prefill": tok/s}"""
    context = max(streams) * (prompt + tokens)
    command = [os.path.join(binaries, "llama-batched-bench"), "-m", model, *ON_CARD, "on", "-npp", str(prompt), "-ntg",
               str(tokens), "-npl", ",".join(map(str, streams)), "-c", str(context), "--output-format", "jsonl"]
    out = {}
    for row in rows(command, timeout):
        out[f"{row['pl']} streams"] = row["speed_tg"]
        out[f"{row['pl']} streams, prefill"] = row["speed_pp"]
    return out
