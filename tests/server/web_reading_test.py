"""How texts look on the page: formulas, footnotes, folded parts, the user's own messages. In headless Chromium with a scripted
server."""

from web_fake_answer import text
from web_fake_server import Fake

ANSWERS = {
    "formulas": r"Sorting takes $O(n \log n)$ steps, or \(\Theta(n^2)\) in the worst case, and costs $5 to $7." "\n\n"
                r"\[ \left( \frac{a + b}{\sqrt{c}} \right)^2 = \sum_{i=0}^{n} \begin{pmatrix} x_i \\ y_i \end{pmatrix} \]" "\n\n"
                r"$$ f(x) = \begin{cases} 1 & x > 0 \\ 0 & \text{else} \end{cases} $$" "\n\n"
                r"Broken: $\frac{1$ and $\nocommand{x}$.",
    "notes": "Rivers are long[^1] and deep[^deep].\n\n[^1]: The Nile has *6,650 km*.\n[^deep]: The Congo.\n",
    "details": "Before.\n\n<details>\n<summary>The **proof**</summary>\n\nStep one:\n\n- a\n- b\n\n```python\nprint(1)\n```\n\n</details>\n\nAfter.",
}


class Reading:
    def __init__(self, browser):
        self.b = browser
        self.fake = Fake(lambda said, body: [text(ANSWERS.get(said, "Yes."), 40, 0.01)]).start()

    def answer(self, question):
        self.b.open(self.fake.url)
        self.b.ask(question)

    def clean(self):
        found = self.b.problems()
        assert not found, found


PAGE = Reading


def test_formulas_are_set(page):
    b = page.b
    page.answer("formulas")
    b.until(lambda: len(b.all(".answer .formula")) == 4)
    b.js("return document.fonts.ready")
    assert len(b.all(".answer .formula.display")) == 2
    # "log" stands apart from its neighbours, as TeX sets it.
    gaps = b.js("""const op = document.querySelector(".formula .mop"), box = op.getBoundingClientRect();
        const inner = (node) => { const range = document.createRange(); range.selectNodeContents(node); return range.getBoundingClientRect(); };
        const letters = [...document.querySelectorAll(".formula:first-of-type .mathnormal")].map(inner);
        return [box.left - letters[1].right, letters[2].left - box.right];""")
    assert all(gap > 2 for gap in gaps), gaps
    # The brackets are as high as the fraction, and the fonts are the server's own.
    heights = b.js("""const box = (selector) => document.querySelector(selector).getBoundingClientRect().height;
        return [box(".display .minner .mopen .delimsizing, .display .minner .mopen"), box(".display .mfrac")];""")
    assert heights[0] > 0.8 * heights[1], heights
    fonts = b.js("return performance.getEntriesByType('resource').filter((one) => one.name.endsWith('.woff2')).length")
    assert 1 <= fonts <= 8, fonts
    assert b.js("return document.fonts.check('16px KaTeX_Main')")
    assert b.js("return document.querySelector('.formula math').textContent.replace(/\\u2061/g, '')") == "O(nlogn)"  # for screen readers
    b.see("costs $5 to $7", ".answer")
    assert b.js("return [...document.querySelectorAll('.math-failed')].map((one) => one.textContent)")[-1] == r"\nocommand{x}"
    page.clean()


def test_footnotes_are_linked(page):
    b = page.b
    page.answer("notes")
    assert [one.text for one in b.all(".note-link")] == ["1", "deep"]
    assert b.js("return [...document.querySelectorAll('.note')].map((one) => one.textContent.trim())") == [
        "1 The Nile has 6,650 km.", "deep The Congo."]
    b.all(".note-link")[1].click()
    assert b.focused().text == "deep The Congo."
    page.clean()


def test_folded_parts_open(page):
    b = page.b
    page.answer("details")
    assert b.text(".answer details summary") == "The proof" and b.all(".answer summary strong")
    assert "Step one" not in b.text(".answer .prose")
    b.click(".answer .prose summary")
    b.see("Step one:", ".answer details")
    assert len(b.all(".answer details li")) == 2 and b.all(".answer details .code-block .copy-code")
    b.see("After.", ".answer")
    page.clean()


def test_the_users_messages_are_markdown(page):
    b = page.b
    b.open(page.fake.url)
    b.one("#message").send_keys("dummy")
    b.js("""const area = document.querySelector("#message");
        area.value = "**Bold** and `code`:\\nsecond line\\n\\n- one\\n- two\\n\\n```js\\nlet a = 1;\\n```\\n\\n<b>not bold</b> $x^2$";
        area.dispatchEvent(new Event("input"));""")
    b.click("#send")
    b.done()
    assert b.text(".user strong") == "Bold" and len(b.all(".user li")) == 2 and b.all(".user .code-block")
    assert b.js("return document.querySelector('.user p').querySelectorAll('br').length") == 1
    b.see("<b>not bold</b>", ".user")
    b.until(lambda: b.all(".user .formula"))
    sent = page.fake.bodies[-1]["input"][0]["content"]
    assert sent.startswith("**Bold** and `code`:\nsecond line"), sent
    b.button("Edit this message").click()
    assert b.one(".editing textarea").get_attribute("value") == sent
    page.clean()
