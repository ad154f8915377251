"""Images on the web page, in headless Chromium with a server that plays its part from a script."""

import base64
import os
import tempfile

from selenium.webdriver.common.keys import Keys

from pictures import png

import pytest

from web_fake_server import Fake
from web_script import Script

pytestmark = pytest.mark.any_model

MOST_PIXELS = 2 << 20
# A file as the clipboard and the mouse bring it: name, type, base64.
TRANSFER = """const [name, type, data] = arguments, bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
    const transfer = new DataTransfer(); transfer.items.add(new File([bytes], name, {type}));"""
DROP = TRANSFER + """for (const type of ["dragenter", "dragover", "drop"])
    document.body.dispatchEvent(new DragEvent(type, {bubbles: true, cancelable: true, dataTransfer: transfer}));"""
PASTE = TRANSFER + """if (arguments[3]) transfer.setData("text/plain", arguments[3]);
    return document.querySelector("#message").dispatchEvent(
      new ClipboardEvent("paste", {bubbles: true, cancelable: true, clipboardData: transfer}));"""


def url_of(data):
    return "data:image/png;base64," + base64.b64encode(data).decode()


class Images:
    def __init__(self, browser):
        self.b = browser
        self.fake = Fake(Script()).start()

    def fresh(self, keep=False, images=True):
        fake = self.fake
        fake.sessions, fake.images = {}, images
        fake.bodies.clear()
        self.b.open(fake.url)
        self.b.see("fake-7b", "#model")
        label = "Attach text files and images" if images else "Attach text files"
        self.b.until(lambda: self.b.one("#attach").get_attribute("aria-label") == label)
        if keep:
            self.b.click("#keep")

    def attach(self, name, data, refused=None):
        """Gives the page a file, and waits until it is shown, or until the page says why it is not."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, name)
            with open(path, "wb") as file:
                file.write(data)
            count = len(self.b.all("#files li"))
            self.b.one("#file-input").send_keys(path)
            if refused:
                self.b.see(refused, "#composer-error")
            else:
                self.b.until(lambda: len(self.b.all("#files li")) == count + 1, what=f"{name} among the files")

    def clean(self):
        found = self.b.problems()
        assert not found, found

    def sizes(self, selector):
        """[width, height] of the pictures that the browser has drawn."""
        script = """return Promise.all([...document.querySelectorAll(arguments[0])].map((one) => one.decode().then(
            () => [one.naturalWidth, one.naturalHeight])))"""
        return self.b.js(script, selector)


PAGE = Images


def test_an_image_is_sent_and_shown(page):
    b = page.b
    page.fresh()
    page.attach("red.png", png())
    assert page.sizes("#files img") == [[32, 24]]
    assert b.one("#files img").get_attribute("alt") == "red.png"
    b.ask("what is this")
    content = page.fake.bodies[-1]["input"][0]["content"]
    assert content == [{"type": "input_image", "image_url": url_of(png())}, {"type": "input_text", "text": "what is this"}]
    assert page.sizes(".bubble img") == [[32, 24]] and not b.all("#files li")
    b.ask("and now")
    assert page.fake.bodies[-1]["input"][0]["content"] == content, "each request carries the whole conversation"
    assert page.fake.bodies[-1]["input"][-1]["content"] == "and now"
    assert not b.accessibility()
    page.clean()


def test_images_are_sent_without_words(page):
    b = page.b
    page.fresh()
    assert b.one("#send").get_attribute("disabled")
    page.attach("red.png", png())
    page.attach("blue.png", png(colour=(0, 0, 250)))
    b.one("#message").send_keys(Keys.ENTER)
    b.see("You said: .", "#turns")
    b.done()
    assert [part["type"] for part in page.fake.bodies[-1]["input"][0]["content"]] == ["input_image"] * 2
    assert [one.get_attribute("alt") for one in b.all(".bubble img")] == ["Image 1 of 2", "Image 2 of 2"]
    b.see("Image", "#title")
    page.clean()


def test_images_are_pasted_and_dropped(page):
    b = page.b
    page.fresh()
    data = base64.b64encode(png()).decode()
    assert b.js(PASTE, "image.png", "image/png", data) is False, "the paste is taken"
    b.until(lambda: len(b.all("#files img")) == 1)
    assert b.js(PASTE, "image.png", "image/png", data, "copied text") is True, "text comes first"
    b.js(DROP, "dropped.png", "image/png", data)
    b.until(lambda: len(b.all("#files img")) == 2)
    b.button("Remove image.png").click()
    b.until(lambda: len(b.all("#files img")) == 1)
    assert b.one("#files img").get_attribute("alt") == "dropped.png"
    page.clean()


def test_large_images_are_scaled_down(page):
    page.fresh()
    page.attach("large.png", png(4000, 3000))
    width, height = page.sizes("#files img")[0]
    assert 0.98 * MOST_PIXELS < width * height <= 1.01 * MOST_PIXELS and abs(width / height - 4 / 3) < 0.01, (width, height)
    assert page.b.one("#files img").get_attribute("src").startswith("data:image/jpeg;base64,")
    # A file of many bytes is made smaller, too.
    page.attach("noise.png", png(1000, 800, noise=os.urandom(1_500_000)))
    assert page.sizes("#files img")[1] == [1000, 800]
    assert page.b.all("#files img")[1].get_attribute("src").startswith("data:image/jpeg;base64,")
    page.clean()


def test_files_that_are_no_images_are_refused(page):
    b = page.b
    page.fresh()
    page.attach("broken.png", png()[:50], refused="no image that the browser can read")
    for at in range(8):
        page.attach(f"{at}.png", png())
    page.attach("ninth.png", png(), refused="At most 8 images")
    assert len(b.all("#files img")) == 8


def test_models_that_read_text_only_are_sent_no_images(page):
    b = page.b
    page.fresh(images=False)
    page.attach("red.png", png(), refused="red.png is an image, and this model reads text only.")
    assert not b.all("#files li")
    page.clean()


def test_images_outlast_a_reload_and_an_edit(page):
    b = page.b
    for keep in (False, True):
        page.fresh(keep)
        page.attach("red.png", png())
        b.ask("hello")
        b.until(lambda: page.fake.bodies[-1]["store"] is keep)
        b.driver.refresh()
        b.until(lambda: b.all(".bubble img"), what="the image after a reload")
        assert page.sizes(".bubble img") == [[32, 24]]
        b.button("Edit this message").click()
        area = b.one(".editing textarea")
        area.clear()
        area.send_keys("other", Keys.CONTROL, Keys.ENTER)
        b.see("You said: other.")
        b.done()
        content = page.fake.bodies[-1]["input"][-1]["content"]
        assert content == [{"type": "input_image", "image_url": url_of(png())}, {"type": "input_text", "text": "other"}]
        b.button("Generate this answer again").click()
        b.see("2/2", ".answer .siblings")
        b.done()
        assert page.sizes(".bubble img") == [[32, 24]]
    page.clean()


def test_drafts_outlast_a_reload(page):
    b = page.b
    page.fresh()
    page.attach("red.png", png())
    b.driver.refresh()
    b.until(lambda: b.all("#files img"))
    assert page.sizes("#files img") == [[32, 24]]


def test_images_are_exported_and_imported(page):
    b = page.b
    with tempfile.TemporaryDirectory() as folder:
        b.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": folder})
        page.fresh()
        page.attach("red.png", png())
        b.ask("hello")
        path = b.export_and_import(folder, "hello")
        b.until(lambda: b.all(".bubble img"))
        # Addresses of elsewhere are not taken from a file.
        with open(path, "w") as file:
            file.write('{"role":"user","content":"x","images":[{"at":0,"url":"https://example.com/a.png"}]}\n'
                       '{"role":"assistant","content":"y"}\n')
        b.one("#import-input").send_keys(path)
        b.until(lambda: len(b.all("#conversations li")) == 3)
        b.see("x", ".bubble")
        assert not b.all(".bubble img")
    page.clean()
