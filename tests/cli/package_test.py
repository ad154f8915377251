"""What packages are made of: completions, the manual page, and a hardened program."""

import gzip
import os
import shutil
import subprocess
import sys
import tempfile

from harness import needs, paths

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run(*words, **more):
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout


def completed(*words):
    """What bash offers for the last word."""
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(paths.PROGRAM, folder + "/anabranch")
        quoted = " ".join(f"'{word}'" for word in words)
        script = (f'eval "$(anabranch completions bash)"; COMP_WORDS=(anabranch {quoted}); COMP_CWORD={len(words)}; '
                  'cd /; _anabranch; printf "%s\\n" "${COMPREPLY[@]}"')
        return run("bash", "-c", script, env=os.environ | {"PATH": folder + ":" + os.environ["PATH"], "HOME": folder,
                                                           "HF_HUB_CACHE": folder}).split()


def test_bash_completes_words():
    assert completed("ser") == ["serve"]
    assert completed("serve", "--devi") == ["--device", "--devices"]
    assert completed("serve", "--device", "c") == ["cpu", "cuda"]
    assert completed("-v", "chat", "--thinking", "o") == ["on", "off"]
    assert "show" in completed("config", "s")
    assert "usr" in completed("serve", "--cache-dir", "us")


def test_other_shells_have_completions():
    for shell in ("zsh", "fish"):
        script = run(paths.PROGRAM, "completions", shell)
        assert all(word in script for word in ("serve", "--device" if shell == "zsh" else "-l device", "cuda", "ls --names"))
        if shutil.which(shell):
            run(shell, "-n", input=script)
    done = subprocess.run([paths.PROGRAM, "completions", "csh"], capture_output=True, text=True)
    assert done.returncode != 0 and "csh" in done.stderr


def test_the_manual_page_is_complete():
    with tempfile.TemporaryDirectory() as folder:
        run(sys.executable, os.path.join(ROOT, "tools/make_shell_files.py"), folder, paths.PROGRAM)
        with gzip.open(folder + "/anabranch.1.gz", "rt") as file:
            page = file.read()
        assert '.SS "serve"' in page and "\\fB\\-\\-cache\\-ram SIZE\\fR" in page and ".SH FILES" in page
        assert sorted(os.listdir(folder)) == ["_anabranch", "anabranch", "anabranch.1.gz", "anabranch.fish", "changelog.gz"]


def test_the_program_is_hardened():
    needs.plain_build()
    dynamic = run("readelf", "-dW", paths.PROGRAM)
    assert "BIND_NOW" in dynamic and "PIE" in dynamic, dynamic
    assert "GNU_RELRO" in run("readelf", "-lW", paths.PROGRAM)
    symbols = run("readelf", "-W", "--dyn-syms", paths.PROGRAM)
    assert "__stack_chk_fail" in symbols and "_chk@" in symbols.replace("__stack_chk_fail@", ""), "not fortified"
