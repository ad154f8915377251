// The parts of an answer on the page: thoughts, text, calls of tools and requests for consent.

import {el, icon} from "./dom.js";
import * as format from "./format.js";
import {textOf} from "./conversation.js";
import {indented, visible} from "./outside_text.js";
import {StreamedText} from "./streamed_text.js";

const MAX_SHOWN = 20000;  // characters of a tool's result

export function itemView(item, turn, actions) {
  const make = VIEWS[item.type];
  return make ? make(item, turn, actions) : {element: el("span", {hidden: true}), update() {}};
}

// A text with Markdown that grows until its item is complete.
class TextPart {
  constructor(element, item, changed) {
    this.item = item;
    this.text = new StreamedText(element, changed);
  }

  update(complete) {
    if (complete) this.text.ended || this.text.finish(textOf(this.item));
    else this.text.set(textOf(this.item));
  }
}

function messageView(item, turn, actions) {
  const element = el("div.prose");
  const part = new TextPart(element, item, actions.drawn);
  return {element, update() { part.update(item.status !== "in_progress" || turn.status !== "running"); }};
}

function thoughtSummary(item, turn) {
  const thought = turn.thinking[item.id] || {};
  if (thought.begin) return "Thinking…";
  const parts = [];
  if (thought.seconds >= 0.1) parts.push(`for ${format.seconds(thought.seconds)}`);
  if (thought.tokens) parts.push(format.plural(thought.tokens, "token"));
  return parts.length ? `Thought ${parts.join(" · ")}` : "Thoughts";
}

function thoughtView(item, turn, actions) {
  const label = el("span", {}, "Thinking…");
  const body = el("div.prose");
  const element = el("details.thought", {}, el("summary", {}, icon("thought"), label), body);
  // A folded thought is not drawn before it is opened.
  let part = null;
  const update = () => {
    const running = !!turn.thinking[item.id]?.begin && turn.status === "running";
    label.textContent = thoughtSummary(item, turn);
    element.classList.toggle("running", running);
    if (element.open) {
      part ||= new TextPart(body, item, actions.drawn);
      part.update(!running);
    }
  };
  element.addEventListener("toggle", update);
  return {element, update};
}

function limited(text) {
  return text.length <= MAX_SHOWN ? text
    : `${text.slice(0, MAX_SHOWN)}\n… ${format.count(text.length - MAX_SHOWN)} more characters`;
}

function field(name, text) {
  return [el("h3.field-name", {}, name), el("pre.field", {tabindex: "0", "aria-label": name}, text)];
}

const CALL_STATES = {in_progress: "running", completed: "done", failed: "failed", incomplete: "not finished", open: "not run"};

function callView(item) {
  const state = el("span.state");
  const title = el("span.tool-name");
  const body = el("div.tool-body");
  const element = el("details.tool", {}, el("summary", {}, icon("tool"), title, state), body);
  let shown = "";
  const update = () => {
    title.textContent = visible(item.server_label ? `${item.server_label}: ${item.name}` : item.name);
    const status = item.error ? "failed" : item.status || "in_progress";
    state.textContent = CALL_STATES[status] || status;
    state.dataset.state = status;
    const now = JSON.stringify([item.arguments, item.output, item.error]);
    if (now === shown) return;
    shown = now;
    const shorten = (text) => visible(limited(text));
    body.replaceChildren(...field("Arguments", shorten(indented(item.arguments))));
    if (item.error) body.append(...field("Error", shorten(typeof item.error === "string" ? item.error : JSON.stringify(item.error))));
    else if (item.output !== null && item.output !== undefined) body.append(...field("Result", shorten(indented(item.output))));
  };
  return {element, update};
}

// The page offers no functions of its own: such a call is of a tool that the model made up.
function unknownCallView(item) {
  const note = el("p.call-note", {}, "The model called ", el("strong", {}, visible(item.name)),
    ", which is not among the tools that it was given. Nothing was run.");
  const body = el("div.tool-body");
  const element = el("div", {}, note, el("details.tool", {}, el("summary", {}, icon("tool"), "The call"), body));
  let shown = null;
  const update = () => {
    if (item.arguments === shown) return;
    shown = item.arguments;
    body.replaceChildren(...field("Arguments", visible(limited(indented(item.arguments)))));
  };
  return {element, update};
}

const DECISIONS = {once: "allowed once", always: "allowed from now on", no: "not allowed", never: "never allowed",
  gone: "not answered"};

// The arguments come after the item itself. Buttons appear when the answer has ended: then the arguments are complete, and they
// are shown whole, so that nothing is allowed that was not seen.
function approvalView(item, turn, actions) {
  const element = el("div.consent", {role: "group", tabindex: "-1", "aria-label": `Permission for ${visible(item.name)}`});
  const answer = (decision) => () => actions.decide(turn, item, decision);
  const buttons = () => el("div.buttons", {},
    el("button.primary", {type: "button", onclick: answer("once")}, "Allow once"),
    el("button", {type: "button", onclick: answer("always")}, "Always allow this tool"),
    el("button", {type: "button", onclick: answer("no")}, "Not now"),
    el("button", {type: "button", onclick: answer("never")}, "Never"));
  let shown = null;
  const update = () => {
    const complete = turn.status !== "running";
    const now = JSON.stringify([item.decision, item.arguments, complete]);
    if (now === shown) return;
    shown = now;
    element.classList.toggle("decided", !!item.decision);
    if (item.decision) {
      element.replaceChildren(icon("tool"), el("span.tool-name", {}, visible(item.name)), el("span", {}, DECISIONS[item.decision]));
      return;
    }
    element.replaceChildren(el("p.consent-question", {}, icon("tool"),
      el("span", {}, "The model wants to run ", el("strong", {}, visible(item.name)), " on the server ",
        el("strong", {}, visible(item.server_label)), ".")));
    if (item.arguments) element.append(...field("Arguments", visible(indented(item.arguments))));
    else element.append(el("p.hint", {}, complete ? "The call has no arguments." : "The arguments are on their way."));
    if (complete) element.append(buttons());
  };
  return {element, update};
}

// Tools are listed in each response; only a failure is worth a line.
function listView(item) {
  const element = el("p.tool-list-error", {role: "note", hidden: true});
  return {element, update() {
    element.hidden = !item.error;
    if (!item.error) return;
    const reason = typeof item.error === "string" ? item.error : item.error.message || JSON.stringify(item.error);
    element.textContent = `The tools of ${item.server_label} are not available: ${reason}`;
  }};
}

const VIEWS = {
  message: messageView,
  reasoning: thoughtView,
  mcp_call: callView,
  function_call: unknownCallView,
  mcp_approval_request: approvalView,
  mcp_list_tools: listView,
};
