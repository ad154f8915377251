"""The answers that tests of the web page want from its server, and the page that shows them."""

from web_fake_answer import CUT, FAIL, approval, call, text, thought, wait
from web_fake_server import Fake

TIME_TOOL = {"name": "now", "description": "The time", "input_schema": {"type": "object"}}
MCP = [{"id": "time", "object": "mcp_server", "transport": "stdio", "state": "connected", "tools": [TIME_TOOL]}]


class Script:
    """What the scripted server answers to a text. Each answer to ordinary words is another one."""

    def __init__(self):
        self.answers = 0

    def __call__(self, said, body):
        self.answers += 1
        approvals = [item for item in body["input"] if item.get("type") == "mcp_approval_response"]
        if approvals and body["input"][-1] is approvals[-1]:
            return [call("time", "now", '{"zone": "UTC"}', "14:05"), text("It is 14:05.")] if approvals[-1]["approve"] else [
                text("Then I cannot tell.")]
        if said == "slow":
            return [text("word " * 4000, 2000, 0.05)]  # longer than any test needs
        if said == "wait":
            return [wait(1.5), text("Here it is.")]
        if said == "think":
            return [thought("First this, then that. " * 5, 0.02), text("The **end**.")]
        if said == "cut":
            return [text("Half of the ans"), wait(0.3), CUT]
        if said == "fail":
            return [FAIL]
        if said == "time":
            return [approval("time", "now", '{"zone": "UTC"}')]
        if said == "long":
            return [text("".join(f"Paragraph {n} with some **words**.\n\n" for n in range(26000)), 300)]
        return [text(f"You said: {said}. Answer {self.answers}.")]


class Scripted:
    """The page of the scripted server in a browser."""

    def __init__(self, browser):
        self.b = browser
        self.fake = Fake(Script(), MCP).start()

    def fresh(self, keep=False, tools=False):
        fake = self.fake
        fake.key, fake.failures, fake.sessions, fake.sessions_on, fake.state = None, [], {}, True, "loaded"
        fake.paths.clear()
        fake.health = {"running": 0, "queued": 0}
        self.b.open(fake.url)
        self.b.see("fake-7b", "#model")
        if keep:
            self.b.click("#keep")
        if tools:
            self.b.click("#settings")
            self.b.click("#tool-time")
            self.b.button("Done").click()

    def clean(self, allowed=()):
        found = self.b.problems(allowed)
        assert not found, found
