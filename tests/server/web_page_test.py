"""The web page in headless Chromium with a server that plays its part from a script (web_real_test.py has the real one):
python web_page_test.py BINARY MODEL (neither is used)"""

import os
import sys
import tempfile
import time

from selenium.webdriver.common.keys import Keys

from web_browser import Browser, run_cases
from web_fake_server import Fake
from web_script import MCP, Script


def pdf_with(words):
    """A PDF file of one page with these words."""
    drawing = f"BT /F1 24 Tf 72 700 Td ({words}) Tj ET" if words else "0 0 100 100 re f"
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
               "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
               f"<< /Length {len(drawing)} >>\nstream\n{drawing}\nendstream", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    out, places = "%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    return (f"{out}xref\n0 6\n0000000000 65535 f \n{table}trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n").encode()


class Scripted:
    """Cases with the scripted server."""

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

    def check_send_and_answer(self):
        b = self.b
        self.fresh()
        b.ask("hello")
        assert [kind for kind, _ in b.turns()] == ["user", "answer"]
        b.see("You said: hello.", "#turns")
        assert b.focused().get_attribute("id") == "message"
        assert "93 % of the prompt from the cache" in b.text(".meta")
        body = self.fake.bodies[-1]
        assert body["store"] is False and "conversation" not in body and body["stream"] is True
        b.ask("and again")
        assert [item.get("role") for item in self.fake.bodies[-1]["input"]] == ["user", "assistant", "user"]
        assert not any(path.startswith("POST /v1/sessions") for path in self.fake.paths)
        self.clean()

    def check_streams_and_stops(self):
        b = self.b
        self.fresh()
        b.send("slow")
        b.until(lambda: 5 < b.text(".answer .prose").count("word") < 395, what="a part of the answer")
        b.press(Keys.ESCAPE)
        b.done()
        count = b.text(".answer .prose").count("word")
        assert count < 395, count
        b.see("not finished", ".meta")
        time.sleep(0.4)
        assert b.text(".answer .prose").count("word") == count
        self.clean()

    def check_regenerate_and_versions(self):
        b = self.b
        for keep in (False, True):
            self.fresh(keep)
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
                body = self.fake.bodies[-1]
                assert body["input"] == [] and body["conversation"]["parent"], body
        self.clean()

    def check_edit(self):
        b = self.b
        for keep in (False, True):
            self.fresh(keep)
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
                assert self.fake.bodies[-1]["conversation"]["parent"] is None
            b.button("Previous version", ".user").click()
            b.see("You said: two.")
            assert len(b.turns()) == 4
        self.clean()

    def check_branch(self):
        b = self.b
        for keep in (False, True):
            self.fresh(keep)
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
        self.clean()

    def check_reload_resumes(self):
        b = self.b
        for keep in (False, True):
            self.fresh(keep)
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
                body = self.fake.bodies[-1]
                assert len(body["input"]) == 1 and body["conversation"]["id"] in self.fake.sessions
        self.clean()

    def check_reload_in_the_middle(self):
        b = self.b
        self.fresh()
        b.send("slow")
        b.until(lambda: b.text(".answer .prose").count("word") > 10)
        b.driver.refresh()
        b.see("word", ".answer .prose")
        b.see("not finished", ".meta")
        b.ask("go on")
        self.clean()

    def check_another_conversation_in_the_middle(self):
        b = self.b
        for keep in (False, True):
            self.fresh(keep)
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
            time.sleep(0.6)
            assert len(b.all("#conversations li")) == 1
        self.clean(["404"])

    def check_thoughts_are_folded(self):
        b = self.b
        self.fresh()
        b.ask("think")
        assert "First this" not in b.text("#turns")
        b.see("Thought for ", ".thought")
        b.see("40 tokens", ".thought")
        b.click(".thought summary")
        b.see("First this, then that.", ".thought .prose")
        assert b.text(".parts > .prose strong") == "end"
        self.clean()

    def check_consent(self):
        b = self.b
        self.fresh(tools=True)
        b.ask("time")
        assert self.fake.bodies[-1]["tools"] == [{"type": "mcp", "server_label": "time", "require_approval": "always"}]
        b.see('"zone": "UTC"', ".consent")
        b.press(Keys.ENTER)  # meant for the message field: nothing is allowed by it
        time.sleep(0.2)
        assert len(self.fake.bodies[-1]["input"]) == 1
        b.press(Keys.TAB, Keys.TAB)  # past the arguments
        assert b.focused().text == "Allow once"
        b.press(Keys.ENTER)
        b.see("It is 14:05.")
        b.done()
        assert self.fake.bodies[-1]["input"][-1]["approve"] is True
        b.click(".tool summary")
        b.see("14:05", ".tool-body")
        b.ask("time")
        b.button("Never").click()
        b.see("Then I cannot tell.")
        b.done()
        assert self.fake.bodies[-1]["input"][-1]["approve"] is False
        b.ask("time")
        b.see("Then I cannot tell.", "#turns > li:last-child")  # answered by itself
        assert self.fake.bodies[-2]["tools"][0]["allowed_tools"] == []
        b.click("#settings")
        b.see("never allowed", "#settings-body")
        b.button("Ask again for now").click()
        b.button("Done").click()
        b.ask("time")
        b.button("Always allow this tool").click()
        b.done()
        b.ask("hello")
        assert self.fake.bodies[-1]["tools"][0]["require_approval"] == {"never": {"tool_names": ["now"]}}
        self.clean()

    def check_consent_of_a_kept_conversation(self):
        b = self.b
        self.fresh(keep=True, tools=True)
        b.ask("time")
        b.button("Allow once").click()
        b.see("It is 14:05.")
        b.done()
        body = self.fake.bodies[-1]
        assert [item["type"] for item in body["input"]] == ["mcp_approval_response"] and body["conversation"]["id"]
        b.driver.refresh()
        b.see("It is 14:05.")
        b.see("time: now", ".tool")
        self.clean()

    def check_settings(self):
        b = self.b
        self.fresh()
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
        body = self.fake.bodies[-1]
        expected = {"instructions": "Be brief.", "temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.05, "max_output_tokens": 100,
                    "seed": 7, "max_thinking_tokens": 64, "enable_thinking": True, "speculation": "off", "model": "fake-1b"}
        assert {name: body.get(name) for name in expected} == expected, body
        b.driver.refresh()
        b.see("You said: hello.")
        b.ask("again")
        assert self.fake.bodies[-1]["temperature"] == 0.5
        self.clean()

    def check_key(self):
        b = self.b
        self.fresh()
        self.fake.key = "secret"
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
        self.clean(["401"])

    def check_key_that_is_not_given(self):
        b = self.b
        self.fresh()
        self.fake.key = "secret"
        b.send("precious words")
        b.one("#key-dialog[open]")
        b.press(Keys.ESCAPE)
        b.see("none was given", ".notice")
        b.see("precious words", "#turns")
        b.button("Enter a key").click()
        b.one("#key-dialog[open] #key-field").send_keys("secret", Keys.ENTER)
        b.see("You said: precious words.")
        self.clean(["401"])

    def check_server_gone(self):
        b = self.b
        self.fresh()
        b.ask("hello")
        port = self.fake.port
        self.fake.stop()
        b.send("precious words")
        b.see("The server does not answer", ".notice")
        b.see("precious words", "#turns")
        b.see("The server does not answer", "#gone")
        self.fake.start(port)
        b.until(lambda: b.one("#gone").get_attribute("hidden") is not None, what="the end of the banner")
        b.button("Try again").click()
        b.see("You said: precious words.")
        b.done()
        assert len(b.turns()) == 4
        self.clean(["ERR_CONNECTION_REFUSED", "Failed to load resource"])

    def check_cut_and_failed_streams(self):
        b = self.b
        for keep in (False, True):
            self.fresh(keep)
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
        self.clean(["ERR_INCOMPLETE", "Failed to load resource"])

    def check_busy_server_is_tried_again(self):
        b = self.b
        self.fresh()
        self.fake.failures = [(429, [("Retry-After", "1")], "Too many requests wait", "queue_full"),
                              (503, [("Retry-After", "60")], "The server is shutting down", "shutting_down")]
        b.send("hello")
        b.see("Too many requests wait. Trying again in 1 second.", ".notice")
        b.see("The server is shutting down. Trying again in 60 seconds.", ".notice")
        b.button("Try now").click()
        b.see("You said: hello.")
        b.done()
        assert len(b.turns()) == 2 and not b.text(".notice")
        self.clean(["429", "503"])

    def check_deleted_session(self):
        b = self.b
        self.fresh(keep=True)
        b.ask("hello")
        self.fake.sessions.clear()
        b.send("precious words")
        b.see("no longer on the server", ".notice")
        b.button("Go on without the server's copy").click()
        b.see("You said: precious words.")
        b.done()
        assert [item.get("role") for item in self.fake.bodies[-1]["input"]] == ["user", "assistant", "user"]
        b.see("only in this tab", "#kept-note")
        b.driver.get(self.fake.url + "#conv_nothing")
        b.see("That conversation is not here", "#toast")
        self.clean(["404"])

    def check_sessions_that_are_off(self):
        b = self.b
        self.fresh()
        self.fake.sessions_on = False
        b.click("#keep")
        b.send("hello")
        b.see("keeps no sessions", ".notice")
        b.click("#keep")
        b.button("Try again").click()
        b.see("You said: hello.")
        self.clean(["404"])

    def check_waiting_is_explained(self):
        b = self.b
        self.fresh()
        self.fake.state = "loading"
        b.send("wait")
        b.see("The model is being loaded", ".waiting", 5)
        self.fake.state = "loaded"
        b.done()
        b.see("Here it is.")
        self.clean()

    def check_list_of_conversations(self):
        b = self.b
        for keep in (False, True):
            self.fresh(keep)
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
        self.clean()

    def check_export_and_import(self):
        b = self.b
        with tempfile.TemporaryDirectory() as folder:
            b.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": folder})
            for keep in (False, True):
                self.fresh(keep)
                b.ask("hello")
                path = b.export_and_import(folder, "hello")
                b.see("You said: hello.", "#turns")
                os.remove(path)
        self.clean()

    def check_files(self):
        b = self.b
        self.fresh()
        with tempfile.TemporaryDirectory() as folder:
            def path(name, data):
                with open(os.path.join(folder, name), "wb") as file:
                    file.write(data)
                return file.name
            b.one("#file-input").send_keys(path("notes.txt", "Grüße\n".encode()))
            b.see("notes.txt", "#files")
            for name, data, reason in (("image.png", b"\x89PNG\r\n\x1a\n\0\0", "reads text only"), ("bytes.bin", b"\xff\xfe\0\0", "not a text file"), ("zeros.txt", b"a\0b", "binary"),
                                       ("huge.txt", b"x" * 300_000, "too large"), ("empty.txt", b"", "empty")):
                b.one("#file-input").send_keys(path(name, data))
                b.see(reason, "#composer-error")
            assert len(b.all("#files li")) == 1
            b.js("""const data = new DataTransfer(); data.items.add(new File(["dropped"], "drop.md"));
                for (const type of ["dragenter", "dragover", "drop"])
                  document.body.dispatchEvent(new DragEvent(type, {bubbles: true, cancelable: true, dataTransfer: data}));""")
            b.see("drop.md", "#files")
        b.ask("read these")
        sent = self.fake.bodies[-1]["input"][0]["content"]
        assert sent == '<file name="notes.txt">\nGrüße\n</file>\n<file name="drop.md">\ndropped\n</file>\n\nread these', sent
        b.see("notes.txt", ".bubble")
        self.clean()

    def check_pdf_files(self):
        b = self.b
        self.fresh()
        with tempfile.TemporaryDirectory() as folder:
            def path(name, data):
                with open(os.path.join(folder, name), "wb") as file:
                    file.write(data)
                return file.name
            b.one("#file-input").send_keys(path("report.pdf", pdf_with("Rivers rise in spring")))
            b.see("report.pdf", "#files")
            for name, data, reason in (("pictures.pdf", pdf_with(""), "has no text"), ("broken.pdf", b"%PDF-1.4\nnothing", "no PDF file that can be read")):
                b.one("#file-input").send_keys(path(name, data))
                b.see(reason, "#composer-error")
        b.ask("read this")
        sent = self.fake.bodies[-1]["input"][0]["content"]
        assert sent == '<file name="report.pdf">\nRivers rise in spring\n</file>\n\nread this', sent
        self.clean()

    def check_keyboard_only(self):
        b = self.b
        self.fresh()
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
        self.clean()

    def check_narrow(self):
        b = self.b
        self.fresh()
        b.size(360, 740)
        try:
            b.driver.refresh()
            b.ask("hello " + "w" * 200)
            b.see("You said", "#turns")
            assert b.js("return document.documentElement.scrollWidth") == 360
            assert b.js("return document.querySelector('#scroll').scrollWidth <= document.querySelector('#scroll').clientWidth")
            b.click("#open-sidebar")
            b.until(lambda: b.one("#search").is_displayed())
            time.sleep(0.3)
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
        self.clean()

    def check_accessibility(self):
        b = self.b
        for scheme in ("light", "dark"):
            b.media(prefers_color_scheme=scheme, prefers_reduced_motion="reduce")
            self.fresh(tools=True)
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
            b.open(self.fake.url + "status", "summary")
            b.see("fake-7b", "#models")
            found += b.accessibility()
            assert not found, (scheme, found)
        b.media()
        self.clean()

    def check_status(self):
        b = self.b
        self.fresh()
        self.fake.key = "secret"
        self.fake.health = {"running": 3, "queued": 2}
        b.open(self.fake.url + "status", "summary")
        b.one("#key-dialog[open] #key-field").send_keys("secret", Keys.ENTER)
        for part, where in (("version 0.1.0", "#summary"), ("fake-7b", "#models"), ("3 run, 2 wait", "#plots"), ("time", "#mcp"), ("88 B", "#calls"),
                            ("the rest of the prompt is new", "#cache"), ("5.0 GiB", "#device")):
            b.see(part, where)
        self.clean(["401"])

    def check_a_megabyte_stays_smooth(self):
        b = self.b
        self.fresh()
        b.js("window.longest = 0; new PerformanceObserver((list) => { for (const one of list.getEntries()) "
             "window.longest = Math.max(window.longest, one.duration); }).observe({type: 'longtask', buffered: false})")
        b.ask("long", 30)
        b.until(lambda: "Paragraph 25999" in b.js("return document.querySelector('.answer .prose').textContent.slice(-60)"), 30, "the whole text")
        longest = b.js("return window.longest")
        assert longest < 1500, f"the page stood still for {longest:.0f} ms"
        print(f"       a text of 1 MB: the longest pause was {longest:.0f} ms")
        self.clean()


def main():
    browser = Browser()
    try:
        return run_cases([Scripted(browser)])
    finally:
        browser.close()


if __name__ == "__main__":
    sys.exit(main())
