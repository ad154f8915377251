// The text of PDF files, which goes with a message as a text file does. PDF.js reads them in a worker and is loaded with the first.

import * as format from "./format.js";

const MAX_FILE = 32 * 1024 * 1024;  // bytes
const MAX_TEXT = 512 * 1024;        // characters
const MAX_PAGES = 500;
const MAX_SECONDS = 60;

export const isPdf = (file) => file.type === "application/pdf" || /\.pdf$/i.test(file.name);

let library = null;
const load = () => (library ??= import("./vendor/pdf.js").then((module) => module.default));

// The address of the worker is a script's, so Trusted Types ask for a policy. This one knows a single address.
const WORKER = new URL("./vendor/pdf.worker.js", import.meta.url).href;
const policy = globalThis.trustedTypes?.createPolicy("pdf-worker", {createScriptURL: () => WORKER});

async function pagesOf(document, name) {
  if (document.numPages > MAX_PAGES) throw new Error(`${name} has ${format.count(document.numPages)} pages, and at most ${MAX_PAGES} are read.`);
  const pages = [];
  let length = 0;
  for (let number = 1; number <= document.numPages; number++) {
    const page = await document.getPage(number);
    const {items} = await page.getTextContent();
    const text = items.map((item) => item.str + (item.hasEOL ? "\n" : "")).join("").replace(/[\u0000-\u0008\u000b-\u001f]/g, "").trim();
    page.cleanup();
    length += text.length;
    if (length > MAX_TEXT) throw new Error(`${name} has more text than fits: at most ${format.bytes(MAX_TEXT)} are taken.`);
    if (text) pages.push(text);
  }
  if (!pages.length) throw new Error(`${name} has no text: its pages may be pictures.`);
  return pages.join("\n\n");
}

function explained(error, name) {
  if (error.name === "PasswordException") return new Error(`${name} is protected by a password.`);
  if (/Exception$/.test(error.name)) return new Error(`${name} is no PDF file that can be read.`);
  return error;
}

// {name, text}; throws an Error that says why the file is not taken.
export async function readPdf(file) {
  if (file.size > MAX_FILE)
    throw new Error(`${file.name} is too large: ${format.bytes(file.size)}, and at most ${format.bytes(MAX_FILE)} are taken.`);
  const pdf = await load();
  const port = new Worker(policy ? policy.createScriptURL("") : WORKER);
  const worker = new pdf.PDFWorker({port, verbosity: 0});
  let timer = 0;
  try {
    const task = pdf.getDocument({data: await file.arrayBuffer(), worker, isEvalSupported: false, disableFontFace: true,
      useSystemFonts: false, verbosity: 0});
    const late = new Promise((_, failed) => {
      timer = setTimeout(() => failed(new Error(`Reading ${file.name} takes too long.`)), MAX_SECONDS * 1000);
    });
    const text = await Promise.race([task.promise.then((document) => pagesOf(document, file.name)), late]);
    return {name: file.name.replace(/["<>\n]/g, "_"), text};
  } catch (error) {
    throw explained(error, file.name);
  } finally {
    clearTimeout(timer);
    port.terminate();
  }
}
