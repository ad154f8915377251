// The example of an operation: a request that can be changed, copied as a command and sent.

import * as api from "./api.js";
import {announce, copyText, el} from "./dom.js";
import {BODIES, MODEL, PARAMETERS} from "./docs_examples.js";
import * as format from "./format.js";
import {indented, visible} from "./outside_text.js";

const MAX_SHOWN = 200000;  // characters of an answer

const quoted = (text) => `'${text.replace(/'/g, "'\\''")}'`;

async function copy(button, text) {
  const before = button.textContent;
  try {
    await copyText(text);
    button.textContent = "Copied";
    announce("Copied.");
  } catch {
    button.textContent = "Not copied";
  }
  setTimeout(() => { button.textContent = before; }, 2000);
}

// model: the name of one that is here.
export function tryIt(operation, takesBody, model) {
  const given = PARAMETERS[operation.id] || {};
  const inputs = operation.parameters.filter((one) => one.in !== "header").map((one) => {
    const input = el("input", {type: "text", id: `${operation.id}-${one.name}`, autocomplete: "off", spellcheck: "false",
      placeholder: one.required ? "needed" : ""});
    input.value = given[one.name] ?? "";
    return {...one, input};
  });
  const body = takesBody ? el("textarea", {rows: "7", spellcheck: "false", "aria-label": `Body of ${operation.summary}`}) : null;
  if (body) {
    body.value = JSON.stringify(BODIES[operation.id] ?? {}, (_, value) => (value === MODEL ? model : value), 2);
    body.rows = Math.min(16, body.value.split("\n").length + 1);
  }

  const path = () => {
    let text = operation.path;
    const query = new URLSearchParams();
    for (const {name, in: where, input} of inputs) {
      if (where === "path") text = text.replace(`{${name}}`, input.value ? encodeURIComponent(input.value) : `{${name}}`);
      else if (input.value) query.set(name, input.value);
    }
    return query.size ? `${text}?${query}` : text;
  };
  const command = () => {
    const words = ["curl", quoted(new URL(path().slice(1), document.baseURI).href)];
    if (operation.method !== "get") words.push("-X", operation.method.toUpperCase());
    if (api.hasKey()) words.push("-H", '"Authorization: Bearer $KEY"');
    if (body) words.push("-H", quoted("Content-Type: application/json"), "-d", quoted(body.value));
    return words.join(" ");
  };

  const line = el("p.answer-line", {role: "status"});
  const answer = el("pre.field", {tabindex: "0", "aria-label": "Answer"});
  const result = el("div.result", {hidden: true}, line, answer);
  let abort = null;
  const send = el("button.primary", {type: "button"}, "Send");
  const show = (text) => { answer.textContent = visible(indented(text.slice(0, MAX_SHOWN))); };

  async function go() {
    const missing = inputs.find((one) => one.required && !one.input.value);
    if (missing) return missing.input.focus();
    abort = new AbortController();
    send.textContent = "Stop";
    result.hidden = false;
    line.textContent = "Waiting…";
    answer.textContent = "";
    const begin = performance.now();
    let text = "";
    try {
      const response = await api.answered(path(), {method: operation.method.toUpperCase(), text: body?.value, signal: abort.signal, insist: true});
      const head = `${response.status} ${response.statusText}`.trim();
      result.dataset.good = String(response.ok);
      line.textContent = head;
      const reader = response.body.getReader(), decoder = new TextDecoder();
      for (;;) {
        const {done, value} = await reader.read();
        if (done) break;
        text += decoder.decode(value, {stream: true});
        if (text.length <= MAX_SHOWN) answer.textContent = visible(text);
      }
      show(text);
      line.textContent = `${head}, ${format.bytes(new Blob([text]).size)} in ${format.seconds((performance.now() - begin) / 1000)}`;
    } catch (error) {
      result.dataset.good = "false";
      line.textContent = abort.signal.aborted ? "Stopped." : error.message;
    }
    abort = null;
    send.textContent = "Send";
  }
  send.addEventListener("click", () => (abort ? abort.abort() : go()));

  const copyCommand = el("button", {type: "button"}, "Copy as curl");
  copyCommand.addEventListener("click", () => copy(copyCommand, command()));
  const copyBody = body && el("button", {type: "button"}, "Copy the body");
  copyBody?.addEventListener("click", () => copy(copyBody, body.value));

  return el("div.try", {}, inputs.map((one) => el("div.parameter", {},
    el("label", {for: one.input.id}, el("code", {}, one.name), one.required ? "" : " (optional)"), one.input,
    one.description && el("p.hint", {}, one.description))),
  body, el("div.buttons.start", {}, send, copyCommand, copyBody), result);
}
