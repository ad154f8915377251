"""The program's commands, as tests call them."""

import json
import subprocess

from harness import paths


def run(*args, stdin="", timeout=600):
    done = subprocess.run([paths.PROGRAM, *args], input=stdin.encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=timeout)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def generate(*args, temp="0", tokens=12, **more):
    code, out, err = run("generate", "-m", paths.MODEL, "--json", "--temp", temp, "-n", str(tokens), *args, **more)
    assert code == 0, err
    return json.loads(out.splitlines()[-1])


def refused(text, *args, **more):
    code, _, err = run(*args, **more)
    assert code not in (0, 134, 136, 139) and code > 0, f"exit status {code}"
    assert text in err, err
