"""`chat` and `generate` without --model: models that suit the machine are offered, and the chosen one is pulled and used."""

import contextlib
import functools
import glob
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

from harness import paths
from harness.waiting import LONG, wait_for
from hub_setup import setup
from test_hub import Repo

# The table in src/cli/first_models.cc.
KNOWN = ["bartowski/SmolLM2-135M-Instruct", "unsloth/gemma-3-270m-it", "bartowski/SmolLM2-360M-Instruct",
         *(f"unsloth/Qwen3.5-{size}" for size in ("0.8B", "2B", "4B", "9B", "35B-A3B", "27B"))]
OFFER = re.compile(r"^  (\d)  (\S+) +([\d.]+ [kMG]B) (to download|stored here)(?:  about ([\d.]+) tokens a second)?\r?$", re.MULTILINE)
ANSWER = ("-n", "3", "--temp", "0", "Hello")


@functools.cache
def gguf():
    """A small model that answers, as a GGUF file."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "model.gguf")
        subprocess.run([paths.PROGRAM, "convert", paths.DRAFT, file, "--format", "q8_0"], check=True, capture_output=True)
        with open(file, "rb") as model:
            return model.read()


@contextlib.contextmanager
def hub_of_known(**hub):
    repos = {f"{name}-GGUF": Repo({f"{name.split('/')[1]}-Q4_K_M.gguf": gguf(), "README.md": b"#"}) for name in KNOWN}
    with setup(repos=repos, **hub) as (cache, server, _):
        yield cache, server


def offers_in(text):
    """[(name, whether it is stored, its speed or None)], checked to be numbered from 1."""
    found = OFFER.findall(text)
    assert [int(number) for number, *_ in found] == list(range(1, len(found) + 1)), text
    return [(name, where == "stored here", float(rate) if rate else None) for _, name, _, where, rate in found]


def read(path):
    with open(path, "rb") as file:
        return file.read()


def snapshot(cache, name):
    """The folder of a stored repository's files."""
    return glob.glob(os.path.join(cache.store, "models--" + name.replace("/", "--"), "snapshots", "*"))[0]


def stored(cache):
    """The names of the models that are there."""
    return set(cache.run("ls", "--names")[1].split())


def run(cache, *words, **more):
    """Without a terminal, in a folder without models."""
    done = subprocess.run([paths.PROGRAM, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600,
                          cwd=cache.home, env=cache.environment(**more))
    return done.returncode, done.stdout, done.stderr


class Terminal:
    """The program in a terminal of its own, in a folder without models."""

    def __init__(self, cache, *words, folder=None, **more):
        self.text = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder or cache.home)
            os.execve(paths.PROGRAM, [paths.PROGRAM, *words], cache.environment(TERM="xterm", **more))

    def wait(self, text, count=1):
        end = time.monotonic() + LONG
        while self.text.count(text) < count:
            assert time.monotonic() < end, f"{text!r} did not come: {self.text}"
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.text += os.read(self.fd, 65536).decode(errors="replace")
                except OSError:  # the program has ended
                    assert self.text.count(text) >= count, f"{text!r} did not come: {self.text}"

    def send(self, keys):
        os.write(self.fd, keys.encode())

    def end(self):
        """The exit status, or the signal's number below zero."""
        with contextlib.suppress(OSError):
            while data := os.read(self.fd, 65536):
                self.text += data.decode(errors="replace")
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


def test_the_second_is_pulled_and_used():
    with hub_of_known() as (cache, hub):
        terminal = Terminal(cache, "generate", *ANSWER)
        terminal.wait("Which one?")
        offers = offers_in(terminal.text)
        assert 1 <= len(offers) <= 3 and not any(here for _, here, _ in offers), terminal.text
        assert all(name.removesuffix("-GGUF:Q4_K_M") in KNOWN and rate > 0 for name, _, rate in offers), offers
        assert not hub.log  # nothing is asked of the hub before a model is chosen
        chosen = offers[min(1, len(offers) - 1)][0]
        terminal.send(f"{min(2, len(offers))}\n")
        assert terminal.end() == 0, terminal.text
        # The bar; where the file comes at once, it is drawn at 0 % alone.
        assert re.search(r"\[[#-]{16}\] +\d+ % of [\d.]+ MB", terminal.text) and f"generate --model {chosen}\r\n" in terminal.text, terminal.text
        assert stored(cache) == {chosen}
        assert {path for _, path, *_ in hub.requests("cdn")} == {chosen.split("/")[1].replace("-GGUF:", "-") + ".gguf"}
        # It is offered first from now on, and Enter takes it.
        before = len(hub.log)
        again = Terminal(cache, "generate", *ANSWER)
        again.wait("Which one?")
        offers = offers_in(again.text)
        assert offers[0][:2] == (chosen, True) and [name for name, *_ in offers].count(chosen) == 1, again.text
        again.send("\n")
        assert again.end() == 0, again.text
        assert len(hub.log) == before
        # The answer is that of the model by its name.
        code, out, err = cache.run("generate", "--model", chosen, *ANSWER)
        assert code == 0 and out.strip() in again.text.replace("\r\n", "\n"), (out, again.text)


def test_chat_goes_on_with_the_chosen_model():
    with hub_of_known() as (cache, _):
        terminal = Terminal(cache, "chat", "--no-history")
        terminal.wait("Which one?")
        terminal.send("1\n")
        terminal.wait("/help for commands")
        terminal.send("exit\n")
        assert terminal.end() == 0, terminal.text
        assert stored(cache) == {offers_in(terminal.text)[0][0]}


def test_wrong_answers_are_asked_again():
    with hub_of_known() as (cache, hub):
        terminal = Terminal(cache, "generate", *ANSWER)
        for asked, wrong in enumerate(("0", "4", "x", "-1", "1 2", "9" * 30, "\x1b[A"), 1):
            terminal.wait("Which one?", asked)
            terminal.send(wrong + "\n")
        terminal.wait("Which one?", 8)
        assert terminal.text.count("is none of the numbers") == 7 and not hub.log, terminal.text
        assert "\x1b[A'" not in terminal.text
        terminal.send(" 1 \n")
        assert terminal.end() == 0, terminal.text


def test_ctrl_c_and_the_end_of_input_choose_nothing():
    with hub_of_known() as (cache, hub):
        for command in ("chat", "generate"):
            for keys, status in (("\x03", -signal.SIGINT), ("\x04", 1), ("x\n\x04", 1)):
                terminal = Terminal(cache, command)
                terminal.wait("Which one?")
                terminal.send(keys)
                assert terminal.end() == status, (command, keys, terminal.text)
                assert ("no model was chosen" in terminal.text) == (status == 1), terminal.text
        assert not hub.log and not stored(cache)


def test_ctrl_c_stops_the_download():
    with hub_of_known(bytes_per_second=1 << 20) as (cache, hub):
        terminal = Terminal(cache, "generate", *ANSWER)
        terminal.wait("Which one?")
        terminal.send("1\n")
        wait_for(lambda: hub.requests("cdn"), "the download has not begun")
        terminal.wait("] ")
        terminal.send("\x03")
        assert terminal.end() == -signal.SIGINT, terminal.text
        assert "interrupted" in terminal.text and not stored(cache)


def test_yes_takes_the_first():
    with hub_of_known() as (cache, hub):
        code, out, err = run(cache, "generate", "--yes", *ANSWER)
        assert code == 0 and out, err
        first = offers_in(err)[0][0]
        assert stored(cache) == {first} and "Which one?" not in err
        before = len(hub.log)
        code, again, err = run(cache, "generate", "-y", *ANSWER)  # now it is stored
        assert code == 0 and again == out and offers_in(err)[0][:2] == (first, True), err
        assert len(hub.log) == before
        code, quiet, err = run(cache, "--quiet", "generate", "-y", *ANSWER)
        assert code == 0 and quiet == out and not err, err
        code, out, err = run(cache, "chat", "--yes", "--max-tokens", "3")  # its input has no message
        assert code == 0 and offers_in(err)[0][0] == first, err


def test_without_a_terminal_it_is_an_error():
    with hub_of_known() as (cache, hub):
        for words in (["chat"], ["generate", "Hello"], ["generate"]):
            code, _, err = run(cache, *words)
            assert code == 2 and "--model" in err and "--yes takes a model that suits this machine" in err, err
        code, _, err = run(cache, "mcp")  # its input is a protocol: it never asks
        assert code == 2 and "--model (or --url) is missing" in err and "--yes" not in err, err
        code, _, err = run(cache, "chat", "--yes", "--url", "http://127.0.0.1:1")
        assert code == 2 and "--yes" in err, err
        # A terminal for one half only is none to ask on.
        terminal, other = pty.openpty()
        for streams in ({"stdin": other, "stderr": subprocess.PIPE}, {"stdin": subprocess.DEVNULL, "stderr": other}):
            done = subprocess.run([paths.PROGRAM, "generate", "Hello"], stdout=subprocess.PIPE, env=cache.environment(), timeout=LONG,
                                  **streams)
            assert done.returncode == 2
        os.close(terminal), os.close(other)
        assert not hub.log


def test_a_model_that_is_named_is_not_asked_for():
    with hub_of_known() as (cache, hub):
        with open(os.path.join(cache.home, "own.toml"), "w") as file:
            file.write(f'[generate]\nmodel = "{paths.DRAFT}"\n')
        for words, more in (((), {"ANABRANCH_MODEL": paths.DRAFT}), (("--config", cache.home + "/own.toml"), {}),
                            (("-m", paths.DRAFT), {}), (("-m", paths.DRAFT, "--yes"), {})):
            terminal = Terminal(cache, "generate", *words, *ANSWER, **more)
            assert terminal.end() == 0 and "Which one?" not in terminal.text and not OFFER.search(terminal.text), terminal.text
        terminal = Terminal(cache, "generate", "-f", "/no/such/prompt")  # wrong flags are found before the question
        assert terminal.end() == 1 and "/no/such/prompt" in terminal.text and "Which one?" not in terminal.text
        assert not hub.log


def test_offline_only_stored_models_are_offered():
    with hub_of_known() as (cache, hub):
        code, _, err = run(cache, "--offline", "generate", "--yes", *ANSWER)
        assert code == 1 and "no model is stored here" in err and "--offline" in err, err
        name = KNOWN[0] + "-GGUF:Q4_K_M"
        cache.pull(name)
        before = len(hub.log)
        code, out, err = run(cache, "generate", "--yes", *ANSWER, HF_HUB_OFFLINE="1")
        assert code == 0 and out and [o[:2] for o in offers_in(err)] == [(name, True)], err
        assert len(hub.log) == before


def test_stored_models_that_cannot_answer_are_not_offered():
    good = KNOWN[1] + "-GGUF:Q4_K_M"
    with hub_of_known() as (cache, hub):
        hub.repos["org/broken-GGUF"] = Repo({"broken-Q4_K_M.gguf": gguf().replace(b"qwen35", b"qwen99")})
        hub.repos["org/cut-GGUF"] = Repo({"cut-Q4_K_M.gguf": gguf()[:100_000]})
        hub.repos["org/mute-GGUF"] = Repo({"mute-Q4_K_M.gguf": gguf().replace(b"tokenizer.chat_template", b"tokenizer.chat_nothing_")})
        cache.pull(good)
        for name in ("org/broken-GGUF", "org/cut-GGUF", "org/mute-GGUF"):
            code, _, err = cache.run("pull", name, "--anyway")
            assert code == 0, err
        # One for embeddings, and one that is larger than any memory, of which only the length is there.
        hub.repos["org/embeds"] = Repo({name: read(os.path.join(paths.DRAFT, name)) for name in os.listdir(paths.DRAFT)})
        hub.repos["org/huge-GGUF"] = Repo({"huge-Q4_K_M.gguf": gguf()})
        cache.pull("org/embeds")
        pooling = os.path.join(snapshot(cache, "org/embeds"), "1_Pooling")
        os.mkdir(pooling)
        with open(os.path.join(pooling, "config.json"), "w") as file:
            file.write('{"pooling_mode_lasttoken": true}')
        cache.pull("org/huge-GGUF")
        huge = os.path.join(snapshot(cache, "org/huge-GGUF"), "huge-Q4_K_M.gguf")
        os.remove(huge)
        with open(huge, "wb") as file:
            file.write(gguf())
            file.truncate(1 << 41)
        code, _, err = run(cache, "generate", "--yes", *ANSWER)
        assert code == 0, err
        assert [name for name, here, _ in offers_in(err) if here] == [good], err


def test_the_newest_stored_models_come_first():
    with hub_of_known() as (cache, _):
        terminal = Terminal(cache, "generate", *ANSWER)
        terminal.wait("Which one?")
        terminal.send("\x04")
        assert terminal.end() == 1
        best = offers_in(terminal.text)[0][0]
        first, second = [f"{name}-GGUF:Q4_K_M" for name in KNOWN if name != best.removesuffix("-GGUF:Q4_K_M")][:2]
        for name in (best, first, second):
            cache.pull(name)
        code, _, err = run(cache, "generate", "--yes", *ANSWER)
        assert code == 0, err
        offers = offers_in(err)
        assert [name for name, here, _ in offers if here] == [second, first], err
        assert best not in [name for name, here, _ in offers if not here], "it is stored, though not shown"


def test_a_clone_offers_its_own_model():
    with hub_of_known() as (cache, hub):
        clone = os.path.join(cache.home, "clone")
        shutil.copytree(paths.DRAFT, clone + "/models/hybrid-146m")
        terminal = Terminal(cache, "generate", "--yes", *ANSWER, folder=clone)
        assert terminal.end() == 0, terminal.text
        offers = offers_in(terminal.text)
        assert offers[0][:2] == ("models/hybrid-146m", True) and not any(here for _, here, _ in offers[1:]), terminal.text
        assert not hub.log


def test_a_gpu_is_preferred_unless_a_flag_says_otherwise():
    driver = os.path.join(os.path.dirname(paths.PROGRAM), "tests", "cuda")  # does nothing, but has a GPU
    if not os.path.exists(os.path.join(driver, "libcuda.so.1")):
        pytest.skip("the build has no driver for tests")
    with hub_of_known() as (cache, _):
        shutil.copytree(paths.DRAFT, cache.home + "/models/hybrid-146m")
        for words, more, gpu in (((), {}, True), (("--device", "cpu"), {}, False), ((), {"ANABRANCH_DEVICE": "cpu"}, False),
                                 (("--precise",), {}, False)):  # which only a CPU can do
            _, _, err = run(cache, "generate", "--yes", *words, *ANSWER, LD_LIBRARY_PATH=driver, **more)
            assert offers_in(err)[0][:2] == ("models/hybrid-146m", True), err
            assert (" on the GPU:" in err) == gpu and ("hybrid-146m --device cuda" in err) == gpu, (words, more, err)
