// The dialog with a conversation's settings. Changes hold at once.

import {byId, el} from "./dom.js";
import {allDecisions, decide, forgetDecisions} from "./consent.js";
import * as format from "./format.js";
import {DEFAULTS, NUMBERS} from "./settings.js";

const THINKING = [["auto", "When it helps"], ["on", "Always"], ["off", "Never"]];
const SOURCES = {ngram: "Repeated text (ngram)", mtp: "The model's own prediction head (mtp)", draft: "The draft model (draft)",
  exit: "Early layers (exit)", skip: "Skipped layers (skip)"};

const remark = (text) => (text ? ` (${text})` : "");

export class SettingsPanel {
  // changed(settings): after each change. server(): {models, sources, mcp, asking}, as far as known. askForTools():
  // has the servers of tools tell what they offer.
  constructor(changed, server, askForTools) {
    Object.assign(this, {changed, server, askForTools});
    this.dialog = byId("settings-dialog");
    this.body = byId("settings-body");
    byId("settings-reset").addEventListener("click", () => this.reset());
    byId("model").addEventListener("change", (event) => this.set("model", event.target.value));
  }

  use(settings) {
    this.settings = {...settings};
    this.showModels();
    if (this.dialog.open) this.show();
  }

  set(name, value) {
    this.settings = {...this.settings, [name]: value};
    this.changed(this.settings);
  }

  open() {
    this.show();
    this.dialog.showModal();
    this.askForTools();
  }

  reset() {
    this.settings = {...DEFAULTS, tools: []};
    this.changed(this.settings);
    this.use(this.settings);
  }

  // The list at the top of the page.
  showModels() {
    const select = byId("model");
    const {models} = this.server();
    const wanted = this.settings?.model || "";
    const names = models.map((model) => model.id);
    const first = models.find((model) => model.state === "loaded");
    const options = [["", first ? `${first.id} (default${first.chat === false ? ", continues texts" : ""})` : "Default model"],
      ...models.filter((model) => model !== first || model.id === wanted).map((model) => [model.id,
        `${model.id}${remark(model.chat === false ? "continues texts" : model.state === "loaded" ? "" : model.state || "not loaded")}`])];
    if (wanted && !names.includes(wanted)) options.push([wanted, `${wanted} (not here)`]);
    select.replaceChildren(...options.map(([value, label]) => el("option", {value, selected: value === wanted}, label)));
    select.value = wanted;
  }

  show() {
    this.toolsGroup = this.tools();
    this.body.replaceChildren(this.instructions(), this.thinking(), this.sampling(), this.speculation(), this.toolsGroup);
  }

  // The list of tools comes late: their servers have to start. Nothing else is touched, as the user may be typing.
  showTools() {
    if (!this.dialog.open) return;
    const tools = this.tools();
    this.toolsGroup.replaceWith(tools);
    this.toolsGroup = tools;
  }

  group(title, ...children) {
    return el("fieldset", {}, el("legend", {}, title), children);
  }

  select(name, label, options, hint) {
    const select = el("select", {id: `set-${name}`, onchange: (event) => this.set(name, event.target.value)},
      options.map(([value, text]) => el("option", {value}, text)));
    select.value = this.settings[name];
    return el("div.setting", {}, el("label", {for: `set-${name}`}, label), select, hint && el("p.hint", {}, hint));
  }

  // What counts while a field is empty, as far as the server tells.
  standard(name) {
    const {models} = this.server();
    const model = models.find((one) => one.id === this.settings.model) || (this.settings.model ? null : models.find((one) => one.state === "loaded"));
    const value = model?.defaults?.[name];
    if (value !== undefined) return `${value} (default)`;
    if (name === "max_output_tokens" && model?.context_length) return `up to the context of ${format.count(model.context_length)}`;
    if (name === "seed") return "another each time";
    return "default";
  }

  number(name, label, minimum, maximum, step, hint) {
    const input = el("input", {id: `set-${name}`, type: "number", min: minimum, max: maximum, step: "any", inputmode: "decimal",
      placeholder: this.standard(name), "aria-describedby": `hint-${name}`});
    input.value = this.settings[name] ?? "";
    input.addEventListener("change", () => {
      const value = input.value.trim() === "" ? null : Number(input.value);
      const whole = step === 1 && value !== null && !Number.isInteger(value);
      const wrong = whole || (value !== null && (!Number.isFinite(value) || value < minimum || value > maximum));
      input.setAttribute("aria-invalid", String(wrong));
      line.textContent = wrong ? `${whole ? "A whole number" : "A number"} from ${minimum} to ${maximum}, or nothing.` : hint;
      line.classList.toggle("wrong", wrong);
      if (!wrong) this.set(name, value);
    });
    const line = el("p.hint", {id: `hint-${name}`}, hint);
    return el("div.setting", {}, el("label", {for: `set-${name}`}, label), input, line);
  }

  instructions() {
    const area = el("textarea", {id: "set-instructions", rows: "4", onchange: (event) =>
      this.set("instructions", event.target.value)});
    area.value = this.settings.instructions;
    return this.group("System prompt", el("label.visually-hidden", {for: "set-instructions"}, "System prompt"), area);
  }

  thinking() {
    return this.group("Thinking", this.select("thinking", "Think before answering", THINKING),
      this.number("max_thinking_tokens", "Most tokens of thoughts", 0, 10000000, 1, "0 turns thinking off."));
  }

  sampling() {
    return this.group("Sampling", el("div.columns", {}, NUMBERS.map((description) => this.number(...description))));
  }

  speculation() {
    const options = [["", "As the server decides"], ["auto", "Whatever is fastest (auto)"], ["off", "Off"]];
    for (const source of this.server().sources) options.push([source, SOURCES[source] || source]);
    const wanted = this.settings.speculation;
    if (!options.some(([value]) => value === wanted)) options.push([wanted, `${wanted} (this model has none)`]);
    return this.group("Speculation", this.select("speculation", "Drafts", options,
      "Drafts change the speed, never the text."));
  }

  tools() {
    const {mcp, asking} = this.server();
    const chosen = new Set(this.settings.tools);
    const lines = mcp.map((server) => {
      const box = el("input", {type: "checkbox", id: `tool-${server.id}`, onchange: (event) => {
        if (event.target.checked) chosen.add(server.id);
        else chosen.delete(server.id);
        this.set("tools", [...chosen]);
      }});
      box.checked = chosen.has(server.id);
      const about = server.error || (server.tools || []).map((tool) => tool.name).join(", ")
        || (asking ? "asking…" : server.state === "idle" ? "not started" : server.state);
      return el("div.setting.check", {}, box, el("label", {for: `tool-${server.id}`}, server.id), el("p.hint", {}, about));
    });
    if (!mcp.length) lines.push(el("p.hint", {}, asking ? "Asking the servers of tools…"
      : "This server offers no tools. Its operator can add MCP servers."));
    return this.group("Tools", lines, this.decisions());
  }

  decisions() {
    const decided = allDecisions();
    if (!decided.length) return [];
    const forget = (one) => () => {
      decide(one.server, one.tool, "ask");
      this.show();
    };
    return [el("ul.decisions", {}, decided.map((one) => el("li", {},
      el("span", {}, `${one.server}: ${one.tool} – ${one.decision === "always" ? "always allowed" : "never allowed"}`),
      el("button.small", {type: "button", onclick: forget(one), "aria-label": `Ask again for ${one.tool}`}, "Ask again")))),
    el("button.small", {type: "button", onclick: () => {
      forgetDecisions();
      this.show();
    }}, "Ask again for all tools")];
  }
}
