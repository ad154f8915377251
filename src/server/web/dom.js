// Small helpers for making and changing elements. Text always goes in as text, never as markup.

// el("button.primary.small", {onclick, "aria-label": "..."}, "text", child, ...): an element.
// Properties that begin with "on" are listeners; null and false leave an attribute out.
export function el(description, properties = {}, ...children) {
  const [tag, ...classes] = description.split(".");
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(" ");
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const byId = (id) => document.getElementById(id);

const SVG = "http://www.w3.org/2000/svg";

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

// Outlines on a grid of 24 by 24.
const ICONS = {
  menu: "M4 7h16M4 12h16M4 17h16",
  plus: "M12 5v14M5 12h14",
  close: "M6 6l12 12M18 6L6 18",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  copy: "M9 9h10v11H9zM5 15V4h10",
  check: "M5 13l4 4L19 7",
  again: "M19 12a7 7 0 1 1-2.1-5M19 4v4h-4",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  branch: "M6 4v16M6 14c7 0 11-3 11-8M14 8l3-3 3 3",
  previous: "M14 6l-6 6 6 6",
  next: "M10 6l6 6-6 6",
  down: "M12 5v14M6 13l6 6 6-6",
  settings: "M4 8h10M18 8h2M4 16h2M10 16h10M16 6v4M8 14v4",
  theme: "M12 4a8 8 0 1 0 8 8 6 6 0 0 1-8-8z",
  attach: "M19 11l-7.5 7.5a4.5 4.5 0 0 1-6.4-6.4L13 4.3a3 3 0 0 1 4.2 4.2l-7.7 7.7a1.4 1.4 0 0 1-2-2L14 7.6",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  tool: "M14.5 6.5a4 4 0 0 0-5 5L4 17l3 3 5.5-5.5a4 4 0 0 0 5-5L15 12l-3-3z",
  thought: "M9 18h6M10 21h4M12 3a6 6 0 0 0-3.5 10.9c.6.5.9 1.2.9 2.1h5.2c0-.9.3-1.6.9-2.1A6 6 0 0 0 12 3z",
  file: "M6 3h8l4 4v14H6zM14 3v4h4",
  keyboard: "M3 7h18v10H3zM7 11h.01M11 11h.01M15 11h.01M8 14h8",
};

export function icon(name) {
  const shape = svg("path", {d: ICONS[name]});
  return svg("svg", {viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true", focusable: "false"}, shape);
}

// A button that shows an icon only. The label is its name for screen readers and its tooltip.
export function iconButton(name, label, onclick, more = {}) {
  return el("button.icon-button", {type: "button", "aria-label": label, title: label, onclick, ...more}, icon(name));
}

// Puts icons into the page's own markup: <span data-icon="menu">.
export function fillIcons(root = document) {
  for (const place of root.querySelectorAll("[data-icon]")) place.replaceWith(icon(place.dataset.icon));
}

export function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // Pages of other machines without TLS have no clipboard object.
  const area = el("textarea.visually-hidden", {"aria-hidden": "true"});
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done ? Promise.resolve() : Promise.reject(new Error("The browser does not allow copying here."));
}

export function download(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], {type}));
  el("a", {href: address, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

// Tells screen readers, politely.
export function announce(text) {
  const place = byId("announcer");
  if (place) place.textContent = text;
}

let toastTimer = 0;
export function toast(text) {
  const place = byId("toast");
  place.textContent = text;
  place.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { place.hidden = true; }, 6000);
}
