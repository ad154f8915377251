#!/usr/bin/env python3
"""Flags as peers name them, and help that helps: peer_flags_test.py BINARY MODEL_DIR.
The last line is "N passed, N failed"."""
import json, os, subprocess, sys, tempfile, traceback

BINARY, MODEL = sys.argv[1], os.path.join(os.path.dirname(os.path.abspath(sys.argv[2])), "hybrid-draft-19m")


def run(*words):
    done = subprocess.run([BINARY, *words], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def answer(*words):
    code, out, err = run("generate", "-m", MODEL, "--no-cache", "--json", *words)
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
        code, out, err = run("--config", folder + "/x.toml", "generate", "-m", MODEL, "--no-cache", "--json", "--thinking", "off",
                             "--", "-c")
        assert code == 0 and len(json.loads(out[out.index("{"):])["token_ids"]) == 3, out + err
        code, out, err = run("--config", folder + "/x.toml", "config", "show", "--json")
        shown = json.loads(out)
        assert shown["context"]["value"] == "999" and shown["served-model-name"]["value"] == "x", shown


def test_what_we_do_not_have():
    for words, advice in ((["serve", "-ngl", "99"], "--device cuda"), (["run", "llama3"], "anabranch chat"),
                          (["serve", "--flash-attn"], "leave it out"), (["list"], "anabranch ls")):
        code, out, err = run(*words)
        assert code != 0 and advice in err and "there is no" in err, (words, err)


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
        code, out, err = run("generate", "-m", MODEL, "--chat-template-file", template, "x")
        assert code == 1 and "chat.jinja" in err, err
        code, out, err = run("generate", "-m", MODEL, "--chat-template-file", folder + "/no", "x")
        assert code == 1 and folder + "/no" in err, err


def main():
    failed = 0
    tests = [(name, test) for name, test in globals().items() if name.startswith("test_")]
    for name, test in tests:
        try:
            test()
        except Exception:
            failed += 1
            print(f"--- {name}")
            traceback.print_exc(file=sys.stdout)
    print(f"{len(tests) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
