"""Headless Chromium for the tests of the web page, and what they do with the page. Needs Debian's chromium and
chromium-driver."""

import glob
import json
import os
import sys
import time

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

WAIT = 90  # seconds, on a machine that may be busy with other things
# Reports of the Content-Security-Policy, kept from the first byte of each page on.
WATCH = """window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));"""


def axe_source():
    pattern = os.path.join(sys.prefix, "lib", "python3*", "site-packages", "axe_selenium_python*", "**", "axe.min.js")
    with open(glob.glob(pattern, recursive=True)[0]) as file:
        return file.read()


class Browser:
    def __init__(self):
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                     "--window-size=1280,860", "--disable-background-networking", "--disable-component-update"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))
        self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
        self.size(1280, 860)

    def close(self):
        self.driver.quit()

    def size(self, width, height):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def media(self, **features):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]})

    # ---- Pages.

    def open(self, url, wait_for="message", remembered=None):
        """A page without anything of earlier tests. remembered: what the browser has kept of an earlier visit, by name."""
        self.driver.get(url + "web/icon.svg")
        self.js("sessionStorage.clear(); localStorage.clear()")
        for name, value in (remembered or {}).items():
            self.js("localStorage.setItem(arguments[0], arguments[1])", f"anabranch.{name}", value)
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        self.driver.get(url)
        self.until(lambda: self.all("#" + wait_for))

    def js(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def until(self, condition, seconds=WAIT, what=None):
        end = time.time() + seconds
        while True:
            try:
                value = condition()
            except StaleElementReferenceException:
                value = None
            if value:
                return value
            assert time.time() < end, f"{what or condition} did not come about; the page says: {self.text('body')[-600:]!r}"
            time.sleep(0.03)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return self.until(lambda: self.all(selector), what=selector)[0]

    def text(self, selector):
        return self.js("return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText).join('\\n')", selector)

    def see(self, text, selector="body", seconds=WAIT):
        self.until(lambda: text in self.text(selector), seconds, f"{text!r} in {selector}")

    def click(self, selector):
        # A list may be made anew between finding and clicking.
        self.until(lambda: self.one(selector).click() or True, what=selector)

    def button(self, label, within="body"):
        """The last visible button of that name."""
        def find():
            return [one for one in self.all(f"{within} button") if one.is_displayed() and
                    label in (one.get_attribute("aria-label"), one.text.strip())]
        return self.until(find, what=f"button {label!r}")[-1]

    def press(self, *keys):
        """Keys for whatever has the focus; ("alt", "n") is a chord."""
        for key in keys:
            chain = webdriver.ActionChains(self.driver)
            if isinstance(key, tuple):
                chain.key_down(Keys.ALT).send_keys(key[1]).key_up(Keys.ALT)
            else:
                chain.send_keys(key)
            chain.perform()

    def focused(self):
        return self.driver.switch_to.active_element

    # ---- The chat.

    def send(self, text):
        area = self.one("#message")
        area.clear()
        area.send_keys(text, Keys.ENTER)

    def done(self, seconds=WAIT):
        self.until(lambda: self.js("return document.querySelector('#send').getAttribute('aria-label') === 'Send' && "
                                   "!document.querySelector('[aria-busy=true]')"), seconds, "the end of the answer")
        self.frames()

    def frames(self, count=3):
        """Until the page was drawn so many times: what it does with a frame is done."""
        self.driver.execute_async_script("""
            const [count, done] = arguments, next = (left) => left ? requestAnimationFrame(() => next(left - 1)) : done();
            next(count);""", count)

    def slowness(self):
        """How much longer the browser takes now for a loop of about 60 ms."""
        took = self.js("const began = performance.now(); let x = 0; for (let i = 0; i < 6e7; i++) x = (x * 31 + i) | 0;"
                         "return performance.now() - began + (x === 1)")
        return max(1, took / 60)

    def ask(self, text, seconds=WAIT):
        self.send(text)
        self.until(lambda: text.split("\n")[0][:40] in self.text("#turns"), what="the message")
        self.done(seconds)

    def choose_tool(self, choice):
        """The page lets the model choose; from now on each question of the user makes it call this tool (a "tool_choice")."""
        self.ask_with({"tool_choice": choice})

    def ask_with(self, fields, tools=()):
        """From now on each question of the user has these fields and further tools, which the page itself does not send."""
        self.js("""const real = window.fetch, [fields, tools] = arguments;
            window.fetch = (address, options) => {
              if (!String(address).endsWith("/v1/responses")) return real(address, options);
              const body = JSON.parse(options.body), asked = body.input[body.input.length - 1]?.role === "user";
              if (asked && tools.length) body.tools = [...(body.tools || []), ...tools];
              if (asked) options = {...options, body: JSON.stringify({...body, ...fields})};
              return real(address, options);
            };""", fields, list(tools))

    def export_and_import(self, folder, name):
        """Exports the only conversation as JSON lines to folder/name.jsonl, and imports that. -> the file"""
        self.press(("alt", "o"))
        self.button("JSON lines").click()
        path = os.path.join(folder, name + ".jsonl")
        self.until(lambda: os.path.exists(path))
        self.one("#import-input").send_keys(path)
        self.see("1 conversation imported.", "#toast")
        self.until(lambda: len(self.all("#conversations li")) == 2)
        return path

    def turns(self):
        return [(one.get_attribute("class").split()[1], one.text) for one in self.all("#turns > li")]

    # ---- What must not happen.

    def problems(self, allowed=()):
        """Errors in the console, violations of the policy, and requests to elsewhere, since the page was opened.
        allowed: parts of messages that a test provokes."""
        found = [f"policy: {one}" for one in self.js("return window.violations")]
        for entry in self.driver.get_log("browser"):
            if entry["level"] == "SEVERE" and not any(part in entry["message"] for part in allowed):
                found.append(f"console: {entry['message']}")
        origin = self.js("return location.origin")
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] != "Network.requestWillBeSent":
                continue
            url = message["params"]["request"]["url"]
            if not url.startswith((origin + "/", "data:", "blob:" + origin)):
                found.append(f"request: {url[:200]}")
        return found

    def accessibility(self):
        """Serious and critical findings of axe-core."""
        if not self.js("return !!window.axe"):
            self.js(axe_source())
        result = self.driver.execute_async_script("""
            const done = arguments[arguments.length - 1];
            axe.run(document, {resultTypes: ["violations"]}).then(done, (error) => done({violations: [{id: String(error), impact: "critical", nodes: []}]}));""")
        return [f"{one['id']} ({one['impact']}): {[node['html'][:120] for node in one['nodes'][:3]]}"
                for one in result["violations"] if one["impact"] in ("serious", "critical")]
