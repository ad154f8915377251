// Markdown that a model wrote becomes elements. Whatever the text says, it cannot become a script, a style, a form or a
// request: raw HTML is shown as text, the result passes DOMPurify with a short list of tags, and the page's
// Content-Security-Policy forbids the rest.

import {Lexer, Parser, Renderer, Tokenizer} from "./vendor/marked.js";
import DOMPurify from "./vendor/purify.js";

const TAGS = ["p", "br", "hr", "em", "strong", "del", "code", "pre", "blockquote", "ul", "ol", "li", "h3", "h4", "h5", "h6",
  "table", "thead", "tbody", "tr", "th", "td", "a", "span", "sub", "sup", "kbd"];
const RULES = {
  ALLOWED_TAGS: TAGS,
  ALLOWED_ATTR: ["href", "title", "class", "align", "start"],
  ADD_URI_SAFE_ATTR: ["align", "start"],  // else only what looks like an address
  ALLOWED_URI_REGEXP: /^(?:https?:\/\/|mailto:)/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};
// Presentation MathML only.
const MATH_RULES = {
  USE_PROFILES: {mathMl: true},
  FORBID_TAGS: ["annotation", "annotation-xml", "semantics", "maction", "mglyph"],
  FORBID_ATTR: ["style", "id", "name", "href", "xlink:href", "src", "actiontype"],
  ALLOW_DATA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName !== "A") return;
  if (!node.hasAttribute("href")) return;
  node.setAttribute("target", "_blank");
  node.setAttribute("rel", "noopener noreferrer");
});

const escape = (text) => text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
// marked escapes addresses and titles in some places and not in others.
const SIGNS = {"&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'"};
const unescape = (text) => text.replace(/&(?:amp|lt|gt|quot|#39);/g, (name) => SIGNS[name]);
const again = (text) => escape(unescape(text));
const isSafeAddress = (address) => /^(?:https?:\/\/|mailto:)/i.test(address.trim());

// The few tags without attributes that models use inside Markdown.
const PLAIN_TAG = /^<(?:br\s*\/?|\/?(?:sub|sup|kbd))>$/i;

const renderer = new Renderer();
Object.assign(renderer, {
  html(text) {
    return PLAIN_TAG.test(text.trim()) ? text.trim() : escape(text);
  },
  link(href, title, text) {
    if (!isSafeAddress(unescape(href))) return `${text} <span class="address">(${again(href)})</span>`;
    return `<a href="${again(href)}"${title ? ` title="${again(title)}"` : ""}>${text}</a>`;
  },
  image(href, title, text) {
    return `<span class="picture">Image: ${again(text || "without a description")} ` +
      `<span class="address">(${again(href)})</span></span>`;
  },
  heading(text, depth) {
    const level = Math.min(6, depth + 2);  // the page's own headings come before
    return `<h${level}>${text}</h${level}>\n`;
  },
  checkbox(checked) {
    return checked ? "☑ " : "☐ ";
  },
  code(text, lang) {
    const language = (lang || "").match(/^[\w+#.-]{0,30}/)[0].toLowerCase();
    return `<pre><code class="language-${escape(language)}">${escape(text)}</code></pre>\n`;
  },
});

// Formulas: $$...$$, \[...\], \(...\), and $...$ with the rule that prices are no formulas.
const DISPLAY = /^ {0,3}(?:\$\$(?!\$)((?:[^$]|\$(?!\$)){1,8000})\$\$|\\\[([\s\S]{1,8000}?)\\\])[ \t]*(?:\n|$)/;
const INLINE = /^(?:\\\(([^\n]{1,2000}?)\\\)|\\\[([^\n]{1,2000}?)\\\]|\$\$([^\n$]{1,2000}?)\$\$|\$((?![\s\d][^$]*\s\$)[^\s$](?:[^\n$]{0,500}[^\s$\\])?)\$(?![\d\w]))/;

function mathToken(match, type, display) {
  return match && {type, raw: match[0], text: match.slice(1).find((group) => group !== undefined).trim(), display};
}
const mathHtml = (token) =>
  `<${token.type === "mathBlock" ? "p" : "span"}><code class="${token.display ? "math-display" : "math-inline"}">` +
  `${escape(token.text)}</code></${token.type === "mathBlock" ? "p" : "span"}>`;

const extensions = {
  block: [(source) => mathToken(DISPLAY.exec(source), "mathBlock", true)],
  inline: [(source) => {
    const match = INLINE.exec(source);
    return mathToken(match, "mathInline", !!match && /^(?:\\\[|\$\$)/.test(match[0]));
  }],
  startBlock: [(source) => {
    const at = source.search(/(?:^|\n) {0,3}(?:\$\$(?!\$)|\\\[)/);
    return at < 0 ? undefined : at;
  }],
  startInline: [(source) => {
    const at = source.search(/\$|\\\(|\\\[/);
    return at < 0 ? undefined : at;
  }],
  renderers: {mathBlock: mathHtml, mathInline: mathHtml},
  childTokens: {},
};

const options = {gfm: true, breaks: false, pedantic: false, silent: true, mangle: false, headerIds: false, renderer, tokenizer: new Tokenizer(), extensions};

const PIECE = 2000;  // characters

// Text with this many signs in one piece is no prose, and marked would take seconds for it.
const MAX_SIGNS = 800;

class TooManySigns extends Error {}

class BoundedLexer extends Lexer {
  inlineTokens(source, tokens = []) {
    const signs = source.length > MAX_SIGNS ? source.match(/[*_[\]<>`$~!\\]/g)?.length ?? 0 : 0;
    if (signs <= MAX_SIGNS) return super.inlineTokens(source, tokens);
    throw new TooManySigns();
  }
}

// The blocks at the top of a text, without the work inside them.
export function blocks(source) {
  const lexer = new BoundedLexer(options);
  return lexer.blockTokens(source, []);
}

// One text as a fragment of elements. links: addresses that "[name]: address" lines define, kept from block to block.
export function render(source, links = Object.create(null)) {
  let html;
  try {
    const lexer = new BoundedLexer(options);
    lexer.tokens.links = links;
    html = new Parser(options).parse(lexer.lex(source));
  } catch {
    return plain(source);  // or nested too deeply
  }
  return DOMPurify.sanitize(html, RULES);
}

// The text as it is, for what is too long or too deep.
export function plain(source) {
  const fragment = document.createDocumentFragment();
  // In pieces: browsers need seconds to break a single long text of brackets into lines.
  for (let at = 0; at < source.length;) {
    const space = source.slice(at, at + PIECE).search(/\s\S*$/);
    const end = at + PIECE >= source.length ? source.length : at + (space > PIECE / 2 ? space + 1 : PIECE);
    const paragraph = document.createElement("p");
    paragraph.className = "as-text";
    paragraph.textContent = source.slice(at, end);
    fragment.append(paragraph);
    at = end;
  }
  return fragment;
}

// What a highlighter wrote: spans with classes.
export function sanitizeCode(html) {
  return DOMPurify.sanitize(html, {ALLOWED_TAGS: ["span"], ALLOWED_ATTR: ["class"], ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false, RETURN_DOM_FRAGMENT: true});
}

// Style attributes go before parsing already: the policy would report each of them. The source, which KaTeX adds as an
// annotation, would be shown as text.
export function sanitizeMath(markup) {
  const bare = markup.replace(/<annotation[\s\S]*?<\/annotation>/g, "").replace(/ style="[^"]*"/g, "");
  return DOMPurify.sanitize(bare, MATH_RULES);
}
