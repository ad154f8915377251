// The operator's page: what the server tells of itself, every two seconds.

import * as api from "./api.js";
import {addToPlots, makePlots} from "./activity.js";
import {askKey} from "./dialogs.js";
import {byId, el, fillIcons} from "./dom.js";
import * as format from "./format.js";
import {bindTheme} from "./theme_switch.js";

const PAUSE_MS = 2000;

fillIcons();
bindTheme(byId("theme"));
api.onKeyNeeded(askKey);

const plots = makePlots();
byId("plots").append(...Object.values(plots).map((plot) => plot.element));
let before = null;

// pairs: [[name, value], ...]; values that are not known are left out.
function facts(id, pairs) {
  byId(id).replaceChildren(...pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, String(value)))));
}

// columns: [[heading, of(row) -> text or element, class], ...]
function table(id, columns, rows, none) {
  const place = byId(id);
  if (!rows.length) return place.replaceChildren(el("p", {}, none));
  place.replaceChildren(el("table", {},
    el("thead", {}, el("tr", {}, columns.map(([heading, , kind]) => el("th", {scope: "col", class: kind}, heading)))),
    el("tbody", {}, rows.map((row) => el("tr", {}, columns.map(([, of, kind]) => el("td", {class: kind}, of(row) ?? "")))))));
}

const GOOD = ["loaded", "connected", "ok"], BAD = ["failed", "device_lost", "stopping"];
const badge = (state) => el(`span.badge${GOOD.includes(state) ? ".good" : BAD.includes(state) ? ".bad" : ""}`, {}, state || "–");
const share = (part, whole) => (whole > 0 ? format.percent(part / whole) : null);

function showRequests(engine) {
  if (!engine) return facts("requests", [["State", "No model is loaded; requests load one."]]);
  facts("requests", [["Running", engine.running], ["Waiting", engine.queued], ["Since the start", format.count(engine.requests)],
    ["Finished", format.count(engine.finished)], ["Cancelled", format.count(engine.cancelled)], ["Failed", format.count(engine.failed)],
    ["Preempted", format.count(engine.preempted)], ["Prompt tokens", format.count(engine.prompt_tokens)],
    ["Generated tokens", format.count(engine.completion_tokens)],
    ["Drafts accepted", share(engine.speculation?.accepted, engine.speculation?.drafted)]]);
}

function showModels(models) {
  table("models", [
    ["Model", (model) => model.id],
    ["State", (model) => badge(model.state)],
    ["Running", (model) => model.engine?.running, "number"],
    ["Waiting", (model) => model.engine?.queued, "number"],
    ["Weights", (model) => model.weight_bytes && format.bytes(model.weight_bytes), "number"],
    ["Memory of requests", (model) => model.engine && `${format.bytes(model.engine.state_bytes)} of ${format.bytes(model.engine.state_budget_bytes)}`, "number"],
    ["Context", (model) => model.context_length && format.count(model.context_length), "number"],
    ["Unloaded after", (model) => (model.pinned ? "pinned" : model.unload_after_s ? format.seconds(model.unload_after_s) : "")],
  ], models, "No model is known yet.");
}

const MISSES = {nothing_alike: "no common prefix", new_text: "new text", differs: "differs", no_state: "no point to resume from", lost: "lost"};

function showCache(cache) {
  if (!cache) return facts("cache", [["State", "Off, or no model is loaded."]]);
  const misses = Object.entries(cache.misses || {}).filter(([, count]) => count).map(([name, count]) => `${MISSES[name] || name} ${count}`);
  const {disk} = cache;
  facts("cache", [["Tokens found", share(cache.cached_tokens, cache.prompt_tokens)], ["Lookups", format.count(cache.lookups)],
    ["Found in memory", format.count(cache.ram_hits)], ["Found on disk", format.count(cache.disk_hits)], ["Misses", misses.join(", ")],
    ["Latest miss", cache.last_miss], ["Memory", format.bytes(cache.ram_bytes)],
    ["Blocks and points", `${format.count(cache.blocks)} and ${format.count(cache.points)}`], ["Keys and values", cache.kv],
    ["Disk", disk && `${format.bytes(disk.bytes)} of ${format.bytes(disk.budget_bytes)}`], ["Trouble on disk", disk?.last_reason]]);
}

function showDevice(health) {
  const {memory, model} = health;
  const device = memory?.device;
  facts("device", [["Device", device ? device.name : "CPU"],
    ["Device memory", device && `${format.bytes(device.total_bytes - device.free_bytes)} of ${format.bytes(device.total_bytes)} in use`],
    ["This process", memory && format.bytes(memory.process.resident_bytes)],
    ["Machine", memory && `${format.bytes(memory.machine.available_bytes)} of ${format.bytes(memory.machine.total_bytes)} free`],
    ["Model", model?.id], ["Family", model?.family], ["Parameters", model && format.count(model.parameters)],
    ["Weights", model && format.bytes(model.weight_bytes)], ["Can draft with", model?.draft_sources?.join(", ")],
    ["Memory of a token", model?.sequence_bytes && format.bytes(model.sequence_bytes.per_token)]]);
}

// A server without MCP servers, or an older one, has neither route.
async function list(path) {
  try {
    return (await api.json(path, {quiet: true})).data || [];
  } catch {
    return [];
  }
}

async function showTools() {
  const [servers, calls] = await Promise.all([list("/v1/mcp/servers"), list("/v1/mcp/calls")]);
  table("mcp", [["Server", (one) => one.id], ["State", (one) => badge(one.state)], ["Transport", (one) => one.transport],
    ["Tools", (one) => (one.tools || []).map((tool) => tool.name).join(", "), "wide"],
    ["Error", (one) => (typeof one.error === "object" && one.error ? one.error.message : one.error), "wide"]],
  servers, "This server has no MCP servers.");
  table("calls", [["When", (one) => new Date(one.at * 1000).toLocaleTimeString()], ["Server", (one) => one.server_label],
    ["Tool", (one) => one.name], ["Time", (one) => format.seconds(one.seconds), "number"],
    ["Result", (one) => format.bytes(one.output_bytes), "number"], ["Error", (one) => one.error, "wide"]],
  calls, "No tool was called since the start.");
}

function show(health) {
  byId("summary").replaceChildren(badge(health.status), ` version ${health.version}, running for ${format.seconds(health.uptime_s)}`);
  addToPlots(plots, before, health);
  before = health;
  showRequests(health.engine);
  showModels(health.models || []);
  showCache(health.cache);
  showDevice(health);
}

function tell(trouble) {
  byId("gone").textContent = trouble;
  byId("gone").hidden = !trouble;
}

let timer = 0;
async function look() {
  clearTimeout(timer);
  if (document.hidden) return;
  let pause = PAUSE_MS;
  try {
    const health = await api.json("/health");
    if (health.version === undefined) await api.json("/v1/models");  // only requests with a key get more: asks for it
    else show(health);
    if (health.version !== undefined) await showTools();
    else pause = 0;
    tell("");
  } catch (error) {
    tell(error.status === 503 ? "The server is stopping." : error.message);
    if (error.lasting) return;  // the page asks again when it is looked at again
  }
  timer = setTimeout(look, pause);
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) look();
});
look();
