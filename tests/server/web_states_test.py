"""What the page says of the server's state and of how answers ended, in headless Chromium with a scripted server."""

import pytest

from harness.waiting import stays
from web_fake_answer import ending, text
from web_fake_server import Fake

pytestmark = pytest.mark.any_model


def script(said, body):
    if said == "loop":
        return [text("again and again and again"), ending(cut="answer_loop")]
    if said == "length":
        return [text("a beginning"), ending("incomplete", "max_output_tokens")]
    return [text(f"You said: {said}.")]


class States:
    def __init__(self, browser):
        self.b = browser
        self.fake = None

    def open(self, **state):
        if self.fake:
            self.fake.stop()
        self.fake = Fake(script)
        for name, value in state.items():
            setattr(self.fake, name, value)
        self.b.open(self.fake.start().url)

    def clean(self, allowed=()):
        found = self.b.problems(allowed)
        assert not found, found


PAGE = States


def test_kept_conversations_are_listed_with_the_switch_off(page):
    b = page.b
    page.open()
    b.see("nothing is stored", "#keep-hint")
    for n in range(3):
        session = page.fake.new_session(f"Kept {n}")
        page.fake.add(session, None, role="user", content="hello")
    b.driver.refresh()
    b.see("Kept 2", "#conversations")
    assert b.js("return document.querySelector('#keep').checked") is False
    assert "No conversations yet" not in b.text("#sidebar")
    b.see("The ones listed by day are stored", "#keep-hint")
    b.ask("hi")
    b.see("Only in this tab", "#conversations")
    assert not any(path.startswith("POST /v1/sessions") for path in page.fake.paths)
    b.click("#keep")
    b.see("On: new conversations are stored", "#keep-hint")
    b.one("#search").send_keys("Kept 1")
    b.until(lambda: len(b.all("#conversations li")) == 1)
    b.click("#conversations a")
    b.see("kept on this server", "#kept-note")
    page.clean()


def test_a_server_that_keeps_nothing(page):
    b = page.b
    page.open(sessions_on=False)
    b.see("This server keeps no conversations", "#keep-hint")
    b.ask("hello")
    b.ask("hello again")
    # When the page opens and when the models are known, but not again with each answer.
    assert sum(path.startswith("GET /v1/sessions") for path in page.fake.paths) <= 2, page.fake.paths
    assert not b.text("#list-note")
    page.clean(["404"])


def test_why_an_answer_ended(page):
    b = page.b
    page.open()
    b.ask("loop")
    b.see("Stopped here because the answer repeated itself.", ".ending")
    b.ask("length")
    b.see("Stopped here at the limit of tokens", ".ending")
    b.ask("hello")
    assert not b.text("#turns > li:last-child .ending").strip()
    page.clean()


def test_lasting_failures_are_not_tried_again(page):
    b = page.b
    page.open()
    page.fake.failures = [(503, [("Retry-After", "1")], "The model 'fake-7b' cannot be loaded: no room", "model_not_loaded"),
                          (403, [], "Not allowed", "forbidden")]
    for reason in ("cannot be loaded: no room", "Not allowed"):
        b.send("hello")
        b.see(reason, ".notice")
        b.button("Try again")
        assert "Trying again" not in b.text(".notice")
    count = len(page.fake.bodies)
    stays(lambda: len(page.fake.bodies) == count, "it is not tried again", 1.5)
    page.clean(["503", "403"])


def test_a_server_that_does_not_tell_what_it_does(page):
    b = page.b
    for status in (403, 404):
        page.open(health_status=status)
        b.ask("hello")
        b.js("document.querySelector('.activity').open = true")
        b.see("does not tell what it is doing", "#plots")
        count = page.fake.paths.count("GET /health")
        stays(lambda: page.fake.paths.count("GET /health") == count, "it is not asked again", 6)
    page.clean(["403", "404"])


def test_a_model_without_a_chat_template(page):
    b = page.b
    page.open(chat=False)
    b.see("continues texts", "#model")
    b.see("it continues what you write", "#welcome")
    assert b.one("#message").get_attribute("placeholder") == "Write the beginning of a text"
    b.click("#keep")
    b.ask("There")
    b.see("was a river.", ".answer")
    b.see("limit of tokens", ".ending")
    body = page.fake.bodies[-1]
    assert body["prompt"] == "There" and body["stream"] and body["max_tokens"] > 0, body
    b.see("only in this tab", "#kept-note")
    b.ask("And then")
    assert page.fake.bodies[-1]["prompt"] == "There was a river.\nAnd then", page.fake.bodies[-1]
    page.clean()


def test_settings_show_what_is_in_force(page):
    b = page.b
    page.open()
    b.see("fake-7b", "#model")
    b.click("#settings")
    shown = {name: b.one(f"#set-{name}").get_attribute("placeholder") for name in ("temperature", "top_p", "top_k", "min_p", "max_output_tokens")}
    assert shown == {"temperature": "0.6 (default)", "top_p": "0.95 (default)", "top_k": "20 (default)", "min_p": "0 (default)",
                     "max_output_tokens": "up to the context of 32,768"}, shown
    page.clean()
