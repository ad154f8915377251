"""The page of the API (/docs) in headless Chromium: with a scripted server, and its examples with the real one."""

import json

from selenium.webdriver.common.keys import Keys

from web_fake_answer import text
from web_fake_server import Fake, openapi

METHODS = ("get", "post", "put", "patch", "delete")
# Examples that need something which the test's server does not have: the status that it answers. None: they are not sent.
ANSWERS = {"ollamaPull": None, "pullModel": None, "lookUpStates": 404, "infill": 400, "loadAdapter": 403,
           "unloadAdapter": 404, "scaleAdapters": 400}


def operations():
    return {what["operationId"]: (method, path, what) for path, methods in openapi()["paths"].items()
            for method, what in methods.items() if method in METHODS}


class Page:
    def __init__(self, browser):
        self.b = browser
        self.fake = Fake(lambda said, body: [text("Rivers.")]).start()

    def open(self, anchor=""):
        self.b.open(self.fake.url + "docs", "search")
        if anchor:
            self.b.driver.get(self.fake.url + "docs#" + anchor)
        self.b.until(lambda: self.b.all(".operation"))

    def clean(self, allowed=()):
        found = self.b.problems(allowed)
        assert not found, found


PAGE = Page


def test_all_operations_are_shown(page):
    b = page.b
    page.open()
    wanted = operations()
    shown = b.js("return [...document.querySelectorAll('.operation')].map((one) => one.id)")
    assert sorted(shown) == sorted(wanted), set(wanted) ^ set(shown)
    assert len(b.all("#contents a")) == len(wanted)
    b.see(f"{len(wanted)} operations", "#found")
    groups = b.js("return [...document.querySelectorAll('section h2')].map((one) => one.textContent)")
    assert groups == [tag["name"] for tag in openapi()["tags"]], groups
    # Every box can be opened, and says what the file says.
    b.js("for (const one of document.querySelectorAll('.operation')) one.open = true;")
    b.until(lambda: b.js("return [...document.querySelectorAll('.operation')].every((one) => one.querySelector('.try'))"))
    for name, (_, _, what) in wanted.items():
        box = b.js("return document.getElementById(arguments[0]).textContent", name)
        assert what["summary"] in box and all(status in box for status in what["responses"]), name
        example = b.js("return document.getElementById(arguments[0]).querySelector('textarea')?.value", name)
        assert (example is not None) == ("requestBody" in what), name
        assert example is None or isinstance(json.loads(example), (dict, list)), f"{name} has no example"
    page.clean()


def test_search_finds_operations_and_fields(page):
    b = page.b
    page.open()

    def found():
        return b.js("return [...document.querySelectorAll('.operation:not([hidden])')].map((one) => one.id)")
    b.press("/")
    assert b.focused().get_attribute("id") == "search"
    b.press("copy session")
    b.until(lambda: found() == ["branchSession"])
    b.see(f"1 of {len(operations())} operations", "#found")
    assert len(b.js("return [...document.querySelectorAll('#contents li')].filter((one) => one.offsetParent)")) == 1
    b.one("#search").clear()
    b.one("#search").send_keys("input_suffix")  # the name of a field
    b.until(lambda: found() == ["infill"])
    b.driver.get(page.fake.url + "docs#listModels")
    b.until(lambda: b.all("#listModels[open]"))
    assert len(found()) == len(operations())
    page.clean()


def test_examples_are_copied_and_sent(page):
    b = page.b
    page.open("createResponse")
    b.js("window.copied = null; Object.defineProperty(navigator, 'clipboard', {value: {writeText: async (text) => { window.copied = text; }}})")
    b.button("Copy as curl", "#createResponse").click()
    command = b.until(lambda: b.js("return window.copied"))
    assert command.startswith(f"curl '{page.fake.url}v1/responses' -X POST -H 'Content-Type: application/json' -d '{{"), command
    b.one("#createResponse textarea").clear()
    b.one("#createResponse textarea").send_keys(json.dumps({"input": [{"role": "user", "content": "hi"}]}))
    b.button("Send", "#createResponse").click()
    b.see("response.completed", "#createResponse .result")
    b.see("200 OK", "#createResponse .answer-line")
    assert page.fake.bodies[-1]["input"] == [{"role": "user", "content": "hi"}]
    page.open("getModel")
    b.button("Send", "#getModel").click()
    assert b.focused().get_attribute("id") == "getModel-id"  # which is needed
    b.focused().send_keys("a/b")
    b.button("Send", "#getModel").click()
    b.see("404", "#getModel .answer-line")
    assert page.fake.paths[-1] == "GET /v1/models/a%2Fb"
    page.clean(["404"])


def test_a_key_is_asked_for(page):
    b = page.b
    page.fake.key = "secret"
    try:
        page.open("listModels")
        b.button("Send", "#listModels").click()
        b.one("#key-dialog[open] #key-field").send_keys("secret", Keys.ENTER)
        b.see("200 OK", "#listModels .answer-line")
    finally:
        page.fake.key = None
    page.clean(["401"])


def test_the_page_is_accessible_and_fits_a_narrow_window(page):
    b = page.b
    for scheme in ("light", "dark"):
        b.media(prefers_color_scheme=scheme)
        page.open("createChatCompletion")
        b.until(lambda: b.all("#createChatCompletion .fields"))
        found = b.accessibility()
        assert not found, (scheme, found)
    b.media()
    b.size(360, 740)
    try:
        page.open("createChatCompletion")
        assert b.js("return document.documentElement.scrollWidth") == 360
    finally:
        b.size(1280, 860)
    page.clean()


def test_the_server_takes_the_examples(browser, real):
    b = browser
    wrong = []
    with real("--pooling", "mean") as server:
        b.open(server.root + "/docs", "search")
        b.until(lambda: b.all(".operation"))
        b.js("for (const one of document.querySelectorAll('.operation')) one.open = true;")
        b.until(lambda: b.all("#createResponse textarea"))
        names = [name for name, (_, path, what) in operations().items() if "requestBody" in what and "{" not in path]
        for name in sorted(names, key=lambda one: one == "unloadModel"):
            if ANSWERS.get(name, 200) is None:
                continue
            body = b.js("return document.getElementById(arguments[0]).querySelector('textarea').value", name)
            with server.open(operations()[name][1], body.encode()) as response:
                status, said = response.status, response.read()
            if status != ANSWERS.get(name, 200):
                wrong.append((name, status, said[:200]))
        b.button("Send", "#createChatCompletion").click()
        b.see("200 OK,", "#createChatCompletion .answer-line")
        b.see("[DONE]", "#createChatCompletion .result")
        found = b.problems()
    assert not wrong and not found, (wrong, found)
