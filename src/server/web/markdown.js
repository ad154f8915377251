// Markdown that a model wrote becomes elements. Whatever the text says, it cannot become a script, a style, a form or a
// request: raw HTML is shown as text, the result passes DOMPurify with a short list of tags, and the page's
// Content-Security-Policy forbids the rest.

import {Lexer, Parser, Renderer, Tokenizer} from "./vendor/marked.js";
import DOMPurify from "./vendor/purify.js";
import {escape, extensions} from "./markdown_syntax.js";

const TAGS = ["p", "br", "hr", "em", "strong", "del", "code", "pre", "blockquote", "ul", "ol", "li", "h3", "h4", "h5", "h6",
  "table", "thead", "tbody", "tr", "th", "td", "a", "span", "sub", "sup", "kbd",
  "details", "summary"];
const RULES = {
  ALLOWED_TAGS: TAGS,
  ALLOWED_ATTR: ["href", "title", "class", "align", "start", "open"],
  ADD_URI_SAFE_ATTR: ["align", "start", "open"],  // else only what looks like an address
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

const options = {gfm: true, breaks: false, pedantic: false, silent: true, mangle: false, headerIds: false, renderer, tokenizer: new Tokenizer(), extensions};
const lineOptions = {...options, breaks: true};  // each line end is one, as people type

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

// One text as a fragment of elements. links: addresses that "[name]: address" lines define, kept from block to block. lines: each
// line end is one.
export function render(source, links = Object.create(null), lines = false) {
  let html;
  try {
    const how = lines ? lineOptions : options;
    const lexer = new BoundedLexer(how);
    lexer.tokens.links = links;
    html = new Parser(how).parse(lexer.lex(source));
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

// The MathML of a formula, for screen readers. Style attributes go before parsing already: the policy would report each of them.
// The source, which KaTeX adds as an annotation, would be read out.
export function sanitizeMath(markup) {
  const bare = markup.replace(/<annotation[\s\S]*?<\/annotation>/g, "").replace(/ style="[^"]*"/g, "");
  return DOMPurify.sanitize(bare, MATH_RULES);
}

// Whether elements that KaTeX made are what it makes of formulas: boxes and lines, without anything that loads, runs or leads away.
export function isDrawing(root) {
  return [...root.querySelectorAll("*")].every((one) => /^(?:span|svg|path|line|g)$/.test(one.localName) &&
    [...one.attributes].every(({name}) => /^(?:class|style|aria-hidden|viewBox|preserveAspectRatio|width|height|xmlns|d|[xy][12]|stroke-width)$/.test(name)));
}
