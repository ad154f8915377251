// Text files that go with a message: reading them, refusing what is no text, and their place in the message.

import * as format from "./format.js";

export const MAX_FILE = 256 * 1024;   // bytes
export const MAX_TOTAL = 1024 * 1024;
export const MAX_FILES = 16;

// {name, text}; throws an Error that says why the file is not taken.
export async function readTextFile(file) {
  if (file.size > MAX_FILE)
    throw new Error(`${file.name} is too large: ${format.bytes(file.size)}, and at most ${format.bytes(MAX_FILE)} are taken.`);
  if (file.size === 0) throw new Error(`${file.name} is empty.`);
  let text;
  try {
    text = new TextDecoder("utf-8", {fatal: true}).decode(await file.arrayBuffer());
  } catch {
    throw new Error(`${file.name} is not a text file: only UTF-8 text can be read.`);
  }
  if (/[\u0000-\u0008\u000e-\u001a\u001c-\u001f]/.test(text)) throw new Error(`${file.name} is a binary file; only text files are taken.`);
  return {name: file.name.replace(/["<>\n]/g, "_"), text};
}

// The message as the model gets it: the files first, then what the user wrote.
export function joinFiles(text, files) {
  const parts = files.map((file) => `<file name="${file.name}">\n${file.text.replace(/\n$/, "")}\n</file>\n`);
  return parts.join("") + (parts.length && text ? "\n" : "") + text;
}

// Takes such a message apart again.
export function splitFiles(message) {
  const files = [];
  let rest = message;
  for (;;) {
    const match = /^<file name="([^"\n]*)">\n([\s\S]*?)\n<\/file>\n/.exec(rest);
    if (!match) break;
    files.push({name: match[1], text: match[2]});
    rest = rest.slice(match[0].length);
  }
  return {text: files.length ? rest.replace(/^\n/, "") : rest, files};
}
