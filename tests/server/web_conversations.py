"""The conversations that are recorded and replayed: the settings, the servers behind them, and what is done on the page."""

import dataclasses
import json
import os
import sys
import tempfile
from collections.abc import Callable

from selenium.webdriver.common.keys import Keys

import vision_model
from harness import paths
from pictures import png
from web_browser import WAIT
from web_recorder import Pause
from web_recording import answers, items_of

MCP_SERVER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "mcp", "fake_server.py")
GREEDY = {"temperature": 0, "seed": 1, "thinking": "off", "max_output_tokens": 10, "speculation": "off"}
DRAFTS = {"speculation": ""}  # the server's own choice
ROOM = {"max_output_tokens": 100}  # for a call and what follows it
ECHO = {"tool_choice": {"type": "function", "name": "tools__echo"}}
QUESTION = "Please echo the text good morning."
MADE_UP = {"type": "function", "name": "delete_everything", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}


@dataclasses.dataclass
class Conversation:
    drive: Callable                # what is done on the page, given its Browser and the server (Recorder or Replay)
    settings: dict                 # of the page
    keep: bool = False             # whether the server keeps the conversation
    mcp: str = ""                  # the mode of the server of tools (fake_server.py)
    mcp_timeout: int = 60          # of its calls, in seconds
    consent: str = ""              # what the user said earlier about the tool "echo"
    model: str = "chat"            # or "base": without a chat template; "sees": reads images
    flags: tuple = ()              # of the server
    pauses: dict = dataclasses.field(default_factory=dict)  # number of the stream -> Pause
    notice: str = ""               # what the page says below the last answer
    console: tuple = ()            # parts of messages of the browser that it provokes

    def remembered(self):
        tools = {"tools": ["tools"]} if self.mcp else {}
        consent = {"consent": json.dumps({json.dumps(["tools", "echo"], separators=(",", ":")): self.consent})} if self.consent else {}
        return {"settings": json.dumps(GREEDY | self.settings | tools), "keep": "yes" if self.keep else "no"} | consent

    def mcp_config(self):
        about = {"command": sys.executable, "args": ["-u", MCP_SERVER, self.mcp, "one"], "timeout": self.mcp_timeout}
        return {"mcpServers": {"tools": about} if self.mcp else {}}

    def in_short(self):
        """The same, where a tool that never answers is given up soon."""
        return dataclasses.replace(self, mcp_timeout=1) if self.mcp == "hang-call" else self


def model_of(conversation, folder):
    if conversation.model == "sees":
        return vision_model.make(paths.TRAINED, str(folder / "hybrid-146m"))
    if conversation.model == "chat":
        return paths.TRAINED
    base = folder / "hybrid-146m"
    base.mkdir()
    for name in os.listdir(paths.TRAINED):
        if name not in ("tokenizer_config.json", "chat_template.jinja"):
            (base / name).symlink_to(os.path.join(paths.TRAINED, name))
    return str(base)


def real_server(serve, conversation, folder):
    """The real server behind a conversation, with what it keeps in this folder."""
    config = folder / "mcp.json"
    config.write_text(json.dumps(conversation.mcp_config()))
    environment = {name: str(folder) for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME")}
    return serve("--context", "2048", "--threads", "2", "--sessions", folder / "sessions", "--mcp-config", config,
                 *conversation.flags, model=model_of(conversation, folder), environment=environment)


CONVERSATIONS = {}


def conversation(**about):
    def add(drive):
        CONVERSATIONS[drive.__name__] = Conversation(drive, about.pop("settings", {}), **about)
        return drive
    return add


def ask_for_echo(b):
    b.ask_with(ECHO)
    b.ask(QUESTION)


def allow_once(b):
    b.button("Allow once").click()
    b.until(lambda: b.text(".tool .state") == "done")
    b.done()


def words(b):
    b.until(lambda: b.text("#turns > li:last-child .prose").strip(), what="a part of the last answer")


def all_that_came(b, server):
    """Waits until the page shows what came before the first stream's pause."""
    assert server.paused.wait(WAIT)
    [item] = items_of(answers(server.exchanges)[0].events())
    text = "".join(part["text"] for part in item["content"])
    b.until(lambda: b.text("#turns > li:last-child .prose").split() == text.split(), what=text)


@conversation(settings=DRAFTS)
def plain(b, server):
    b.ask("What is the capital of France?")
    b.ask("What is the French word for summer?")


@conversation(settings={"max_output_tokens": 16})
def limit(b, server):
    """Signs of four bytes in the answer, and a limit that stands within one."""
    b.ask("Repeat: 😀 😀 😀 😀 😀 😀 😀 😀")
    b.see("limit of tokens", ".ending")


@conversation(settings={"thinking": "on", "max_thinking_tokens": 8, "max_output_tokens": 40})
def thoughts(b, server):
    b.ask("Say hello.")


@conversation(mcp="good", settings=ROOM | DRAFTS)
def consent(b, server):
    ask_for_echo(b)
    b.see("wants to run echo", ".consent")
    allow_once(b)


@conversation(mcp="good", settings=ROOM, keep=True)
def kept_question(b, server):
    """The page is read again while it asks, and again after the answer."""
    ask_for_echo(b)
    b.button("Allow once")
    b.driver.refresh()
    allow_once(b)
    b.driver.refresh()
    words(b)


@conversation(mcp="good", settings=ROOM)
def denied(b, server):
    ask_for_echo(b)
    b.button("Not now").click()
    words(b)
    b.done()


@conversation(mcp="good", consent="always", settings=ROOM, keep=True)
def habit(b, server):
    """A tool that runs without a question, in a conversation that the server keeps; it is read again."""
    ask_for_echo(b)
    b.until(lambda: b.text(".tool .state") == "done")
    b.driver.refresh()
    words(b)
    b.until(lambda: b.text(".tool .state") == "done")


@conversation(mcp="bad-json", consent="always", settings=ROOM, mcp_timeout=1)
def failed_tool(b, server):
    ask_for_echo(b)
    b.until(lambda: b.text(".tool .state") == "failed")


@conversation(mcp="hang-call", consent="always", settings={"max_output_tokens": 31}, mcp_timeout=16)
def slow_tool(b, server):
    """The server says that it still works, and then that the tool took too long. The limit stands right behind the call."""
    ask_for_echo(b)
    b.until(lambda: b.text(".tool .state") == "failed")


@conversation(mcp="good", consent="always", settings={"max_output_tokens": 30})
def cut_call(b, server):
    """The limit stands at the end of a call, which does not run then."""
    ask_for_echo(b)
    b.until(lambda: b.text(".tool .state") == "failed")
    b.see("limit of tokens", ".ending")


@conversation(mcp="good", settings={"max_output_tokens": 30})
def cut_question(b, server):
    """The limit stands at the end of a call that needs consent."""
    ask_for_echo(b)
    b.see("limit of tokens", ".ending")
    allow_once(b)


@conversation(mcp="exit-start")
def no_tools(b, server):
    b.ask("Say hello.")
    b.see("The tools of tools are not available", "#turns")


@conversation(settings=ROOM)
def made_up_tool(b, server):
    b.ask_with({"tool_choice": {"type": "function", "name": MADE_UP["name"]}}, [MADE_UP])
    b.ask("Say hello.")
    b.see("delete_everything, which is not among the tools", "#turns")


@conversation(pauses={0: Pause(10, "left")})
def stopped(b, server):
    b.send("List all integers from 1 to 2000.")
    all_that_came(b, server)
    b.press(Keys.ESCAPE)
    b.done()
    b.see("not finished", ".meta")
    b.ask("Say hello.")


@conversation(mcp="good", settings=ROOM, pauses={0: Pause(6, "left")})
def stopped_before_words(b, server):
    """Only the list of tools has come."""
    b.send("Say hello.")
    b.until(lambda: b.js("return !!document.querySelector('.tool-list-error')"), what="the list of tools")
    b.press(Keys.ESCAPE)
    b.done()
    b.button("Generate this answer again").click()
    words(b)
    b.done()
    assert not b.all(".siblings"), "an answer in which nothing came is no version"


@conversation(pauses={0: Pause(2, "left")}, keep=True)
def kept_and_stopped(b, server):
    """The server has the question, and nothing of the answer: the page leaves while the server reads the prompt."""
    b.driver.execute_cdp_cmd("Input.insertText", {"text": "a " * 700})
    b.press(Keys.ENTER)
    assert server.paused.wait(WAIT)
    b.press(Keys.ESCAPE)
    b.done()
    b.ask("Say hello.")
    b.driver.refresh()
    words(b)
    assert [kind for kind, _ in b.turns()] == ["user", "user", "answer"], b.turns()


@conversation(pauses={0: Pause(10, "broken")},
              console=("ERR_INCOMPLETE", "ERR_CONNECTION", "Failed to load resource"))
def broken(b, server):
    b.send("List all integers from 1 to 2000.")
    all_that_came(b, server)
    server.released.set()
    b.see("broke off in the middle", ".notice")
    b.done()
    b.button("Generate again").click()
    b.see("2/2", ".siblings")
    b.done()


@conversation(settings={"max_output_tokens": 1500}, pauses={0: Pause(10, "stopped")}, flags=("--drain-seconds", "0"),
              notice="The server is shutting down", console=("ERR_CONNECTION_REFUSED", "Failed to load resource"))
def shut_down(b, server):
    b.send("List all integers from 1 to 2000.")
    b.see("The server is shutting down", ".notice")
    b.done()


@conversation(settings={"instructions": "a " * 2200}, notice="context", console=("400",))
def too_long(b, server):
    b.send("Say hello.")
    b.see("context", ".notice")
    b.done()


@conversation(keep=True)
def again(b, server):
    b.ask("What is the capital of France?")
    b.button("Generate this answer again").click()
    b.see("2/2", ".siblings")
    b.done()
    b.driver.refresh()
    b.see("2/2", ".siblings")


@conversation(model="base", settings=DRAFTS)
def continued(b, server):
    b.see("continues texts", "#model")
    b.ask("The river")
    b.ask("The sea")


@conversation(model="sees", settings={"max_output_tokens": 8})
def image(b, server):
    b.until(lambda: b.one("#attach").get_attribute("aria-label") == "Attach text files and images")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "red.png")
        with open(path, "wb") as file:
            file.write(png())
        b.one("#file-input").send_keys(path)
        b.until(lambda: b.all("#files li"))
    b.ask("Which colour is this?")
