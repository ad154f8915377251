// Puts the page together.

import * as api from "./api.js";
import {Activity} from "./activity.js";
import {Chat} from "./chat.js";
import {Composer} from "./composer.js";
import {byId, fillIcons, toast} from "./dom.js";
import {askKey, showShortcuts} from "./dialogs.js";
import {choice, choose, clean} from "./settings.js";
import {SettingsPanel} from "./settings_panel.js";
import {bindShortcuts} from "./shortcuts.js";
import {Sidebar} from "./sidebar.js";
import {bindTheme} from "./theme_switch.js";

const LAST = "anabranch.open";
const server = {models: [], sources: [], mcp: [], asking: true, model: ""};  // model: for requests that name none
const narrow = matchMedia("(max-width: 56rem)");

fillIcons();
api.onKeyNeeded(askKey);

const keeps = () => byId("keep").checked;
byId("keep").checked = choice("keep", "no") === "yes";

const chat = new Chat({
  keeps, opened, busy, listChanged: () => sidebar.refresh(), servers: () => (server.asking && !server.mcp.length ? null : server.mcp),
  waiting: () => activity.waiting(), continues,
});
const composer = new Composer({send: (text, images) => chat.send(text, images), stop: () => chat.stop()});
const sidebar = new Sidebar({keeps, open: (id) => go(id), fresh, current: () => chat.conversation?.id, renamed});
const panel = new SettingsPanel(changeSettings, () => server, () => askForTools());
const activity = new Activity(byId("plots"), {busy: () => chat.busy, gone, news});
const theme = bindTheme(byId("theme"));

// ---- Which conversation the address names.

function setAddress(id) {
  const address = id ? `#${id}` : " ";
  if (location.hash !== (id ? address : "")) history.replaceState(null, "", id ? address : location.pathname);
  try {
    sessionStorage.setItem(LAST, id || "");
  } catch {
    // The address alone then tells.
  }
}

function opened(conversation) {
  setAddress(conversation.id);
  const title = conversation.title || "New conversation";
  byId("title").textContent = title;
  document.title = conversation.title ? `${title} – Anabranch` : "Anabranch";
  byId("kept-note").textContent = !conversation.id ? "" : conversation.kept ? "kept on this server" : "only in this tab";
  panel.use(clean(conversation.settings));
  offerInput();
  sidebar.refresh();
}

async function go(id) {
  closeSidebar();
  try {
    await chat.open(id);
  } catch (error) {
    chat.fresh();
    toast(error.status === 404 ? "That conversation is not here: it was deleted, or belongs to another key." : error.message);
  }
  composer.focus();
}

function fresh() {
  chat.fresh();
  closeSidebar();
  composer.focus();
}

function renamed(id, title) {
  if (chat.conversation.id !== id) return;
  chat.conversation.title = title;
  opened(chat.conversation);
}

addEventListener("hashchange", () => {
  const id = location.hash.slice(1);
  if (id) go(id);
});

// ---- The server.

function busy(isBusy) {
  composer.setBusy(isBusy);
  if (isBusy) activity.soon(0);  // shows why it takes long
}

function gone(isGone) {
  byId("gone").hidden = !isGone;
  if (!isGone) loadServer({quiet: true});
}

// The model that answers, as far as it is known.
function currentModel() {
  const wanted = chat.conversation?.settings.model || server.model;
  return server.models.find((one) => one.id === wanted) || server.models[0];
}

// A model without a chat template.
function continues() {
  return currentModel()?.chat === false;
}

// What the model that answers takes.
function offerInput() {
  composer.offer(!!currentModel()?.architecture?.input_modalities?.includes("image"), continues());
  byId("starters").hidden = continues();
  byId("welcome-title").textContent = continues() ? "Which text shall I continue?" : "What can I do for you?";
  byId("welcome-note").textContent = continues()
    ? "This model has no chat template: it does not answer, it continues what you write."
    : "The model runs on this server. Text and PDF files can be dropped anywhere on the page.";
}

function changeSettings(settings) {
  chat.changeSettings(settings);
  offerInput();
}

let modelStates = "";
function news(health) {
  server.sources = health.model?.draft_sources || server.sources;
  server.model = health.model?.id || server.model;
  offerInput();
  const states = JSON.stringify((health.models || []).map((model) => [model.id, model.state]));
  if (modelStates && states !== modelStates) loadServer({quiet: true});
  modelStates = states;
}

// quiet: not at the user's wish, so a missing key is not asked for.
async function loadServer(options = {}) {
  try {
    server.models = (await api.json("/v1/models", options)).data;
  } catch (error) {
    if (error.kind !== "offline" && error.kind !== "key") toast(error.message);
    return;
  }
  panel.showModels();
  offerInput();
  await loadTools(() => api.json("/v1/mcp/servers", {quiet: true}));
  sidebar.refresh();  // a key may have come
}

// look(): the list of the servers of tools. To see it starts none of them; askForTools() does.
async function loadTools(look) {
  server.asking = true;
  panel.showTools();
  try {
    server.mcp = (await look()).data;
  } catch {
    // A server without MCP servers, or one that does not let this key ask them: what is known stays.
  }
  server.asking = false;
  panel.showTools();
}

const askForTools = () => loadTools(() => api.post("/v1/mcp/servers", {}, {quiet: true}));

// ---- The sidebar on narrow pages.

function openSidebar() {
  document.body.classList.add("sidebar-open");
  byId("main").inert = narrow.matches;
  byId("sidebar").inert = false;
  byId("search").focus();
}

function closeSidebar() {
  document.body.classList.remove("sidebar-open");
  byId("main").inert = false;
  byId("sidebar").inert = narrow.matches;
}

function toggleSidebar() {
  if (!narrow.matches) return document.body.classList.toggle("sidebar-hidden");
  if (document.body.classList.contains("sidebar-open")) {
    closeSidebar();
    byId("open-sidebar").focus();
  } else {
    openSidebar();
  }
}
narrow.addEventListener("change", closeSidebar);
closeSidebar();

// ---- Actions by button and by key.

const lastTurn = (role) => chat.conversation.path().filter((turn) => turn.role === role).pop();
const viewOf = (turn) => turn && chat.transcript.view(turn);

function step(by) {
  const turn = lastTurn("assistant");
  if (!turn) return;
  const ids = chat.conversation.siblings(turn);
  const id = ids[ids.indexOf(turn.id) + by];
  if (id) chat.show(id, turn);
}

function escape() {
  if (document.body.classList.contains("sidebar-open")) toggleSidebar();
  else chat.stop();
}

const shortcuts = bindShortcuts({
  stop: escape, fresh, compose: () => composer.focus(), settings: () => panel.open(), theme, sidebar: toggleSidebar,
  help: () => showShortcuts(shortcuts),
  search() {
    document.body.classList.remove("sidebar-hidden");
    if (narrow.matches) openSidebar();
    byId("search").focus();
  },
  regenerate: () => chat.regenerate(lastTurn("assistant")),
  edit: () => viewOf(lastTurn("user"))?.edit(),
  branch: () => lastTurn("assistant") && chat.branch(lastTurn("assistant")),
  copy: () => lastTurn("assistant") && chat.copy(lastTurn("assistant")),
  previous: () => step(-1), next: () => step(1),
  attach: () => byId("attach").click(),
  options: () => chat.conversation.id && sidebar.options(chat.conversation),
});

byId("new").addEventListener("click", fresh);
byId("open-sidebar").addEventListener("click", toggleSidebar);
byId("close-sidebar").addEventListener("click", toggleSidebar);
byId("backdrop").addEventListener("click", toggleSidebar);
byId("settings").addEventListener("click", () => panel.open());
byId("shortcuts").addEventListener("click", () => showShortcuts(shortcuts));
byId("skip").addEventListener("click", () => composer.focus());
byId("keep").addEventListener("change", () => {
  choose("keep", keeps() ? "yes" : "no");
  sidebar.refresh();
});
for (const button of document.querySelectorAll("[data-prompt]"))
  button.addEventListener("click", () => {
    composer.set(button.dataset.prompt, composer.files, composer.images);
    composer.focus();
  });

// ---- Begin: the conversation that was open before a reload.

const wanted = location.hash.slice(1) || sessionStorage.getItem(LAST);
loadServer();
chat.fresh();
if (wanted) go(wanted);
else composer.focus();
