// A turn on the page: what the user wrote or an answer, with the buttons for it.

import {el, icon, iconButton} from "./dom.js";
import {textOf} from "./conversation.js";
import * as format from "./format.js";
import {itemView} from "./item_view.js";
import {splitFiles} from "./files.js";
import {showTyped} from "./streamed_text.js";

const LONG = 1500;  // characters of the user's text that are shown unfolded

export function turnView(turn, actions) {
  return turn.role === "user" ? new UserView(turn, actions) : new AnswerView(turn, actions);
}

// "2/3" with arrows, if the turn has siblings.
function siblingSwitch(turn, ids, actions) {
  if (ids.length < 2) return null;
  const at = ids.indexOf(turn.id);
  const go = (to) => () => actions.show(ids[to], turn);
  return el("span.siblings", {role: "group", "aria-label": "Versions"},
    iconButton("previous", "Previous version", go(at - 1), {disabled: at <= 0}),
    el("span", {"aria-label": `Version ${at + 1} of ${ids.length}`, role: "img"}, `${at + 1}/${ids.length}`),
    iconButton("next", "Next version", go(at + 1), {disabled: at >= ids.length - 1}));
}

class UserView {
  constructor(turn, actions) {
    Object.assign(this, {turn, actions});
    this.body = el("div.bubble");
    this.bar = el("div.bar");
    this.element = el("li.turn.user", {"data-turn": turn.id}, el("h2.visually-hidden", {}, "You"), this.body, this.bar);
    this.show();
  }

  show() {
    const {text, files} = splitFiles(this.turn.text);
    const shown = el("div.user-text.prose");
    this.body.replaceChildren();
    const {instructions} = this.turn;  // what the model reads before, also from an imported conversation
    if (instructions)
      this.body.append(el("details.file", {open: ""}, el("summary", {}, icon("file"), "Instructions of this conversation"),
        el("pre", {tabindex: "0", "aria-label": "Instructions of this conversation"}, instructions)));
    const images = this.turn.images || [];
    if (images.length)
      this.body.append(el("div.pictures", {}, images.map((url, at) =>
        el("img", {src: url, alt: images.length > 1 ? `Image ${at + 1} of ${images.length}` : "Image"}))));
    for (const file of files)
      this.body.append(el("details.file", {}, el("summary", {}, icon("file"), file.name,
        el("span.quiet", {}, format.bytes(new Blob([file.text]).size))), el("pre", {tabindex: "0", "aria-label": file.name}, file.text)));
    if (text.length > LONG) this.body.append(el("details.long-text", {}, el("summary", {}, `${text.slice(0, 200)}…`), shown));
    else if (text) this.body.append(shown);
    showTyped(shown, text);
  }

  update(ids, busy) {
    this.element.dataset.turn = this.turn.id;
    const {turn, actions} = this;
    this.bar.replaceChildren(...[siblingSwitch(turn, ids, actions),
      iconButton("copy", "Copy this message", () => actions.copy(turn)),
      iconButton("edit", "Edit this message", () => this.edit(), {disabled: busy}),
      iconButton("branch", "Branch into a new conversation", () => actions.branch(turn), {disabled: busy}),
    ].filter(Boolean));
  }

  edit() {
    if (this.element.classList.contains("editing")) return;
    const area = el("textarea", {"aria-label": "Edit the message", rows: "4"});
    area.value = this.turn.text;
    const close = () => {
      this.element.classList.remove("editing");
      this.show();
      this.bar.hidden = false;
      this.bar.querySelector("[aria-label='Edit this message']")?.focus();
    };
    const save = () => {
      if (!area.value.trim() && !this.turn.images) return;
      this.element.classList.remove("editing");
      this.actions.edit(this.turn, area.value);
    };
    area.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.stopPropagation();
        close();
      }
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        save();
      }
    });
    this.element.classList.add("editing");
    this.bar.hidden = true;
    this.body.replaceChildren(area, el("div.buttons", {},
      el("button.primary", {type: "button", onclick: save}, "Send"),
      el("button", {type: "button", onclick: close}, "Cancel")));
    area.focus();
  }
}

class AnswerView {
  constructor(turn, actions) {
    Object.assign(this, {turn, actions});
    this.items = [];
    this.parts = el("div.parts");
    this.waiting = el("p.waiting", {hidden: true}, el("span.dots", {"aria-hidden": "true"}), el("span"));
    this.ending = el("p.ending", {hidden: true});
    this.notice = el("div.notice", {hidden: true});
    this.bar = el("div.bar");
    this.element = el("li.turn.answer", {"data-turn": turn.id}, el("h2.visually-hidden", {}, "Answer"), this.parts,
      this.ending, this.waiting, this.notice, this.bar);
  }

  // item: the one that changed; null for any.
  updateItems(item = null) {
    const {turn} = this;
    turn.items.forEach((one, index) => {
      if (!one) return;
      let view = this.items[index];
      if (!view) {
        view = this.items[index] = itemView(one, turn, this.actions);
        this.parts.append(view.element);
        view.update();
      } else if (!item || item === one) {
        view.update();
      }
    });
    this.waiting.hidden = turn.status !== "running" || turn.items.some((one) => one && one.type !== "mcp_list_tools");
  }

  wait(text) {
    this.waiting.lastChild.textContent = text;
  }

  // Says what went wrong below the answer; buttons: [[label, action], ...].
  setNotice(text, buttons = []) {
    this.notice.hidden = !text;
    this.notice.replaceChildren();
    if (!text) return;
    this.notice.append(el("p", {role: "alert"}, text));
    if (buttons.length)
      this.notice.append(el("div.buttons", {}, buttons.map(([label, action]) =>
        el("button", {type: "button", onclick: action}, label))));
  }

  update(ids, busy) {
    const {turn, actions} = this;
    this.element.dataset.turn = turn.id;
    this.element.setAttribute("aria-busy", String(turn.status === "running"));
    this.updateItems();
    this.ending.textContent = endingOf(turn);
    this.ending.hidden = !this.ending.textContent;
    if (turn.status === "running") return this.bar.replaceChildren();
    this.bar.replaceChildren(...[siblingSwitch(turn, ids, actions),
      iconButton("copy", "Copy this answer", () => actions.copy(turn)),
      iconButton("again", "Generate this answer again", () => actions.regenerate(turn), {disabled: busy}),
      iconButton("branch", "Branch into a new conversation", () => actions.branch(turn), {disabled: busy}),
      el("span.meta", {}, describe(turn)),
    ].filter(Boolean));
  }
}

const SPEAKS = ["mcp_call", "mcp_approval_request", "function_call"];

// Why an answer ended, where its words do not tell.
function endingOf(turn) {
  if (turn.about?.cut === "answer_loop") return "Stopped here because the answer repeated itself.";
  if (turn.cut === "max_output_tokens")
    return "Stopped here at the limit of tokens, which is set in the settings or by the model's context. The answer is not complete.";
  if (turn.status !== "completed") return "";
  const said = turn.items.some((item) => SPEAKS.includes(item?.type) || (item?.type === "message" && textOf(item).trim()));
  return said ? "" : "The model ended its answer without a word.";
}

// "hybrid-146m · 1.2 s · 86 tok/s · 120 tokens · 93 % of the prompt from the cache".
export function describe(turn) {
  const parts = [];
  if (turn.model) parts.push(turn.model);
  if (turn.seconds >= 0.05) parts.push(format.seconds(turn.seconds));
  const usage = turn.usage;
  if (usage?.output_tokens) {
    const time = turn.generating || turn.seconds;
    if (time > 0.05) parts.push(`${Math.round(usage.output_tokens / time)} tok/s`);
    parts.push(format.plural(usage.output_tokens, "token"));
  }
  if (usage?.input_tokens) parts.push(`${format.percent(usage.cached_tokens / usage.input_tokens)} of the prompt from the cache`);
  const drafts = turn.speculation;
  if (drafts?.drafted) parts.push(`${format.percent(drafts.accepted / drafts.drafted)} of the drafts accepted`);
  if (turn.about?.stopped) parts.push(`stopped: ${turn.about.stopped}`);
  if (turn.about?.not_kept) parts.push(`not kept: ${turn.about.not_kept}`);
  if (turn.status === "incomplete" && turn.cut !== "max_output_tokens") parts.push("not finished");
  return parts.join(" · ");
}

