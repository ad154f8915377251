// What the page's Markdown knows beside CommonMark and GitHub's: formulas, footnotes and <details>. As extensions of marked.

export const escape = (text) => text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);

// Formulas: $$...$$, \[...\], \(...\), and $...$ with the rule that prices are no formulas.
const DISPLAY = /^ {0,3}(?:\$\$(?!\$)((?:[^$]|\$(?!\$)){1,8000})\$\$|\\\[([\s\S]{1,8000}?)\\\])[ \t]*(?:\n|$)/;
const INLINE = /^(?:\\\(((?:[^\n]|\n(?!\n)){1,2000}?)\\\)|\\\[((?:[^\n]|\n(?!\n)){1,2000}?)\\\]|\$\$([^\n$]{1,2000}?)\$\$|\$((?![\s\d][^$]*\s\$)[^\s$](?:[^\n$]{0,500}[^\s$\\])?)\$(?![\d\w]))/;

function mathToken(match, type, display) {
  return match && {type, raw: match[0], text: match.slice(1).find((group) => group !== undefined).trim(), display};
}
const mathHtml = (token) =>
  `<${token.type === "mathBlock" ? "p" : "span"}><code class="${token.display ? "math-display" : "math-inline"}">` +
  `${escape(token.text)}</code></${token.type === "mathBlock" ? "p" : "span"}>`;

// Footnotes: "[^name]" in the text, "[^name]: words" as a paragraph of its own.
const MARK = /^\[\^([\w-]{1,30})\](?!:)/;
const NOTE = /^ {0,3}\[\^([\w-]{1,30})\]:[ \t]*([^\n]{0,4000}(?:\n(?![ \t]*(?:\n|\[\^))[^\n]{1,4000}){0,20})(?:\n+|$)/;

function noteToken(source) {
  const match = NOTE.exec(source);
  if (!match) return undefined;
  const token = {type: "note", raw: match[0], name: match[1], tokens: []};
  this.lexer.inline(match[2], token.tokens);
  return token;
}

function noteHtml(token) {
  return `<p class="note"><sup class="note-name">${escape(token.name)}</sup> ${this.parser.parseInline(token.tokens)}</p>\n`;
}

// <details> with Markdown inside. It may still be open at the text's end.
const OPENING = /^ {0,3}<details( open)?>/i;
const SUMMARY = /^\s*<summary>([\s\S]{0,1000}?)<\/summary>/i;
const MAX_NESTED = 3;

function endOfDetails(source) {
  let depth = 0;
  for (const match of source.matchAll(/<(\/?)details(?: open)?>/gi)) {
    depth += match[1] ? -1 : 1;
    if (depth === 0) return [match.index, match.index + match[0].length];
  }
  return [source.length, source.length];
}

function detailsToken(source) {
  const opening = OPENING.exec(source);
  const {lexer} = this;
  if (!opening || (lexer.nested || 0) >= MAX_NESTED) return undefined;
  const [end, after] = endOfDetails(source);
  const inside = source.slice(opening[0].length, end);
  const summary = SUMMARY.exec(inside);
  const token = {type: "details", raw: source.slice(0, after) + /^[ \t]*\n*/.exec(source.slice(after))[0], open: !!opening[1], summary: [], tokens: []};
  lexer.inline(summary ? summary[1].trim() : "Details", token.summary);
  lexer.nested = (lexer.nested || 0) + 1;
  lexer.blockTokens(inside.slice(summary ? summary[0].length : 0), token.tokens);
  lexer.nested--;
  return token;
}

function detailsHtml(token) {
  return `<details${token.open ? " open" : ""}><summary>${this.parser.parseInline(token.summary)}</summary>${this.parser.parse(token.tokens)}</details>\n`;
}

const found = (at) => (at < 0 ? undefined : at);

export const extensions = {
  block: [(source) => mathToken(DISPLAY.exec(source), "mathBlock", true), noteToken, detailsToken],
  inline: [(source) => {
    const match = INLINE.exec(source);
    return mathToken(match, "mathInline", !!match && /^(?:\\\[|\$\$)/.test(match[0]));
  }, (source) => {
    const match = MARK.exec(source);
    return match ? {type: "noteMark", raw: match[0], name: match[1]} : undefined;
  }],
  startBlock: [(source) => found(source.search(/(?:^|\n) {0,3}(?:\$\$(?!\$)|\\\[|\[\^[\w-]{1,30}\]:|<details(?: open)?>)/i))],
  startInline: [(source) => found(source.search(/\$|\\\(|\\\[|\[\^/))],
  renderers: {mathBlock: mathHtml, mathInline: mathHtml, note: noteHtml, details: detailsHtml,
    noteMark: (token) => `<sup class="note-mark">${escape(token.name)}</sup>`},
  childTokens: {note: ["tokens"], details: ["summary", "tokens"]},
};
