#!/usr/bin/env python3
"""Runs what README.md and docs/ show: every shell command, every Python example, every link and every flag.

    tools/check_docs.py [PROGRAM [MODEL_DIR]]

Commands run in a folder of their own with a home of their own; names of models lead to a hub on this machine that has small
ones under these names. A command must be known to this file: what cannot run here stands in NOT_RUN, with the reason.
Prints what failed, and "N passed, N failed"; the exit status is 1 when something failed."""

import contextlib
import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "tests", folder) for folder in ("", "hub", "server")]
import check_links
import fetch_real_models
import lora_adapter
import make_cli_page
from harness import paths
from test_hub import Hub, Repo

PAGES = ["README.md", "CONTRIBUTING.md", "SECURITY.md", *sorted(glob.glob("docs/**/*.md", root_dir=ROOT, recursive=True)),
         *sorted(glob.glob("models/*/README.md", root_dir=ROOT))]
SECONDS = 60  # for one command

# Patterns of commands that are not run, and why.
NOT_RUN = [
    (r"git clone ", "needs the public address"),
    (r"script/(run|build|test|fuzz|package|bootstrap)\b", "builds and tests are run by others, as a whole"),
    (r"\.deps/test-venv/bin/python -m pytest ", "tests are run by others"),
    (r".*--device (cuda|metal)", "needs a GPU"),
    (r".*--image ", "needs a model that reads images"),
    (r"ANTHROPIC_BASE_URL=.* claude$", "needs Claude Code"),
    (r"anabranch launch (?!.*--print)", "needs the agent"),
    (r"(script/build && )?(python3 )?bench/", "takes too long; tests/tools tests the scripts"),
    (r"tools/(eval_tasks|compare_with_transformers|fetch_)", "takes too long; tests/tools tests them"),
    (r".*\bbench .*--prompts", "takes too long; tests/cli tests it"),
    (r".*\b(calibrate|verify) ", "takes too long; tests/cli tests it"),
    (r"(sudo |apt|dpkg|docker|brew|systemctl|journalctl|launchctl|make |cmake |ninja |debootstrap)", "changes the machine"),
    (r"(pip|python3 -m pip) ", "needs the network"),
    (r"(sha256sum -c|tar -xzf|\S*/install\.sh)", "needs the archive; tests/tools tests it"),
    (r"(vllm-router|aiperf|guidellm|lm_eval) ", "another program"),
]
# Words of examples, and what stands for them.
STANDS_FOR = [
    (r"\[--[^\]]*\]", ""),                        # [--optional]
    (r"--tune$", "--tune --tune-seconds 1"),
    (r"--reps 30", "--reps 2"),
    (r"\b(DIR_OR_FILE|DIR|SOURCE)\b", "models/hybrid-draft-19m"),
    (r"\bFILE\b", "text.txt"),
    (r"\bOUTPUT\b", "converted"),
    (r"\bORG/NAME\b", "mlx-community/Qwen3.5-9B-4bit"),
    (r"\bNAME\b", "mlx-community/Qwen3.5-9B-4bit"),
]
# Flags in the text that are not the program's: of scripts, of other programs.
OTHER_FLAGS = set("""--gpus --full --checkpoint --list --total --preset --help --clients --rounds --kinds --url --out --prompts --make-only --quick --peers
--models --works --max-tokens --tests --test --check --selftest --root --prefix --build --install --user --now --data-urlencode
--openai-api-base --openai-api-key --auth-type --standalone --no-index --tp --dry-run --offline --reps --threads --json --each --vllm-pd-disaggregation --prefill --decode --shutdown""".split())


def port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def blocks(text, *languages):
    for match in re.finditer(r"^```(\w+)\n(.*?)^```", text, re.S | re.M):
        if match[1] in languages:
            yield match[1], match[2]


def commands(block):
    """Lines without comments; those that end in \\ go on."""
    for line in re.sub(r"\\\n\s*", " ", block).splitlines():
        line = re.sub(r"(^|\s)#\s.*", "", line).strip()
        if line:
            yield line


def run(words, folder, environment, text=""):
    """Exit status and output; its children end with it."""
    process = subprocess.Popen(words, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        out, _ = process.communicate(text, timeout=SECONDS)
        return process.returncode, out
    except subprocess.TimeoutExpired:
        return -1, f"took more than {SECONDS} s"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


class Reader:
    """Someone who does what the pages say, in a folder of their own."""

    def __init__(self, program, model, folder, hub):
        self.program, self.folder, self.server, self.port = program, folder, None, None
        small = os.path.join(os.path.dirname(model), "hybrid-draft-19m")  # under both names: its answers are not read
        os.mkdir(folder + "/models")
        for name in os.listdir(os.path.dirname(model)):
            os.symlink(small, f"{folder}/models/{name}")
        for name in ("bench", "packaging"):
            os.symlink(os.path.join(ROOT, name), f"{folder}/{name}")
        os.mkdir(folder + "/build")
        os.mkdir(folder + "/bin")
        os.symlink(program, folder + "/build/anabranch")
        os.symlink(program, folder + "/bin/anabranch")
        with open(folder + "/text.txt", "w") as file:
            file.write("A river runs to the sea, and the sea does not fill. " * 60)
        paths.choose(program, small)
        for seed, name in enumerate(("poet", "pirate")):
            lora_adapter.write(f"{folder}/adapters/{name}", seed)
        server = {"command": sys.executable, "args": [os.path.join(ROOT, "tests/mcp/fake_server.py"), "good"]}
        with open(folder + "/mcp.json", "w") as file:
            json.dump({"mcpServers": {"time": server}}, file)
        self.environment = {"PATH": folder + "/bin:" + os.environ["PATH"], "HOME": folder + "/home", "HF_ENDPOINT": hub.url,
                            "PYTHONDONTWRITEBYTECODE": "1", "ANABRANCH_BINARY": program,
                            "PYTHONPATH": os.path.join(ROOT, "python"), "ANABRANCH_PORT": str(port())}

    def stop(self):
        if self.server:
            os.killpg(self.server.pid, signal.SIGKILL)
            self.server.communicate()
        self.server = None

    def here(self, text):
        return re.sub(r"(127\.0\.0\.1|localhost):(11436|8080)", f"127.0.0.1:{self.port}", text)

    def serve(self, command):
        self.stop()
        self.port = port()
        command = re.sub(r"\s&$", "", re.sub(r"--port \d+", "", command)) + f" --port {self.port}"
        self.server = subprocess.Popen(["bash", "-c", command], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        said = ""
        for line in self.server.stdout:
            said += line
            if " on http" in line:
                return None
        return said

    def run(self, command):
        """What went wrong, or None."""
        if re.search(r"\banabranch serve\b", command) and "--detach" not in command:
            return self.serve(command)
        status, out = run(["bash", "-c", self.here(command)], self.folder, self.environment,
                          "/help\nHello\n/quit\n" if " chat" in command else "")
        return out[-2000:] if status != 0 or ("curl" in command and '"error"' in out) else None

    def python(self, code):
        status, out = run([sys.executable, "-c", self.here(code)], self.folder, self.environment)
        return out[-2000:] if status else None


class Check:
    def __init__(self):
        self.passed, self.failed, self.not_run = 0, 0, 0

    def note(self, where, problem):
        if problem is None:
            self.passed += 1
        else:
            self.failed += 1
            print(f"--- {where}\n{problem}", flush=True)


def prepared(command):
    for pattern, instead in STANDS_FOR:
        command = re.sub(pattern, instead, command)
    return command


def check_commands(check, page, text, reader):
    for language, block in blocks(text, "sh", "bash", "python"):
        if language == "python":
            if reader.server is None:
                reader.run("anabranch serve --model models/hybrid-146m")
            check.note(f"{page}: Python", reader.python(block))
            continue
        for command in commands(block):
            if any(re.match(pattern, command) for pattern, _ in NOT_RUN):
                check.not_run += 1
                continue
            if re.search(r"\bcurl\b.*:11436", command) and reader.server is None:
                reader.run("anabranch serve --model models/hybrid-146m")
            check.note(f"{page}: {command}", reader.run(prepared(command)))
    reader.stop()


def known_flags(program):
    """Of every sub-command, of the scripts, and those of other programs."""
    flags, seen, todo = set(OTHER_FLAGS), set(), [()]
    while todo:
        words = todo.pop()
        _, text = run([program, *words, "--help"], ROOT, dict(os.environ))
        flags |= set(re.findall(r"--[a-z][a-z0-9-]*", text))
        tail = re.split(r"^Subcommands:", text, flags=re.M)
        if len(tail) > 1:
            for name in re.findall(r"^  ([a-z][a-z-]*)", tail[1].split("\n\n")[0], re.M):
                if (*words, name) not in seen:
                    seen.add((*words, name))
                    todo.append((*words, name))
    for file in ("src/cli/foreign_flags.cc", *glob.glob("script/*", root_dir=ROOT), *glob.glob("bench/**/*.py", root_dir=ROOT, recursive=True),
                 *glob.glob("tools/**/*.py", root_dir=ROOT, recursive=True)):
        with open(os.path.join(ROOT, file)) as source:
            flags |= set(re.findall(r"--[a-z][a-z0-9-]*", source.read()))
    return flags


def check_flags(check, page, text, flags):
    named = {flag for code in re.findall(r"`([^`\n]+)`", text) for flag in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", code)}
    for flag in sorted(named):
        family = flag.endswith("-") and any(known.startswith(flag) for known in flags)
        check.note(f"{page}: {flag}", None if flag in flags or family else "there is no such flag")


def repo_of(folder):
    files = {}
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as file:
            files[name] = file.read()
    return Repo(files)


def repos(model):
    """A small model under every name of the pages."""
    small = repo_of(os.path.join(os.path.dirname(model), "hybrid-draft-19m"))
    gguf = fetch_real_models.path_of("smollm2")
    names = {}
    for page in PAGES:
        with contextlib.suppress(FileNotFoundError), open(os.path.join(ROOT, page)) as file:
            for name, quant in re.findall(r"((?:mlx-community|unsloth)/[\w.-]+)(:\w+)?", file.read()):
                names.setdefault(name, set()).add(quant[1:])
    out = {}
    for name, quants in names.items():
        if any(quants) and gguf.exists():
            content = gguf.read_bytes()
            out[name] = Repo({f"Model-{quant}.gguf": content for quant in quants if quant})
        else:
            out[name] = small
    return out


def main():
    program = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build/anabranch"))
    model = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else os.path.join(ROOT, "models/hybrid-146m"))
    check, flags, repository = Check(), known_flags(program), check_links.Repository(ROOT)
    with open(make_cli_page.PAGE) as file:
        check.note("docs/cli.md", None if file.read() == make_cli_page.page([program]) else
                   "out of date: run tools/make_cli_page.py")
    with Hub(repos(model)) as hub:
        for page in PAGES:
            try:
                with open(os.path.join(ROOT, page)) as file:
                    text = file.read()
            except FileNotFoundError:
                continue
            start = time.time()
            folder = tempfile.mkdtemp(prefix="anabranch-docs-")
            reader = Reader(program, model, folder, hub)
            try:
                for what, problem in repository.check_page(page):
                    check.note(what, problem)
                check_flags(check, page, text, flags)
                check_commands(check, page, text, reader)
            finally:
                reader.stop()
                shutil.rmtree(folder, ignore_errors=True)
            if time.time() - start > 5:
                print(f"{page}: {time.time() - start:.0f} s")
    print(f"{check.not_run} commands were not run")
    print(f"{check.passed} passed, {check.failed} failed")
    return check.failed > 0


if __name__ == "__main__":
    sys.exit(main())
