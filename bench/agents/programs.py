"""The agents: how each one answers one prompt without a person, with its telemetry off, as its users run it."""

import os
import re
import shutil
import subprocess
from typing import NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))


class Program(NamedTuple):
    name: str           # of the table, and of `anabranch launch` if it serves the program
    words: list         # behind the program; {prompt}
    package: str = ""   # a Python library's; "": a program that is launched
    variables: dict = {}


PROGRAMS = [
    Program("claude", ["-p", "{prompt}", "--max-turns", "12", "--permission-mode", "acceptEdits", "--allowedTools",
                       "Bash,Read,Edit,Write,Glob,Grep", "--tools", "Bash,Read,Edit,Write,Glob,Grep"],
            variables={"DISABLE_TELEMETRY": "1", "DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1"}),
    Program("codex", ["exec", "-c", "analytics.enabled=false", "-c", "check_for_update_on_startup=false",
                      "--dangerously-bypass-approvals-and-sandbox", "{prompt}"]),
    Program("opencode", ["run", "{prompt}"], variables={"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}),
    Program("qwen", ["--prompt", "{prompt}", "--yolo", "--telemetry", "false"]),
    Program("aider", ["--message", "{prompt}", "--yes-always", "--analytics-disable", "--no-check-update", "--no-pretty", "--no-gitignore",
                      "--no-auto-commits", "--no-show-release-notes"], variables={"LITELLM_LOCAL_MODEL_COST_MAP": "True"}),
    Program("openai-agents", ["{prompt}"], "openai-agents", {"OPENAI_AGENTS_DISABLE_TRACING": "1"}),
    Program("pydantic-ai", ["{prompt}"], "pydantic-ai-slim"),
]


def version_of(program, python):
    """The installed version; "" if it is not there."""
    if program.package:
        asked = f"import importlib.metadata; print(importlib.metadata.version({program.package!r}))"
        done = subprocess.run([python, "-c", asked], capture_output=True, text=True)
        return done.stdout.strip()
    if not shutil.which(program.name):
        return ""
    done = subprocess.run([program.name, "--version"], capture_output=True, text=True)
    found = re.search(r"\d+(\.\d+)+", done.stdout)
    return found[0] if found else ""


def command_of(program, prompt, port, args):
    words = [word.replace("{prompt}", prompt) for word in program.words]
    if program.package:
        return [args.python, os.path.join(HERE, "library_agents.py"), program.name, f"http://127.0.0.1:{port}/v1", *words]
    return [args.anabranch, "launch", program.name, "--port", str(port), "--", *words]
