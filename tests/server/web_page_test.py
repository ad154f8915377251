"""The web page in headless Chromium with a server that plays its part from a script (web_real_test.py has the real one)."""

import os
import tempfile

from selenium.webdriver.common.keys import Keys

import pytest

from harness.waiting import stays
from web_fake_answer import CUT, VERSION

pytestmark = pytest.mark.any_model


def test_a_message_is_sent_and_answered(page):
    b = page.b
    page.fresh()
    b.ask("hello")
    assert [kind for kind, _ in b.turns()] == ["user", "answer"]
    b.see("You said: hello.", "#turns")
    assert b.focused().get_attribute("id") == "message"
    assert "93 % of the prompt from the cache" in b.text(".meta")
    body = page.fake.bodies[-1]
    assert body["store"] is False and "conversation" not in body and body["stream"] is True
    b.ask("and again")
    assert [item.get("role") for item in page.fake.bodies[-1]["input"]] == ["user", "assistant", "user"]
    assert not any(path.startswith("POST /v1/sessions") for path in page.fake.paths)
    page.clean()


def test_an_answer_streams_and_stops(page):
    b = page.b
    page.fresh()
    b.send("slow")
    b.until(lambda: 5 < b.text(".answer .prose").count("word") < 3995, what="a part of the answer")
    b.press(Keys.ESCAPE)
    b.done()
    count = b.text(".answer .prose").count("word")
    assert count < 3995, count
    b.see("not finished", ".meta")
    stays(lambda: b.text(".answer .prose").count("word") == count, "no words come after the stop")
    page.clean()


def test_answers_are_made_again_as_versions(page):
    b = page.b
    for keep in (False, True):
        page.fresh(keep)
        b.ask("hello")
        first = b.text(".answer .prose")
        b.button("Generate this answer again").click()
        b.until(lambda: b.text(".siblings") and "2/2" in b.text(".siblings"))
        b.done()
        second = b.text(".answer .prose")
        assert first != second
        b.button("Previous version").click()
        b.until(lambda: b.text(".answer .prose") == first)
        b.see("1/2", ".siblings")
        b.press(("alt", "."))
        b.until(lambda: b.text(".answer .prose") == second)
        if keep:
            body = page.fake.bodies[-1]
            assert body["input"] == [] and body["conversation"]["parent"], body
    page.clean()


def test_an_edited_message_is_a_version(page):
    b = page.b
    for keep in (False, True):
        page.fresh(keep)
        b.ask("one")
        b.ask("two")
        b.button("Edit this message", "#turns > li:nth-child(1)").click()
        area = b.one(".editing textarea")
        area.clear()
        area.send_keys("other", Keys.CONTROL, Keys.ENTER)
        b.see("You said: other.")
        b.done()
        assert len(b.turns()) == 2
        b.see("2/2", ".siblings")
        if keep:
            assert page.fake.bodies[-1]["conversation"]["parent"] is None
        b.button("Previous version", ".user").click()
        b.see("You said: two.")
        assert len(b.turns()) == 4
    page.clean()


def test_a_conversation_is_branched(page):
    b = page.b
    for keep in (False, True):
        page.fresh(keep)
        b.ask("one")
        b.ask("two")
        before = b.js("return location.hash")
        b.js("arguments[0].click()", b.all("#turns > li:nth-child(2) [aria-label^=Branch]")[0])
        b.until(lambda: b.js("return location.hash") not in ("", before))
        b.until(lambda: len(b.turns()) == 2)
        b.see("(branch)", "#title")
        b.ask("three")
        b.see("You said: three.")
        assert "two" not in b.text("#turns")
        b.until(lambda: len(b.all("#conversations li")) == 2)
    page.clean()


def test_a_reload_resumes_the_conversation(page):
    b = page.b
    for keep in (False, True):
        page.fresh(keep)
        b.ask("hello")
        before = b.text(".answer .prose")
        b.one("#message").send_keys("a draft that is not sent")
        b.driver.refresh()
        b.until(lambda: b.text(".answer .prose") == before, what="the same conversation")
        assert b.one("#message").get_attribute("value") == "a draft that is not sent"
        b.one("#message").clear()
        b.ask("more")
        assert len(b.turns()) == 4
        if keep:
            body = page.fake.bodies[-1]
            assert len(body["input"]) == 1 and body["conversation"]["id"] in page.fake.sessions
    page.clean()


def test_a_reload_in_the_middle_of_an_answer_loses_nothing(page):
    b = page.b
    page.fresh()
    b.send("slow")
    b.until(lambda: b.text(".answer .prose").count("word") > 10)
    b.driver.refresh()
    b.see("word", ".answer .prose")
    b.see("not finished", ".meta")
    b.ask("go on")
    page.clean()


def test_another_conversation_may_be_opened_in_the_middle_of_an_answer(page):
    b = page.b
    for keep in (False, True):
        page.fresh(keep)
        b.send("slow")
        b.until(lambda: b.text(".answer .prose").count("word") > 10)
        b.press(("alt", "n"))
        b.see("What can I do for you?")
        b.ask("hello")
        b.see("You said: hello.")
        assert len(b.turns()) == 2
        b.until(lambda: len(b.all("#conversations li")) == 2)
        b.js("[...document.querySelectorAll('#conversations a')].find((one) => one.innerText.startsWith('slow')).click()")
        b.see("word", ".answer .prose")
        b.see("not finished", ".meta")
        b.send("slow")
        b.until(lambda: b.text("#turns > li:last-child .prose").count("word") > 10)
        b.press(("alt", "o"))
        b.button("Delete").click()
        b.button("Delete for good").click()
        b.see("What can I do for you?")
        b.until(lambda: len(b.all("#conversations li")) == 1)
        stays(lambda: len(b.all("#conversations li")) == 1, "the deleted conversation does not come back", 1)
    page.clean(["404"])


def test_thoughts_are_folded(page):
    b = page.b
    page.fresh()
    b.ask("think")
    assert "First this" not in b.text("#turns")
    b.see("Thought for ", ".thought")
    b.see("40 tokens", ".thought")
    b.click(".thought summary")
    b.see("First this, then that.", ".thought .prose")
    assert b.text(".parts > .prose strong") == "end"
    page.clean()


def test_a_tool_runs_only_after_consent(page):
    b = page.b
    page.fresh(tools=True)
    b.ask("time")
    assert page.fake.bodies[-1]["tools"] == [{"type": "mcp", "server_label": "time", "require_approval": "always"}]
    b.see('"zone": "UTC"', ".consent")
    b.press(Keys.ENTER)  # meant for the message field: nothing is allowed by it
    stays(lambda: len(page.fake.bodies[-1]["input"]) == 1, "no answer is sent")
    b.press(Keys.TAB, Keys.TAB)  # past the arguments
    assert b.focused().text == "Allow once"
    b.press(Keys.ENTER)
    b.see("It is 14:05.")
    b.done()
    assert page.fake.bodies[-1]["input"][-1]["approve"] is True
    b.click(".tool summary")
    b.see("14:05", ".tool-body")
    b.ask("time")
    b.button("Never").click()
    b.see("Then I cannot tell.")
    b.done()
    assert page.fake.bodies[-1]["input"][-1]["approve"] is False
    b.ask("time")
    b.see("Then I cannot tell.", "#turns > li:last-child")  # answered by itself
    assert page.fake.bodies[-2]["tools"][0]["allowed_tools"] == []
    b.click("#settings")
    b.see("never allowed", "#settings-body")
    b.button("Ask again for now").click()
    b.button("Done").click()
    b.ask("time")
    b.button("Always allow this tool").click()
    b.done()
    b.ask("hello")
    assert page.fake.bodies[-1]["tools"][0]["require_approval"] == {"never": {"tool_names": ["now"]}}
    page.clean()


def test_a_kept_conversation_keeps_the_consent_and_the_call(page):
    b = page.b
    page.fresh(keep=True, tools=True)
    b.ask("time")
    b.button("Allow once").click()
    b.see("It is 14:05.")
    b.done()
    body = page.fake.bodies[-1]
    assert [item["type"] for item in body["input"]] == ["mcp_approval_response"] and body["conversation"]["id"]
    b.driver.refresh()
    b.see("It is 14:05.")
    b.see("time: now", ".tool")
    page.clean()


def test_settings_go_into_requests(page):
    b = page.b
    page.fresh()
    b.press(("alt", "s"))
    b.one("#set-instructions").send_keys("Be brief.")
    for name, value in (("temperature", "0.5"), ("top_p", "0.9"), ("top_k", "40"), ("min_p", "0.05"), ("max_output_tokens", "100"),
                        ("seed", "7"), ("max_thinking_tokens", "64")):
        b.one(f"#set-{name}").send_keys(value)
    b.one("#set-thinking").send_keys("Always")
    b.one("#set-speculation").send_keys("Off")
    b.one("#set-seed").send_keys(".5", Keys.TAB)
    b.see("A whole number from 0", "#settings-body")
    b.one("#set-seed").send_keys(Keys.BACKSPACE, Keys.BACKSPACE, Keys.TAB)
    b.press(Keys.ESCAPE)
    b.until(lambda: not b.all("dialog[open]"))
    b.one("#model").send_keys("fake-1b")
    b.ask("hello")
    body = page.fake.bodies[-1]
    expected = {"instructions": "Be brief.", "temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.05, "max_output_tokens": 100,
                "seed": 7, "max_thinking_tokens": 64, "enable_thinking": True, "speculation": "off", "model": "fake-1b"}
    assert {name: body.get(name) for name in expected} == expected, body
    b.driver.refresh()
    b.see("You said: hello.")
    b.ask("again")
    assert page.fake.bodies[-1]["temperature"] == 0.5
    page.clean()


def test_a_key_is_asked_for_and_sent(page):
    b = page.b
    page.fresh()
    page.fake.key = "secret"
    b.send("hello")
    field = b.one("#key-dialog[open] #key-field")
    field.send_keys("wrong", Keys.ENTER)
    b.see("does not know that key", "#key-dialog")
    b.one("#key-field").send_keys("secret", Keys.ENTER)
    b.see("You said: hello.")
    b.done()
    assert b.js("return sessionStorage.getItem('anabranch.key')") == "secret"
    assert b.js("return localStorage.getItem('anabranch.key')") is None
    b.driver.refresh()
    b.see("You said: hello.")
    b.ask("again")
    assert not b.all("dialog[open]")
    page.clean(["401"])


def test_key_that_is_not_given(page):
    b = page.b
    page.fresh()
    page.fake.key = "secret"
    b.send("precious words")
    b.one("#key-dialog[open]")
    b.press(Keys.ESCAPE)
    b.see("none was given", ".notice")
    b.see("precious words", "#turns")
    b.button("Enter a key").click()
    b.one("#key-dialog[open] #key-field").send_keys("secret", Keys.ENTER)
    b.see("You said: precious words.")
    page.clean(["401"])


def test_a_server_that_is_gone_is_told(page):
    b = page.b
    page.fresh()
    b.ask("hello")
    port = page.fake.port
    page.fake.stop()
    b.send("precious words")
    b.see("The server does not answer", ".notice")
    b.see("precious words", "#turns")
    b.see("The server does not answer", "#gone")
    page.fake.start(port)
    b.until(lambda: b.one("#gone").get_attribute("hidden") is not None, what="the end of the banner")
    b.button("Try again").click()
    b.see("You said: precious words.")
    b.done()
    assert len(b.turns()) == 4
    page.clean(["ERR_CONNECTION_REFUSED", "Failed to load resource"])


def test_cut_and_failed_streams_are_told(page):
    b = page.b
    for keep in (False, True):
        page.fresh(keep)
        b.ask("cut")
        b.see("broke off in the middle", ".notice")
        b.see("Half of the ans", ".answer .prose")
        b.button("Generate again").click()
        b.see("2/2", ".siblings")
        b.done()
        b.ask("fail")
        b.see("The engine failed.", ".notice")
        b.button("Try again").click()
        b.done()
        b.ask("hello")
        b.see("You said: hello.")
    page.clean(["ERR_INCOMPLETE", "Failed to load resource"])


def test_a_kept_question_without_an_answer_is_not_asked_twice(page):
    b, fake = page.b, page.fake
    page.fresh(keep=True)
    b.ask("hello")
    b.ask("fail")
    [session] = fake.sessions.values()
    question = session["head"]
    b.button("Try again").click()
    b.until(lambda: len(fake.bodies[-1]["input"]) == 0)
    b.see("The engine failed.", ".notice")
    b.done()
    assert fake.bodies[-1]["conversation"] == {"id": session["id"], "parent": question}
    b.ask("and then")
    assert fake.bodies[-1]["conversation"]["parent"] == question and len(fake.bodies[-1]["input"]) == 1
    page.clean()


def test_an_attempt_of_which_nothing_comes_replaces_no_answer(page):
    b, fake, script = page.b, page.fake, page.fake.script
    page.fresh(keep=True)
    b.ask("hello")
    first = b.text(".answer .prose")
    fake.script = lambda said, body: [CUT]
    try:
        b.button("Generate this answer again").click()
        b.see("broke off in the middle", ".notice")
        b.done()
    finally:
        fake.script = script
    b.see("2/2", ".siblings")
    b.button("Previous version").click()
    b.until(lambda: b.text(".answer .prose") == first)
    page.clean(["ERR_INCOMPLETE", "Failed to load resource"])


def test_busy_server_is_tried_again(page):
    b = page.b
    page.fresh()
    page.fake.failures = [(429, [("Retry-After", "1")], "Too many requests wait", "queue_full"),
                          (503, [("Retry-After", "60")], "The server is shutting down", "shutting_down")]
    b.send("hello")
    b.see("Too many requests wait. Trying again in 1 second.", ".notice")
    b.see("The server is shutting down. Trying again in 60 seconds.", ".notice")
    b.button("Try now").click()
    b.see("You said: hello.")
    b.done()
    assert len(b.turns()) == 2 and not b.text(".notice")
    page.clean(["429", "503"])


def test_a_session_that_was_deleted_elsewhere_is_told(page):
    b = page.b
    page.fresh(keep=True)
    b.ask("hello")
    page.fake.sessions.clear()
    b.send("precious words")
    b.see("no longer on the server", ".notice")
    b.button("Go on without the server's copy").click()
    b.see("You said: precious words.")
    b.done()
    assert [item.get("role") for item in page.fake.bodies[-1]["input"]] == ["user", "assistant", "user"]
    b.see("only in this tab", "#kept-note")
    b.driver.get(page.fake.url + "#conv_nothing")
    b.see("That conversation is not here", "#toast")
    page.clean(["404"])


def test_a_server_without_sessions_is_told(page):
    b = page.b
    page.fresh()
    page.fake.sessions_on = False
    b.click("#keep")
    b.send("hello")
    b.see("keeps no sessions", ".notice")
    b.click("#keep")
    b.button("Try again").click()
    b.see("You said: hello.")
    page.clean(["404"])


def test_waiting_is_explained(page):
    b = page.b
    page.fresh()
    page.fake.state = "loading"
    b.send("wait")
    b.see("The model is being loaded", ".waiting")
    page.fake.state = "loaded"
    b.done()
    b.see("Here it is.")
    page.clean()


def test_the_list_of_conversations_is_searched_renamed_and_shortened(page):
    b = page.b
    for keep in (False, True):
        page.fresh(keep)
        for said in ("alpha beta", "gamma delta"):
            b.click("#new")
            b.ask(said)
        b.until(lambda: len(b.all("#conversations li")) == 2)
        b.one("#search").send_keys("alpha")
        b.until(lambda: len(b.all("#conversations li")) == 1)
        b.click("#conversations a")
        b.see("You said: alpha beta.")
        b.click("#conversations li .icon-button")
        b.one("#options-title").clear()
        b.one("#options-title").send_keys("Renamed", Keys.ENTER)
        b.see("Renamed", "#title")
        b.one("#search").clear()
        b.one("#search").send_keys(" ", Keys.BACKSPACE)
        b.until(lambda: len(b.all("#conversations li")) == 2)
        b.press(("alt", "o"))
        b.button("Delete").click()
        b.button("Delete for good").click()
        b.until(lambda: len(b.all("#conversations li")) == 1)
        b.see("What can I do for you?")
    page.clean()


def test_conversations_are_exported_and_imported(page):
    b = page.b
    with tempfile.TemporaryDirectory() as folder:
        b.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": folder})
        for keep in (False, True):
            page.fresh(keep)
            b.ask("hello")
            path = b.export_and_import(folder, "hello")
            b.see("You said: hello.", "#turns")
            os.remove(path)
    page.clean()


def test_everything_works_by_keyboard(page):
    b = page.b
    page.fresh()
    b.press("hello", Keys.ENTER)
    b.see("You said: hello.")
    b.done()
    b.press(("alt", "r"))
    b.see("2/2", ".siblings")
    b.done()
    b.press(("alt", ","))
    b.see("1/2", ".siblings")
    b.press(("alt", "e"))
    assert b.focused().get_attribute("aria-label") == "Edit the message"
    b.press(Keys.ESCAPE)
    b.press(("alt", "/"))
    b.see("Generate the last answer again", "#shortcuts-dialog")
    b.press(Keys.ESCAPE)
    b.press(("alt", "n"))
    b.see("What can I do for you?")
    b.press(("alt", "k"))
    assert b.focused().get_attribute("id") == "search"
    b.press(Keys.TAB, Keys.ENTER)  # the first conversation
    b.see("You said: hello.")
    b.press(("alt", "t"))
    assert b.js("return document.documentElement.dataset.theme") == "light"
    seen = set()
    for _ in range(40):
        b.press(Keys.TAB)
        one = b.focused()
        name = one.get_attribute("aria-label") or one.text or one.get_attribute("id")
        assert one.is_displayed() or one.get_attribute("id") == "skip", name
        seen.add(name)
    assert {"Settings", "Model", "Attach text files", "Copy this answer"} <= seen, seen
    page.clean()


def test_the_page_fits_a_narrow_window(page):
    b = page.b
    page.fresh()
    b.size(360, 740)
    try:
        b.driver.refresh()
        b.ask("hello " + "w" * 200)
        b.see("You said", "#turns")
        assert b.js("return document.documentElement.scrollWidth") == 360
        assert b.js("return document.querySelector('#scroll').scrollWidth <= document.querySelector('#scroll').clientWidth")
        b.click("#open-sidebar")
        b.until(lambda: b.one("#search").is_displayed())
        b.until(lambda: b.js("return document.getAnimations().length === 0"), what="the end of the animation")
        assert b.js("return document.querySelector('#main').inert")
        assert not b.accessibility(), b.accessibility()
        b.press(Keys.ESCAPE)
        b.until(lambda: not b.one("#search").is_displayed())
        b.click("#settings")
        assert b.js("return document.querySelector('#settings-dialog').scrollWidth") <= 360
        b.press(Keys.ESCAPE)
        for selector in ("#send", "#attach", "#settings", "#theme", "#open-sidebar"):
            box = b.one(selector).rect
            assert box["x"] >= 0 and box["x"] + box["width"] <= 360 and box["width"] >= 32, (selector, box)
    finally:
        b.size(1280, 860)
    page.clean()


def test_the_page_is_accessible(page):
    b = page.b
    for scheme in ("light", "dark"):
        b.media(prefers_color_scheme=scheme, prefers_reduced_motion="reduce")
        page.fresh(tools=True)
        found = b.accessibility()
        b.ask("think")
        b.click(".thought summary")
        b.ask("time")
        found += b.accessibility()
        for button in ("settings", "shortcuts"):
            b.click("#" + button)
            found += b.accessibility()
            b.press(Keys.ESCAPE)
        b.press(("alt", "o"))
        found += b.accessibility()
        b.open(page.fake.url + "status", "summary")
        b.see("fake-7b", "#models")
        found += b.accessibility()
        assert not found, (scheme, found)
    b.media()
    page.clean()


def test_the_status_page_tells_what_runs(page):
    b = page.b
    page.fresh()
    page.fake.key = "secret"
    page.fake.health = {"running": 3, "queued": 2}
    b.open(page.fake.url + "status", "summary")
    b.one("#key-dialog[open] #key-field").send_keys("secret", Keys.ENTER)
    for part, where in ((f"version {VERSION}", "#summary"), ("fake-7b", "#models"), ("3 run, 2 wait", "#plots"), ("time", "#mcp"), ("88 B", "#calls"),
                        ("the rest of the prompt is new", "#cache"), ("5.0 GiB", "#device")):
        b.see(part, where)
    page.clean(["401"])


def test_a_megabyte_stays_smooth(page):
    b = page.b
    page.fresh()
    b.js("window.longest = 0; new PerformanceObserver((list) => { for (const one of list.getEntries()) "
         "window.longest = Math.max(window.longest, one.duration); }).observe({type: 'longtask', buffered: false})")
    b.ask("long")
    b.until(lambda: "Paragraph 25999" in b.js("return document.querySelector('.answer .prose').textContent.slice(-60)"), what="the whole text")
    longest = b.js("return window.longest")
    assert longest < 1500 * b.slowness(), f"the page stood still for {longest:.0f} ms"
    page.clean()
