// What Markdown alone does not give: code blocks with a name and a copy button, colours, formulas, tables that scroll. The
// libraries for colours and formulas are loaded when the first text needs them.

import {copyText, el, icon, announce} from "./dom.js";
import {isDrawing, sanitizeCode, sanitizeMath} from "./markdown.js";

const MAX_COLOURED = 60 * 1024;  // characters of a code block

const ALIASES = {js: "javascript", jsx: "javascript", mjs: "javascript", ts: "typescript", tsx: "typescript", py: "python",
  sh: "bash", shell: "bash", zsh: "bash", console: "bash", "c++": "cpp", cc: "cpp", h: "cpp", hpp: "cpp", cs: "csharp", "c#": "csharp",
  yml: "yaml", html: "xml", svg: "xml", toml: "ini", rs: "rust", rb: "ruby", kt: "kotlin", golang: "go", ps1: "powershell",
  md: "markdown", docker: "dockerfile", make: "makefile", patch: "diff"};
const EXTENSIONS = {javascript: "js", typescript: "ts", python: "py", bash: "sh", csharp: "cs", yaml: "yml", ruby: "rb", rust: "rs",
  markdown: "md", kotlin: "kt"};
export const languageOf = (name) => ALIASES[name] || name;
export const aliasOf = (name) => EXTENSIONS[name] || name;

const loading = {};
const load = (name) => (loading[name] ??= import(`./vendor/${name}.js`).then((module) => module.default));

// A style sheet that is needed from now on; resolves when it is there.
const styles = {};
const loadStyle = (path) => (styles[path] ??= new Promise((done, failed) => {
  document.head.append(el("link", {rel: "stylesheet", href: new URL(path, import.meta.url).href, onload: done, onerror: failed}));
}));

async function colour(code, language) {
  const text = code.textContent;
  if (!language || text.length > MAX_COLOURED) return;
  try {
    const highlighter = await load("highlight");
    if (!highlighter.getLanguage(languageOf(language))) return;
    const {value} = highlighter.highlight(languageOf(language), text, true);
    if (code.textContent === text) code.replaceChildren(sanitizeCode(value));
  } catch {
    // The code stays without colours.
  }
}

async function copyCode(button, code) {
  try {
    await copyText(code.textContent);
    button.lastChild.textContent = "Copied";
    announce("Code copied.");
  } catch {
    button.lastChild.textContent = "Not copied";
  }
  setTimeout(() => { button.lastChild.textContent = "Copy"; }, 2000);
}

// A code block that text is added to: {element, add(text), finish()}.
export function codeBlock(info) {
  const language = info.match(/^[\w+#.-]{0,30}/)[0].toLowerCase();
  const code = el("code");
  const button = el("button.copy-code", {type: "button"}, icon("copy"), "Copy");
  button.addEventListener("click", () => copyCode(button, code));
  const name = language || "text";
  const head = el("div.code-head", {}, el("span", {}, name), button);
  const box = el("pre", {tabindex: "0", "aria-label": `Code, ${name}`}, code);
  const element = el("div.block.code-block", {}, head, box);
  return {
    element,
    add(text) {
      if (text) code.append(text);
    },
    finish() {
      code.normalize();
      colour(code, language);
    },
  };
}

function replaceCode(pre) {
  const code = pre.querySelector("code") || pre;
  const block = codeBlock((code.className.match(/language-(\S*)/) || ["", ""])[1]);
  block.add(code.textContent.replace(/\n$/, ""));
  pre.replaceWith(block.element);
  block.finish();
}

// KaTeX draws boxes of its own fonts, which look the same in every browser; screen readers get MathML. It sets styles by script,
// which the policy allows, while markup with styles would be refused.
async function showFormula(place) {
  const display = place.classList.contains("math-display");
  const source = place.textContent;
  try {
    const [katex] = await Promise.all([load("katex"), loadStyle("./vendor/katex.css")]);
    const how = {displayMode: display, throwOnError: true, maxExpand: 200, maxSize: 20, strict: "ignore", trust: false};
    const read = sanitizeMath(katex.renderToString(source, {...how, output: "mathml"}));
    const shown = el(`span.formula${display ? ".display" : ""}`, {title: source});
    katex.render(source, shown, {...how, output: "html"});
    const drawing = shown.querySelector(".katex");
    if (!drawing || !read.querySelector("math") || !isDrawing(shown)) return;
    drawing.prepend(el("span.katex-mathml", {}, read.querySelector("math")));
    if (display) shown.tabIndex = 0;
    place.replaceWith(shown);
  } catch {
    place.classList.add("math-failed");  // the source stays visible
  }
}

// A mark leads to its footnote, which may stand in another block.
function bindNote(mark) {
  const name = mark.textContent;
  const button = el("button.note-link", {type: "button", "aria-label": `Footnote ${name}`}, name);
  button.addEventListener("click", () => {
    const notes = [...(button.closest(".prose")?.querySelectorAll(".note") || [])];
    const note = notes.find((one) => one.firstElementChild.textContent === name);
    if (!note) return;
    note.tabIndex = -1;
    note.focus();
    note.scrollIntoView({block: "nearest"});
  });
  mark.replaceChildren(button);
}

function wrapTable(table) {
  const box = el("div.table-box", {tabindex: "0", role: "region", "aria-label": "Table"});
  table.replaceWith(box);
  box.append(table);
}

// After a block is complete.
export function finishBlock(block) {
  for (const pre of block.querySelectorAll("pre")) replaceCode(pre);
  for (const table of block.querySelectorAll("table")) wrapTable(table);
  for (const mark of block.querySelectorAll("sup.note-mark")) bindNote(mark);
  for (const place of block.querySelectorAll("code.math-display, code.math-inline")) showFormula(place);
}
