#!/usr/bin/env python3
"""Runs llama.cpp's own tests of its server against ours: llama_server.py PROGRAM MODEL [-k EXPRESSION] [--work DIR]

The tests come with the source of the Python package llama-cpp-python, which pip downloads to DIR (default:
/tmp/anabranch-suites). They are run as they are, with a model of ours instead of theirs, which is not in the package: what
they expect of that model's text and token counts cannot hold. verdicts.txt beside this file has a line for each test
that does not pass, with the reason; a failure without one, and a reason without a failure, are errors. Needs pytest,
requests, openai, scikit-build-core. The last line is "N passed, N failed" (failed: without a verdict)."""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tarfile

PACKAGE = "llama-cpp-python==0.3.36"
HERE = pathlib.Path(__file__).resolve().parent
# Flags of llama-server whose value ours takes under another name, or not at all (None).
VALUES = {"--port": "--port", "--host": "--host", "--temp": "--temp", "--api-key": "--api-key", "--parallel": "--parallel",
          "--chat-template-file": "--chat-template-file", "--cors-origins": "--cors-origin", "--model": None, "--seed": None,
          "--ctx-size": None, "--alias": "--served-model-name", "--threads": "--threads",
          "--slot-save-path": "--slot-save-path"}
SWITCHES = {"--offline", "--cont-batching", "--metrics", "--slots", "--no-slots", "--kv-unified", "--jinja", "--no-jinja",
            "--verbose", "--swa-full", "--no-cache-idle-slots"}
IGNORED = {"--hf-repo", "--hf-file", "--batch-size", "--ubatch-size", "--n-gpu-layers", "--n-predict", "-ctk", "-ctv", "-fa",
           "--reasoning-format", "--cache-ram"}


def our_flags(args, model):
    """What llama-server's command line means for ours. Unknown flags end the program, so that their tests fail."""
    pooling = ""
    out, context, slots = ["serve", "--model", model, "--no-cache" if "--no-cache" in args else "--offline"], 0, 1
    args = iter(args)
    for arg in args:
        if arg in SWITCHES:
            continue
        if arg in ("--embedding", "--embeddings", "--reranking", "--rerank"):
            pooling = pooling or ("rank" if "rerank" in arg else "mean")
            continue
        value = next(args)
        if arg == "--ctx-size":
            context = int(value)
        elif arg == "--parallel":
            slots = int(value)
        elif arg == "--pooling":
            pooling = value
        elif arg == "--reasoning":
            out += ["--thinking", value]
        elif arg in VALUES:
            out += [VALUES[arg], value] if VALUES[arg] else []
        elif arg not in IGNORED:
            sys.exit(f"llama-server's {arg} is not known")
    if pooling:
        out += ["--pooling", pooling]
    if context:
        out += ["--context", str(context // slots)]
    return out + ["--parallel", str(slots)]


def fetch(work):
    """The folder with the tests."""
    found = list(work.glob("llama_cpp_python-*/vendor/llama.cpp/tools/server/tests"))
    if not found:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "--no-build-isolation",
                        "-d", work, PACKAGE], check=True)
        with tarfile.open(next(work.glob("llama_cpp_python-*.tar.gz"))) as archive:
            archive.extractall(work, [m for m in archive.getmembers() if "/tools/server/tests/" in m.name or "/models/templates/" in m.name], filter="data")
        found = list(work.glob("llama_cpp_python-*/vendor/llama.cpp/tools/server/tests"))
    return found[0]


def prepare(work, program, model):
    """A program that takes llama-server's flags, and stand-ins for packages that only downloads need."""
    bin_path = work / "llama-server"
    bin_path.write_text(f"#!/bin/sh\nexec {sys.executable} {HERE / 'llama_server.py'} --as-llama-server {program} {model} \"$@\"\n")
    bin_path.chmod(0o755)
    stubs = work / "stubs"
    stubs.mkdir(exist_ok=True)
    (stubs / "wget.py").write_text("def download(*args, **more):\n    raise OSError('no downloads')\n")
    (stubs / "filelock.py").write_text("import contextlib\nFileLock = lambda path: contextlib.nullcontext()\n")
    return bin_path, stubs


def read_verdicts():
    verdicts = {}
    for line in (HERE / "llama_server_verdicts.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            test, verdict = line.split(" | ", 1)
            verdicts[test] = verdict
    return verdicts


def verdict_of(test, verdicts):
    """Of the test, of its function for all parameters, or of its file."""
    return next((verdicts[name] for name in (test, test.split("[")[0], test.split("::")[0]) if name in verdicts), None)


def main():
    if sys.argv[1:2] == ["--as-llama-server"]:
        program, model, *args = sys.argv[2:]
        os.execv(program, [program, *our_flags(args, model)])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("model", type=os.path.abspath)
    parser.add_argument("-k", default="")
    parser.add_argument("--tb", default="no", help="how pytest shows failures, in DIR/output.txt")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("/tmp/anabranch-suites"))
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    tests = fetch(args.work)
    program, stubs = prepare(args.work, args.program, args.model)
    environment = os.environ | {"LLAMA_SERVER_BIN_PATH": str(program), "PYTHONPATH": str(stubs), "XDG_CACHE_HOME": str(args.work / "cache"),
                                "PORT": "18080"}
    # Their conftest only downloads models before the tests.
    (stubs / "stop_servers.py").write_text("import pytest, utils\n@pytest.fixture(autouse=True)\ndef stop_servers():\n    yield\n"
                                           "    for server in set(utils.server_instances): server.stop()\n")
    # Most tests answer within a second; a server that ends at once must not be waited for.
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--noconftest", "-p", "stop_servers", "-rA", f"--tb={args.tb}", "--capture=no", "--color=no", "-m", "not slow", "unit"]
    output = subprocess.run(command + (["-k", args.k] if args.k else []), cwd=tests, env=environment | {"PYTHONPATH": f"{stubs}:{tests}"},
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    (args.work / "output.txt").write_text(output)
    verdicts, counts, bad = read_verdicts(), {}, 0
    for result, test in re.findall(r"^(PASSED|FAILED|ERROR|SKIPPED) (?:unit/)?(\S+::[^\n]*?)(?: - .*)?$", output, re.M):
        verdict = verdict_of(test, verdicts)
        kind = "passed" if result == "PASSED" else verdict.split(":")[0] if verdict else "without a verdict"
        counts[kind] = counts.get(kind, 0) + 1
        if result != "PASSED" and not verdict:
            bad += 1
            print(result, test)
        elif result == "PASSED" and test in verdicts:
            bad += 1
            print("passes, but has a verdict:", test)
    print(counts)
    print(f"{counts.get('passed', 0)} passed, {bad} failed")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
