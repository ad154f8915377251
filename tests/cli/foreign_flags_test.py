"""Flags as other programs name them, and help that helps."""

import json
import os
import subprocess
import tempfile

from harness import paths


def run(*words):
    done = subprocess.run([paths.PROGRAM, *words], capture_output=True, text=True, timeout=600)
    return done.returncode, done.stdout, done.stderr


def answer(*words):
    code, out, err = run("generate", "-m", paths.DRAFT, "--no-cache", "--json", *words)
    assert code == 0, err
    return json.loads(out[out.index("{"):])


def test_the_same_as_our_own():
    ours = answer("--temp", "0", "--max-tokens", "5", "--context", "512", "--repetition-penalty", "1.1", "--spec", "off",
                  "--thinking", "off", "--system", "Be brief.", "What is a river?")
    theirs = answer("--temperature", "0", "--n-predict=5", "-c", "512", "--repeat-penalty", "1.1", "--spec", "off",
                    "--reasoning=off", "-sys", "Be brief.", "-p", "What is a river?")
    assert ours["token_ids"] == theirs["token_ids"] and len(ours["token_ids"]) == 5, (ours, theirs)


def test_in_a_file_and_after_two_dashes():
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/x.toml", "w") as file:
            file.write("[generate]\nn-predict = 3\n[server]\nctx_size = 999\nalias = 'x'\n")
        code, out, err = run("--config", folder + "/x.toml", "generate", "-m", paths.DRAFT, "--no-cache", "--json", "--thinking", "off",
                             "--", "-c")
        assert code == 0 and len(json.loads(out[out.index("{"):])["token_ids"]) == 3, out + err
        code, out, err = run("--config", folder + "/x.toml", "config", "show", "--json")
        shown = json.loads(out)
        assert shown["context"]["value"] == "999" and shown["served-model-name"]["value"] == "x", shown


def test_what_we_do_not_have():
    for words, advice in ((["serve", "-ngl", "99"], "--device cuda"), (["serve", "--flash-attn"], "leave it out")):
        code, out, err = run(*words)
        assert code == 2 and advice in err and "there is no" in err, (words, err)


def test_commands_of_others():
    code, ours, _ = run("serve", "--help")
    for words in (["help", "serve"], ["server", "--help"], ["serve", "-h"]):
        assert run(*words)[:2] == (0, ours), words
    assert run("help")[1] == run("--help")[1]
    assert run("ps")[0] == 3 and "there is no" not in run("list")[2]
    code, out, err = run("run", paths.DRAFT, "What is a river?", "--temp", "0", "-n", "5", "--no-cache")
    assert code == 0 and out == run("generate", "--model", paths.DRAFT, "What is a river?", "--temp", "0", "-n", "5", "--no-cache")[1], err
    talk = ["--temp", "0", "-n", "5", "--no-cache"]
    said = subprocess.run([paths.PROGRAM, "chat", "--model", paths.DRAFT, *talk], input="Hello\n", capture_output=True, text=True).stdout
    for words in (["chat", paths.DRAFT, *talk], ["run", paths.DRAFT, *talk], ["-q", "run", paths.DRAFT, *talk]):
        assert subprocess.run([paths.PROGRAM, *words], input="Hello\n", capture_output=True, text=True).stdout == said, words
    code, _, err = run("chat", "/nowhere/model")
    assert code == 1 and "/nowhere/model" in err, err


def test_a_mistyped_path_is_no_name():
    """Nothing is asked of the hub."""
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(folder + "/models/mine")
        done = subprocess.run([paths.PROGRAM, "chat", "models/mien"], capture_output=True, text=True, cwd=folder, timeout=300,
                              env=os.environ | {"HF_ENDPOINT": "http://127.0.0.1:9"})
        assert done.returncode == 1 and "there is no mien in models" in done.stderr and "mine" in done.stderr, done.stderr
        assert "127.0.0.1" not in done.stderr, done.stderr


def test_the_name_alone():
    code, out, err = run()
    assert code == 0 and not err, err
    for part in ("anabranch chat ", "anabranch serve ", "anabranch help"):
        assert part in out, out


def test_wrong_command_lines_end_with_2():
    for words in (["nonsense"], ["serve", "--nonsense"], ["chat"], ["serve", "--port", "99999999"], ["generate", "-m"], ["ls", "x", "y"]):
        assert run(*words)[0] == 2, words


def test_help():
    code, out, err = run("serve", "--help")
    assert code == 0 and " in [" not in out and "Sampling:" in out and "Cache:" in out, out
    assert "--cache-ram SIZE" in out and "--parallel N" in out and "{cpu,cuda,metal}" in out, out
    code, out, err = run("--help")
    assert code == 0 and "anabranch pull" in out and "ANABRANCH_" in out, out


def test_a_template_of_ones_own():
    with tempfile.TemporaryDirectory() as folder:
        template = folder + "/chat.jinja"
        with open(template, "w") as file:
            file.write("{% for m in messages %}{{ m.content }}{% endfor %}")
        one = answer("--chat-template-file", template, "--temp", "0", "-n", "6", "Once upon a time there was a")
        other = answer("--raw", "--temp", "0", "-n", "6", "Once upon a time there was a")
        assert one["token_ids"] == other["token_ids"], (one, other)
        with open(template, "w") as file:
            file.write("{% for %}")
        code, out, err = run("generate", "-m", paths.DRAFT, "--chat-template-file", template, "x")
        assert code == 1 and "chat.jinja" in err, err
        code, out, err = run("generate", "-m", paths.DRAFT, "--chat-template-file", folder + "/no", "x")
        assert code == 1 and folder + "/no" in err, err
