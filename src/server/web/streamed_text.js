// Shows a Markdown text that grows. Blocks that are complete are made once and stay; only the last one is made anew, at most
// every 100 ms, and less often when that takes long. A block too long for Markdown is shown as it is, piece by piece.

import {blocks, plain, render} from "./markdown.js";
import {finishBlock, codeBlock} from "./enrich.js";

const PAUSE_MS = 100;
const BUDGET_MS = 20;          // of one drawing, while more is left to draw
const WINDOW = 4 * 1024;       // characters in which blocks are looked for first
const MAX_BLOCK = 48 * 1024;   // characters of one block that Markdown is tried on
const CHUNK = 64;              // blocks that the browser can leave undrawn together while they are out of sight
const MAX_LINE = 4096;         // characters of a line of code that are held back until it ends
const FENCE = /^( {0,3})(`{3,}|~{3,})([^\n`]*)\n/;

export class StreamedText {
  // changed(): called after each drawing. lines: each line end of the text is one, as people type.
  constructor(element, changed = () => {}, lines = false) {
    Object.assign(this, {element, changed, lines});
    this.text = "";
    this.settled = 0;       // characters that are drawn for good
    this.links = Object.create(null);
    this.last = null;       // the element of the block that still grows
    this.chunk = null;      // the element that holds the latest blocks
    this.fence = null;      // the open code block: {block, indent, inLine, end}
    this.timer = 0;
    this.pause = PAUSE_MS;
    this.ended = false;
  }

  set(text) {
    if (this.ended || text === this.text) return;
    this.text = text;
    this.timer ||= setTimeout(() => this.draw(), this.pause);
  }

  // The text is complete.
  finish(text = this.text) {
    this.text = text;
    clearTimeout(this.timer);
    this.ended = true;
    this.draw();
  }

  draw() {
    this.timer = 0;
    const begin = performance.now();
    let more = true;
    while (more && performance.now() - begin < BUDGET_MS) more = this.step();
    this.pause = Math.min(2000, Math.max(PAUSE_MS, 4 * (performance.now() - begin)));
    if (more) this.timer = setTimeout(() => this.draw(), 16);  // others get their turn in between
    this.changed();
  }

  // Draws on; true if something was settled and more may follow.
  step() {
    if (this.fence) return this.growFence();
    if (this.settled >= this.text.length) {
      if (this.last && this.ended) this.dropLast();
      return false;
    }
    for (let window = WINDOW; ; window *= 2) {
      const rest = this.text.slice(this.settled, this.settled + window);
      const cut = this.settled + rest.length < this.text.length;
      if (this.openFence(rest)) return true;
      if (this.settleBlocks(rest, cut)) return true;
      if (cut && window < MAX_BLOCK) continue;
      if (cut) this.settlePlain(rest);
      else this.showLast(rest);
      return cut;
    }
  }

  // Draws the blocks that are complete for good. cut: the text goes on. Returns whether there were any.
  settleBlocks(rest, cut) {
    const found = this.split(rest);
    const whole = this.ended && !cut && !FENCE.test(found[found.length - 1]);
    const complete = whole ? found.length : found.length - 1;
    if (complete <= 0) return false;
    this.dropLast();
    for (const block of found.slice(0, complete)) {
      this.settled += block.length;
      this.append(render(block, this.links, this.lines));
    }
    return true;
  }

  // The raw texts of the blocks. White space goes with the block before it.
  split(source) {
    const texts = [];
    let tokens;
    try {
      tokens = blocks(source);
    } catch {
      return [source];
    }
    let length = 0;
    for (const token of tokens) {
      length += token.raw.length;
      if (token.type === "code" && FENCE.test(token.raw) && texts.length) {
        // A fence begins a step of its own.
        texts.push(source.slice(length - token.raw.length));
        return texts;
      }
      if (token.type === "space" && texts.length) texts[texts.length - 1] += token.raw;
      else texts.push(token.raw);
    }
    // Tabs and line ends may be rewritten by the lexer: then the text is one block.
    return texts.join("") === source ? texts : [source];
  }

  // Where the next block goes.
  place() {
    if (!this.chunk || this.chunk.childElementCount >= CHUNK) {
      this.chunk = document.createElement("div");
      this.chunk.className = "chunk";
      this.element.append(this.chunk);
    }
    return this.chunk;
  }

  append(fragment) {
    const block = document.createElement("div");
    block.className = "block";
    block.append(fragment);
    finishBlock(block);
    this.place().append(block);
  }

  dropLast() {
    this.last?.remove();
    this.last = null;
  }

  showLast(source) {
    if (!this.last) {
      this.last = document.createElement("div");
      this.last.className = "block";
      this.place().append(this.last);
    }
    const open = [...this.last.querySelectorAll("details")].map((one) => one.open);
    this.last.replaceChildren(render(source, this.links, this.lines));
    this.last.querySelectorAll("details").forEach((one, at) => { one.open = open[at] ?? one.open; });
  }

  // Ends at a line's end, if there is one in the second half.
  settlePlain(source) {
    const end = source.lastIndexOf("\n") + 1;
    const piece = end > source.length / 2 ? source.slice(0, end) : source;
    this.dropLast();
    this.settled += piece.length;
    this.append(plain(piece));
  }

  openFence(rest) {
    const match = FENCE.exec(rest);
    if (!match) return false;
    this.dropLast();
    const block = codeBlock(match[3].trim());
    this.place().append(block.element);
    const sign = match[2][0] === "`" ? "`" : "~";
    this.fence = {block, indent: match[1].length, inLine: false,
      end: new RegExp(`(?:^|\\n) {0,3}${sign}{${match[2].length},}[ \\t]*(?:\\n|$)`)};
    this.settled += match[0].length;
    return true;
  }

  // Adds what has come to the open code block. The line that is still growing may be the closing one.
  growFence() {
    const fence = this.fence;
    const rest = this.text.slice(this.settled);
    const found = fence.end.exec(rest);
    const match = found && !(fence.inLine && found.index === 0 && rest[0] !== "\n") ? found : null;
    if (match && (this.ended || match[0].endsWith("\n") || match.index + match[0].length < rest.length)) {
      fence.block.add(this.unindent(rest.slice(0, match.index)));
      this.settled += match.index + match[0].length;
      this.closeFence();
      return true;
    }
    if (this.ended) {
      fence.block.add(this.unindent(rest));
      this.settled = this.text.length;
      this.closeFence();
      return false;
    }
    const lines = rest.lastIndexOf("\n");
    if (lines > 0) {
      // The last line end stays: it may belong to the closing line.
      fence.block.add(this.unindent(rest.slice(0, lines)));
      this.settled += lines;
      fence.inLine = false;
    } else if (rest.length > MAX_LINE) {
      fence.block.add(rest);
      this.settled += rest.length;
      fence.inLine = true;
    }
    return false;
  }

  unindent(text) {
    return this.fence.indent ? text.replace(new RegExp(`(^|\\n) {1,${this.fence.indent}}`, "g"), "$1") : text;
  }

  closeFence() {
    this.fence.block.finish();
    this.fence = null;
  }
}

// A text that is complete already, with the line ends that were typed.
export function showTyped(element, text) {
  const shown = new StreamedText(element, undefined, true);
  shown.finish(text);
  return shown;
}
