"""The web page in headless Chromium with the real server and model."""

import json
import sys

from selenium.webdriver.common.keys import Keys

from harness import clients


def short_answers(b):
    b.click("#settings")
    b.one("#set-max_output_tokens").send_keys("24")
    b.one("#set-temperature").send_keys("0")
    b.one("#set-thinking").send_keys("Never")
    b.button("Done").click()


def test_files_of_the_page_have_their_headers(browser, real):
    url = real().root + "/"
    def get(path, **headers):
        with clients.start(url + path, headers={name.replace("_", "-"): value for name, value in headers.items()}) as response:
            return response.status, response.headers, response.read()
    status, headers, body = get("", Accept="text/html")
    assert status == 200 and body.startswith(b"<!doctype html>") and "trusted-types" in headers["Content-Security-Policy"]
    assert get("")[2].startswith(b"Anabranch")
    status, headers, packed = get("web/main.js", Accept_Encoding="gzip")
    assert headers["Content-Encoding"] == "gzip" and headers["X-Content-Type-Options"] == "nosniff"
    assert get("web/main.js", Accept_Encoding="gzip", If_None_Match=headers["ETag"])[0] == 304
    assert len(get("web/main.js")[2]) > len(packed)
    assert get("web/nothing.js")[0] == 404 and get("web/../api/docs.html")[0] in (400, 404)
    assert get("status")[2].startswith(b"<!doctype html>")


def test_a_chat_is_answered_again_and_resumed(browser, real):
    b = browser
    url = real().root + "/"
    b.open(url)
    sizes = b.js("return [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
                 ".filter((entry) => !entry.name.includes('/v1/') && !entry.name.endsWith('/health')).map((entry) => entry.encodedBodySize)")
    assert len(sizes) > 10 and 20_000 < sum(sizes) < 100_000, sizes  # compressed
    short_answers(b)
    b.ask("What is the capital of France?")
    first = b.text(".answer .prose")
    assert first.strip()
    b.see("tokens", ".meta")
    b.button("Generate this answer again").click()
    b.see("2/2", ".siblings")
    b.done()
    assert b.text(".answer .prose") == first  # greedy
    b.driver.refresh()
    b.until(lambda: b.text(".answer .prose") == first)
    b.driver.get(url + "status")
    b.see("hybrid-146m", "#models")
    found = b.problems()
    assert not [one for one in found if "/v1/mcp" not in one], found


def test_kept_conversations_are_found_branched_and_deleted(browser, real):
    b = browser
    url = real().root + "/"
    b.open(url)
    short_answers(b)
    b.click("#keep")
    b.ask("Tell me a story about a river.")
    b.until(lambda: b.js("return location.hash").startswith("#conv_"))
    first = b.text(".answer .prose")
    b.button("Generate this answer again").click()
    b.see("2/2", ".siblings")
    b.done()
    b.ask("And then?")
    assert len(b.turns()) == 4
    b.driver.refresh()
    b.until(lambda: len(b.turns()) == 4)
    b.see("2/2", ".siblings")
    b.js("document.querySelector('[aria-label=\"Previous version\"]').click()")
    b.see("1/2", ".siblings")
    assert b.text(".answer .prose") == first
    b.one("#search").send_keys("river")
    b.until(lambda: len(b.all("#conversations li")) == 1)
    b.js("document.querySelector('.answer [aria-label^=Branch]').click()")
    b.see("(branch)", "#title")
    b.press(("alt", "o"))
    b.button("Delete").click()
    b.button("Delete for good").click()
    b.see("What can I do for you?")
    found = b.problems()
    assert not found, found


def test_an_answer_is_stopped_and_its_message_edited(browser, real):
    b = browser
    url = real().root + "/"
    b.open(url)
    b.click("#keep")
    b.click("#settings")
    b.one("#set-thinking").send_keys("Never")
    b.one("#set-max_output_tokens").send_keys("1500")
    b.one("#set-temperature").send_keys("0")
    b.button("Done").click()
    b.send("List all integers from 1 to 2000.")
    b.until(lambda: len(b.text(".answer .prose")) > 40)
    b.press(Keys.ESCAPE)
    b.done()
    b.see("not finished", ".meta")
    b.click("#settings")
    b.one("#set-max_output_tokens").send_keys(Keys.CONTROL, "a")
    b.one("#set-max_output_tokens").send_keys("16")
    b.button("Done").click()
    b.ask("Now the letters.")
    assert not b.text(".notice").strip(), b.text(".notice")
    b.driver.refresh()
    b.until(lambda: len(b.turns()) == 4)
    b.see("not finished", "#turns > li:nth-child(2) .meta")
    b.button("Edit this message", "#turns > li:nth-child(1)").click()
    b.one(".editing textarea").send_keys(" Or not.", Keys.CONTROL, Keys.ENTER)
    b.see("2/2", ".siblings")
    b.done()
    assert len(b.turns()) == 2
    b.driver.refresh()
    b.until(lambda: len(b.turns()) == 2)
    b.button("Previous version", ".user").click()
    b.until(lambda: len(b.turns()) == 4)
    found = b.problems()
    assert not found, found


def test_a_tool_runs_after_consent(browser, real, tmp_path):
    """The page lets the model choose; this model is made to call a tool, with whatever arguments it writes."""
    b = browser
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"time": {"command": sys.executable, "args": ["-m", "mcp_server_time", "--local-timezone", "UTC"]}}}))
    url = real("--mcp-config", config).root + "/"
    b.open(url)
    b.click("#keep")
    b.click("#settings")
    b.click("#tool-time")
    b.button("Done").click()
    short_answers(b)
    b.click("#settings")
    b.one("#set-max_output_tokens").send_keys(Keys.CONTROL, "a")
    b.one("#set-max_output_tokens").send_keys("60")
    b.button("Done").click()
    b.choose_tool({"type": "function", "name": "time__get_current_time"})
    b.send("What time is it in Paris?")
    b.until(lambda: b.all(".consent button"))
    b.see("The model wants to run get_current_time", ".consent")
    b.button("Allow once").click()
    b.until(lambda: b.text(".tool .state") in ("done", "failed"))
    b.done()
    b.driver.refresh()
    b.see("time: get_current_time", ".tool")
    b.click(".tool summary")
    b.see('"timezone"', ".tool-body")
    b.open(url + "status", "summary")
    b.see("get_current_time", "#mcp")
    b.see("get_current_time", "#calls")
    found = b.problems()
    assert not found, found


def test_a_key_is_asked_for(browser, real):
    b = browser
    url = real("--api-key", "secret").root + "/"
    b.open(url, "key-dialog")
    b.one("#key-dialog[open] #key-field").send_keys("secret", Keys.ENTER)
    short_answers(b)
    b.ask("Hello")
    assert b.text(".answer .prose").strip()
