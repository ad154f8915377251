// The page of the API: what /openapi.json says, by group, with a search and examples that can be sent.

import * as api from "./api.js";
import {askKey} from "./dialogs.js";
import {byId, el, fillIcons} from "./dom.js";
import {tryIt} from "./docs_try.js";
import * as format from "./format.js";
import {OpenApi} from "./openapi.js";
import {bindTheme} from "./theme_switch.js";

fillIcons();
bindTheme(byId("theme"));
api.onKeyNeeded(askKey);

let spec = null;
let model = "default";  // for examples
const entries = [];  // {operation, words, box, link}
const groups = [];   // {section, list, entries}

const method = (name) => el(`span.method.${name}`, {}, name.toUpperCase());

function fieldList(fields) {
  return el("ul.fields", {}, fields.map((field) => {
    const type = [field.type, field.limits, field.required ? "required" : "",
      field.fallback === undefined ? "" : `default ${JSON.stringify(field.fallback)}`].filter(Boolean).join(", ");
    const line = [el("code.name", {}, field.name), " ", el("span.type", {}, type), field.description && el("p", {}, field.description)];
    if (!field.fields.length) return el("li", {}, line);
    return el("li", {}, line, el("details.inner", {}, el("summary", {}, format.plural(field.fields.length, "field")), fieldList(field.fields)));
  }));
}

function answerView(answer) {
  const head = [el("code", {}, answer.status), " ", answer.description, answer.types.length ? el("span.type", {}, ` ${answer.types.join(", ")}`) : null];
  const fields = answer.schema ? spec.fields(answer.schema) : [];
  if (!fields.length) return el("p.status-line", {}, head);
  return el("details.inner", {}, el("summary.status-line", {}, head), fieldList(fields));
}

// What is inside an operation's box is made when it is opened first.
function fill(place, operation) {
  const body = spec.bodySchema(operation);
  if (operation.description) place.append(el("p", {}, operation.description));
  place.append(el("h4", {}, "Try it"), tryIt(operation, body !== null, model));
  if (body) {
    const fields = spec.fields(body);
    place.append(el("h4", {}, "Body"), fields.length ? fieldList(fields) : el("p.hint", {}, "An object."));
  }
  const answers = spec.answers(operation);
  const good = answers.filter((one) => one.status.startsWith("2")), bad = answers.filter((one) => !one.status.startsWith("2"));
  place.append(el("h4", {}, "Answer"), ...good.map(answerView));
  if (bad.length)
    place.append(el("details.inner", {}, el("summary", {}, `Errors: ${bad.map((one) => one.status).join(", ")}`), bad.map(answerView)));
}

function operationView(operation) {
  const inside = el("div.inside");
  const box = el("details.operation", {id: operation.id},
    el("summary", {}, method(operation.method), el("code.path", {}, operation.path), el("span.summary", {}, operation.summary)), inside);
  box.addEventListener("toggle", () => {
    if (box.open && !inside.firstChild) fill(inside, operation);
  });
  return box;
}

// All names of fields in it, and of those in them, so that a search finds them.
const namesOf = (fields) => fields.flatMap((field) => [field.name, ...namesOf(field.fields)]);

function wordsOf(operation, tag) {
  const body = spec.bodySchema(operation);
  const names = [...operation.parameters.map((one) => one.name), ...(body ? namesOf(spec.fields(body)) : [])];
  return [operation.method, operation.path, operation.summary, operation.description, operation.id, tag.name, ...names].join(" ").toLowerCase();
}

function addGroup({tag, operations}) {
  const section = el("section", {}, el("h2", {}, tag.name), tag.description && el("p.quiet", {}, tag.description));
  const list = el("div.group", {}, el("h3", {}, tag.name));
  const links = el("ul");
  const group = {section, list, entries: []};
  for (const operation of operations) {
    const box = operationView(operation);
    const link = el("li", {}, el("a", {href: `#${operation.id}`, title: operation.summary}, method(operation.method), el("span", {}, operation.path)));
    section.append(box);
    links.append(link);
    const entry = {operation, words: wordsOf(operation, tag), box, link};
    group.entries.push(entry);
    entries.push(entry);
  }
  list.append(links);
  groups.push(group);
  byId("operations").append(section);
  byId("contents").append(list);
}

function search() {
  const wanted = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0;
  for (const {operation, words, box, link} of entries) {
    const matches = wanted.every((word) => words.includes(word));
    box.hidden = link.hidden = !matches;
    if (matches) found++;
    // Says why an operation was found where its name does not.
    box.classList.toggle("by-field", matches && wanted.some((word) => !`${operation.path} ${operation.summary}`.toLowerCase().includes(word)));
  }
  for (const group of groups) group.section.hidden = group.list.hidden = group.entries.every((entry) => entry.box.hidden);
  byId("found").textContent = wanted.length ? `${found} of ${format.plural(entries.length, "operation")}` : format.plural(entries.length, "operation");
}

// The operation that the address names.
function openNamed() {
  const entry = entries.find((one) => one.operation.id === location.hash.slice(1));
  if (!entry) return;
  if (entry.box.hidden) {
    byId("search").value = "";
    search();
  }
  entry.box.open = true;
  entry.box.scrollIntoView();
  entry.box.querySelector("summary").focus({preventScroll: true});
}

async function load() {
  const about = byId("about");
  try {
    spec = new OpenApi(await api.json("/openapi.json"));
  } catch (error) {
    about.textContent = `openapi.json could not be read: ${error.message}`;
    return;
  }
  try {
    model = (await api.json("/v1/models", {quiet: true})).data[0]?.id || model;
  } catch {
    // Without a key the examples name none that is here.
  }
  const {info} = spec.document;
  about.textContent = `${info.title} ${info.version}. ${info.description}`;
  for (const group of spec.groups()) addGroup(group);
  search();
  openNamed();
}

byId("search").addEventListener("input", search);
addEventListener("hashchange", openNamed);
addEventListener("keydown", (event) => {
  const typing = /^(?:INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName);
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  byId("search").focus();
});
load();
