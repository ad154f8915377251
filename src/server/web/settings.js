// The settings of a conversation, their defaults, and what they become in a request.

const KEY = "anabranch.settings";

export const DEFAULTS = {
  model: "",            // the server's own choice
  instructions: "",
  temperature: null,    // null: the model's recommendation
  top_p: null,
  top_k: null,
  min_p: null,
  max_output_tokens: null,
  seed: null,
  thinking: "auto",     // auto, on, off
  max_thinking_tokens: null,
  speculation: "",      // the server's own choice
  tools: [],            // labels of the MCP servers that are offered
};

// [name, label, minimum, maximum, step, hint]
export const NUMBERS = [
  ["temperature", "Temperature", 0, 100, 0.05, "0 always takes the likeliest token."],
  ["top_p", "Top p", 0, 1, 0.01, "Keeps the likeliest tokens that make up this share."],
  ["top_k", "Top k", 0, 1000000, 1, "Keeps this many tokens; 0 keeps all."],
  ["min_p", "Min p", 0, 1, 0.01, "Drops tokens less likely than this share of the likeliest."],
  ["max_output_tokens", "Most tokens of an answer", 1, 10000000, 1, "Thoughts count, too."],
  ["seed", "Seed", 0, 9007199254740991, 1, "The same seed and text give the same answer."],
];

function read() {
  try {
    return JSON.parse(localStorage.getItem(KEY)) || {};
  } catch {
    return {};
  }
}

// Takes over known names only, so that old or foreign settings do no harm.
export function clean(settings) {
  const result = {...DEFAULTS};
  for (const name of Object.keys(DEFAULTS)) {
    const value = settings?.[name];
    if (value === undefined) continue;
    if (Array.isArray(DEFAULTS[name]) ? Array.isArray(value) : typeof DEFAULTS[name] === typeof value) result[name] = value;
    if (DEFAULTS[name] === null && (value === null || Number.isFinite(value))) result[name] = value;
  }
  return result;
}

export const remembered = () => clean(read());

export function remember(settings) {
  try {
    localStorage.setItem(KEY, JSON.stringify(settings));
  } catch {
    // They then hold until the page is closed.
  }
}

// The fields of POST /v1/responses.
export function requestFields(settings) {
  const fields = {};
  if (settings.model) fields.model = settings.model;
  if (settings.instructions.trim()) fields.instructions = settings.instructions;
  for (const [name] of NUMBERS) if (settings[name] !== null) fields[name] = settings[name];
  fields.enable_thinking = settings.thinking === "auto" ? "auto" : settings.thinking === "on";
  if (settings.max_thinking_tokens !== null && settings.thinking !== "off")
    fields.max_thinking_tokens = settings.max_thinking_tokens;
  if (settings.speculation) fields.speculation = settings.speculation;
  return fields;
}

// Small choices of the page itself, outside of conversations.
export function choice(name, fallback) {
  try {
    return localStorage.getItem(`anabranch.${name}`) ?? fallback;
  } catch {
    return fallback;
  }
}
export function choose(name, value) {
  try {
    if (value === null) localStorage.removeItem(`anabranch.${name}`);
    else localStorage.setItem(`anabranch.${name}`, value);
  } catch {
    // See above.
  }
}
