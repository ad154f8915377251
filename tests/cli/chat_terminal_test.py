"""`chat` in a terminal, as a person sees it. A terminal emulator reads the screen;
the other end is a server that answers what the test says."""

import contextlib
import fcntl
import http.server
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import tempfile
import termios
import threading
import time

import pyte

from harness import passed_on, paths
from harness.waiting import LONG

PASTE, PASTE_END = "\x1b[200~", "\x1b[201~"
LEFT, RIGHT, UP, DELETE, BACKSPACE, HOME = "\x1b[D", "\x1b[C", "\x1b[A", "\x1b[3~", "\x7f", "\x1b[H"
FAMILY = "\U0001F468\u200d\U0001F469\u200d\U0001F467"


class Fake(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def handle(self):
        with contextlib.suppress(ConnectionError):  # of a chat that was killed
            super().handle()

    def do_GET(self):
        self.give("application/json", json.dumps({"data": [{"id": "fake"}]}).encode())

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)
        answer = self.server.answers.pop(0) if self.server.answers else ("fine", "stop")
        text, reason = answer if isinstance(answer, tuple) else (answer, "stop")
        # In pieces as tokens come.
        events = [{"delta": {"content": text[i:i + 3]}} for i in range(0, len(text), 3)] + [{"delta": {}, "finish_reason": reason}]
        usage = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 7}}
        lines = [json.dumps({"choices": [dict(one, index=0)]}) for one in events] + [json.dumps(usage), "[DONE]"]
        self.give("text/event-stream", "".join(f"data: {line}\n\n" for line in lines).encode())

    def give(self, kind, body):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Terminal:
    def __init__(self, words, columns=80, rows=40, **environment):
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            self.fd = 0  # before the program starts, which would hear of a change
            self.set_size(columns, rows)
            os.execve(paths.PROGRAM, [paths.PROGRAM, "chat", *words], environment)

    def set_size(self, columns, rows):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def edits_lines(self):
        return bool(termios.tcgetattr(self.fd)[3] & termios.ICANON)

    def resize(self, columns, rows):
        self.set_size(columns, rows)
        self.screen.resize(rows, columns)

    def read(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.raw += data
        self.stream.feed(data)
        return bool(data)

    def text(self):
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip()

    def wait(self, what, seconds=LONG):
        """Until the condition holds (or the text is on the screen)."""
        good = what if callable(what) else lambda: what in self.text()
        end = time.monotonic() + seconds
        while not good():
            assert time.monotonic() < end, f"{what!r} did not come:\n{self.text()}"
            self.read(0.1)

    def wait_for_quiet(self, seconds=0.6):
        """Until nothing is written for so long."""
        while self.read(seconds):
            pass

    def send(self, text):
        data = text.encode()
        while data:  # the kernel's line holds 4 kB
            data = data[os.write(self.fd, data[:1024]):]
            self.read(0.02)

    def close(self):
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


class Chat:
    """A fake server and `chat` in a terminal."""
    def __init__(self, folder, *words, answers=(), columns=80, rows=40, **environment):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Fake)
        self.server.answers, self.server.bodies = list(answers), []
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        base = passed_on.variables() | {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "HOME": folder, "LANG": "C.UTF-8"}
        url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.terminal = Terminal(["--url", url, *words], columns, rows, **{k: v for k, v in (base | environment).items() if v is not None})
        self.terminal.wait(lambda: "/help for commands" in self.terminal.text().replace("\n", ""))
        self.prompt(1)

    def say(self, keys, text):
        """Sends keys and waits for the message that the server gets and for the next prompt."""
        bodies, prompts = len(self.server.bodies), self.prompts()
        self.terminal.send(keys)
        self.terminal.wait(lambda: len(self.server.bodies) > bodies)
        got = self.server.bodies[-1]["messages"][-1]["content"]
        assert got == text, (got, text)
        entered = re.sub(f"{re.escape(PASTE)}.*?{re.escape(PASTE_END)}", "", keys, flags=re.S).replace("\x1b\r", "")
        self.prompt(prompts + entered.count("\r"))

    def prompts(self):
        """How many lines the program has begun to read."""
        return self.terminal.raw.count(b"\x1b[?2004h")

    def prompt(self, number):
        """Waits until the cursor stands behind this prompt. Before, the terminal itself edits lines."""
        t = self.terminal
        t.wait(lambda: self.prompts() >= number and t.screen.display[t.screen.cursor.y].startswith("> ") and t.screen.cursor.x == 2
               and not t.edits_lines())

    def command(self, text, answer):
        prompts = self.prompts()
        self.terminal.send(text + "\r")
        self.terminal.wait(answer)
        self.prompt(prompts + 1)

    def close(self):
        self.terminal.close()
        self.server.shutdown()
        self.server.server_close()


@contextlib.contextmanager
def chatting(*words, folder=None, **more):
    with tempfile.TemporaryDirectory() as own:
        chat = Chat(folder or own, *words, **more)
        try:
            yield chat
        finally:
            chat.close()


def test_characters_of_all_languages():
    for locale in ({"LANG": "C.UTF-8"}, {"LANG": None}, {"LANG": "C"}, {"LC_ALL": "POSIX"}, {"LANG": "de_DE.ISO-8859-1"}):
        with chatting(**locale) as chat:
            text = "Grüße aus Köln: 你好 🎉"
            chat.terminal.send(text)
            chat.terminal.wait(lambda: "Grüße aus Köln: 你" in chat.terminal.text())
            chat.say("\r", text)
            for text in ("שלום עולם", "مرحبا", f"a {FAMILY} b", "e\u0301tude", "ไทย", "𝔘𝔫𝔦"):
                chat.say(text + "\r", text)


def test_moving_and_deleting_go_by_characters():
    with chatting() as chat:
        chat.say("Köln" + LEFT * 2 + BACKSPACE + "o\r", "Koln")
        chat.say("a" + FAMILY + "b" + LEFT + BACKSPACE + "\r", "ab")
        chat.say("x" + FAMILY + "y" + HOME + RIGHT + DELETE + "\r", "xy")
        chat.say("e\u0301e\u0301" + BACKSPACE + "\r", "e\u0301")
        chat.say("\U0001F1E9\U0001F1EA\U0001F1E8\U0001F1ED" + BACKSPACE + "\r", "\U0001F1E9\U0001F1EA")
        chat.say("你好吗" + LEFT + LEFT + "x" + DELETE + "\r", "你x吗")
        chat.say("שלום" + BACKSPACE + LEFT + "א\r", "שלאו")


def test_bytes_that_are_no_utf8_do_not_end_it():
    with chatting() as chat:
        for i, (data, text) in enumerate(((b"a\xff\xfeb\r", "a\ufffd\ufffdb"), (b"x\xf0\x9f\x87\r", "x\ufffd\ufffd\ufffd"), (b"\xc3y\r", "\ufffdy"))):
            prompts = chat.prompts()
            os.write(chat.terminal.fd, data)
            chat.terminal.wait(lambda: len(chat.server.bodies) > i)
            got = chat.server.bodies[i]["messages"][-1]["content"]
            assert got[0] == text[0] and got[-1] == text[-1] and "\ufffd" in got, (got, text)
            chat.prompt(prompts + 1)


def test_a_pasted_block_is_one_message():
    block = "def f(a):\n\tif a:\n\n        return 'ü'\n# end"
    with chatting() as chat:
        chat.say(PASTE + block + PASTE_END + "\r", block)
        chat.say(PASTE + block.replace("\n", "\r") + PASTE_END + " and more\r", block + " and more")
        chat.say("before " + PASTE + "/undo\n/exit" + PASTE_END + "\r", "before /undo\n/exit")
        chat.say(PASTE + "/usr/bin/x: no such file\n/exit" + PASTE_END + "\r", "/usr/bin/x: no such file\n/exit")
        chat.say(PASTE + "/exit\nwas in the log" + PASTE_END + "\r", "/exit\nwas in the log")
        chat.say('"""/clear"""\r', " /clear")
        chat.say(PASTE + "a\x1b[31mred\x07" + PASTE_END + "\r", "a[31mred")
        long = "\n".join(f"line {i} of a long block" for i in range(400))
        chat.say(PASTE + long + PASTE_END + "\r", long)


def test_several_lines_by_hand():
    with chatting() as chat:
        chat.say("one\x1b\rtwo\r", "one\ntwo")
        chat.say('"""first\rsecond\r\rthird"""\r', "first\nsecond\n\nthird")
        chat.say('"""\rfirst\r"""\r', "first")
        chat.say("one \\\rtwo\\\rthree\r", "one \ntwo\nthree")
        chat.say('"""one line"""\r', "one line")
        chat.say("ends with two \\\\\r", "ends with two \\\\")
        prompts = chat.prompts()
        chat.terminal.send('"""first\r')
        chat.terminal.wait(lambda: chat.prompts() == prompts + 1)
        chat.terminal.send("\x03")
        chat.prompt(prompts + 2)
        chat.say("after\r", "after")


def test_history_outlasts_a_restart():
    with tempfile.TemporaryDirectory() as folder:
        with chatting(folder=folder) as chat:
            chat.say("first ü\r", "first ü")
            chat.say(PASTE + "two\nlines" + PASTE_END + "\r", "two\nlines")
            chat.say(UP + UP + "\r", "first ü")
        path = os.path.join(folder, ".local/state/anabranch/chat_history")
        assert os.stat(path).st_mode & 0o777 == 0o600
        with chatting("--no-history", folder=folder) as chat:
            before = os.stat(path).st_size
            chat.say("secret\r", "secret")
            chat.say(UP + "\r", "secret")
            assert os.stat(path).st_size == before
        with chatting(folder=folder) as chat:
            chat.say(UP + UP + "!\r", "two\nlines!")


def test_an_editor_writes_the_message():
    with tempfile.TemporaryDirectory() as folder:
        editor = os.path.join(folder, "my editor")
        with open(editor, "w") as file:
            file.write('#!/bin/sh\nstat -c %a "$1" >> "$HOME/modes"; printf "written\\nin ü\\n" >> "$1"\n')
        os.chmod(editor, 0o700)
        with chatting(folder=folder, EDITOR=f"'{editor}'") as chat:
            chat.say("/edit begun \r", "begun written\nin ü")
        assert open(os.path.join(folder, "modes")).read() == "600\n"
        with chatting(folder=folder, EDITOR="false") as chat:
            chat.command("/edit", "false failed")
        with chatting(folder=folder, PATH="/nowhere") as chat:
            chat.command("/edit", "no editor was found")


def test_a_window_that_is_resized():
    with chatting(columns=60) as chat:
        text = "some words that are longer than the narrow window will be, 你好"
        chat.terminal.send(text)
        chat.terminal.resize(30, 40)
        chat.terminal.wait_for_quiet()  # it draws its line anew
        chat.say(" more\r", text + " more")
        words = " ".join(f"word{i}" for i in range(30))
        chat.server.answers.append(words)
        chat.say("next\r", "next")
        shown = chat.terminal.text().split("> next")[1].split("\n> ")[0]
        assert shown.split() == words.split() + [">"] or shown.split() == words.split(), shown
        assert all(len(line) <= 30 for line in shown.splitlines())


def resize_and_see(terminal, columns):
    """Until the line was drawn anew."""
    before = terminal.raw.count(b"\033[J")
    terminal.resize(columns, 40)
    terminal.wait(lambda: terminal.raw.count(b"\033[J") > before)
    terminal.wait_for_quiet()


def test_a_resized_window_shows_prompt_and_line_once():
    with chatting(columns=60) as chat:
        chat.terminal.wait("\n>")
        resize_and_see(chat.terminal, 50)
        assert chat.terminal.text().splitlines()[-1] == ">"
        chat.terminal.send("abc")
        chat.terminal.wait("> abc")
        resize_and_see(chat.terminal, 70)
        assert chat.terminal.text().splitlines()[-1] == "> abc"
        assert chat.terminal.text().count("\n>") == 1
        chat.say(" def\r", "abc def")


def test_words_wrap_and_markdown_is_shown():
    answer = ("# Rivers\n\nThe **Rhine** flows through `Basel` and five more cities that need another line.\n\n"
              "| River | Length |\n|---|---|\n| Rhine | 1233 |\n| Aare | 288 |\n\n```python\nprint('*x*')\n```\n- one\n- two")
    with chatting(answers=[answer], columns=40) as chat:
        chat.say("tell\r", "tell")
        text = chat.terminal.text()
        for part in ("\nRivers\n", "The Rhine flows through Basel and five\nmore cities that need another line.\n",
                     "River │ Length\n──────┼───────\nRhine │ 1233\n", "```python\nprint('*x*')\n```\n", "• one\n• two\n"):
            assert part in text, (part, text)
        line = next(i for i, one in enumerate(chat.terminal.screen.display) if one.startswith("The Rhine"))
        assert chat.terminal.screen.buffer[line][5].bold and not chat.terminal.screen.buffer[line][0].bold
    for plain in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        with chatting(answers=["a **b** c"], **plain) as chat:
            chat.terminal.send("x\r")
            chat.terminal.wait("a **b** c")


def test_escapes_of_a_model_do_not_act():
    with chatting(answers=["a\x1b]0;title\x07b \x1b[31mred\x9b31m `\x1b[2J`"]) as chat:
        chat.say("x\r", "x")
        assert b"\x1b]0" not in chat.terminal.raw and b"\x1b[31m" not in chat.terminal.raw and b"\x1b[2J`" not in chat.terminal.raw


def test_commands_are_answered():
    with tempfile.TemporaryDirectory() as folder, chatting("--temp", "0.5", answers=["first", "second", "third"]) as chat:
        chat.say("hello\r", "hello")
        chat.say("/regenerate\r", "hello")
        assert [m["content"] for m in chat.server.bodies[-1]["messages"]] == ["hello"], chat.server.bodies[-1]
        chat.command("/set temperature 0.9", "> ")
        chat.command("/set", "temperature          0.9")
        chat.command("/set nonsense 1", "top_p, top_k")
        chat.command("/set temperature hot", "is a number")
        chat.command("/set max_tokens 12", "> ")
        chat.command("/think off", "> ")
        saved = os.path.join(folder, "talk.json")
        chat.command(f"/save {saved}", "2 messages are in")
        chat.command(f"/save {saved}", "is there already")
        chat.say("more\r", "more")
        body = chat.server.bodies[-1]
        assert body["temperature"] == 0.9 and body["max_tokens"] == 12 and body["chat_template_kwargs"] == {"enable_thinking": False}, body
        assert [m["content"] for m in body["messages"]] == ["hello", "second", "more"], body
        chat.command("/undo", "taken back")
        chat.say("other\r", "other")
        assert [m["content"] for m in chat.server.bodies[-1]["messages"]] == ["hello", "second", "other"]
        chat.command("/clear", "> ")
        chat.command(f"/load {saved}", "2 messages")
        chat.say("on\r", "on")
        assert [m["content"] for m in chat.server.bodies[-1]["messages"]] == ["hello", "second", "on"]
        chat.command("/load /nowhere", "/nowhere")
        chat.command("/undo", "taken back")
        chat.command("/bogus", "unknown command /bogus")
        chat.command("/image", "usage: /image FILE")


def test_a_stopped_program_goes_on():
    """As by Ctrl-Z and `fg`: the shell leaves the terminal in a mode of its own."""
    with chatting() as chat:
        chat.terminal.send("half")
        chat.terminal.wait("> half")
        mode = termios.tcgetattr(chat.terminal.fd)
        os.kill(chat.terminal.pid, signal.SIGSTOP)
        cooked = list(mode)
        cooked[3] |= termios.ICANON | termios.ECHO
        termios.tcsetattr(chat.terminal.fd, termios.TCSANOW, cooked)
        before = chat.prompts()
        os.kill(chat.terminal.pid, signal.SIGCONT)
        chat.terminal.wait(lambda: chat.prompts() > before and not termios.tcgetattr(chat.terminal.fd)[3] & termios.ICANON)
        chat.say(LEFT + "ü\r", "halüf")


def test_an_answer_that_fails_loses_nothing():
    with chatting(answers=["first"]) as chat:
        chat.say("hello\r", "hello")
        chat.server.server_close()
        chat.server.shutdown()
        chat.command("/regenerate", "no server answers")
        with tempfile.TemporaryDirectory() as folder:
            chat.command(f"/save {folder}/x", "2 messages are in")


def test_an_answer_that_was_cut_says_so():
    with chatting("-n", "7", answers=[("half an", "length")]) as chat:
        chat.say("x\r", "x")
        assert "cut after 7 tokens" in chat.terminal.text(), chat.terminal.text()


def test_every_way_to_leave_leaves():
    for keys in ("exit\r", "quit\r", "/exit\r", "/bye\r", "\x04"):
        with chatting() as chat:
            chat.terminal.send(keys)
            chat.terminal.wait(lambda: os.waitpid(chat.terminal.pid, os.WNOHANG) != (0, 0))
            chat.terminal.pid, chat.terminal.close = None, lambda fd=chat.terminal.fd: os.close(fd)
    with chatting() as chat:
        chat.terminal.send("text\x04")  # deletes nothing, and does not leave
        chat.say("\r", "text")
        prompts = chat.prompts()
        chat.terminal.send("half\x03")
        chat.prompt(prompts + 1)
        chat.say("whole\r", "whole")


def test_pipes_get_what_was_said():
    with chatting() as chat:
        url = f"http://127.0.0.1:{chat.server.server_address[1]}"
        chat.server.answers += ["a **b**\n| x |\n|---|\n", "second"]
        out = subprocess.run([paths.PROGRAM, "chat", "--url", url], input='"""one\ntwo"""\nthree \\\nfour\n', capture_output=True, text=True, timeout=300)
        assert out.stdout == "a **b**\n| x |\n|---|\n\nsecond\n", out.stdout
        assert [b["messages"][-1]["content"] for b in chat.server.bodies] == ["one\ntwo", "three \nfour"]
        for text, message in (("dir\\", "dir\\"), ('"""one\ntwo', "one\ntwo")):  # a pipe that ends in the middle
            chat.server.bodies.clear()
            subprocess.run([paths.PROGRAM, "chat", "--url", url], input=text, capture_output=True, text=True, timeout=300)
            assert [b["messages"][-1]["content"] for b in chat.server.bodies] == [message], chat.server.bodies
