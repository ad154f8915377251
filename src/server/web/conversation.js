// A conversation: a tree of turns with one that is current, the head. A turn is what the user wrote, or the whole answer to
// it: its items (thoughts, text, calls of tools) have the format of the Responses API's output items.

import {pictures} from "./images.js";

export const textOf = (item) => (item.content || []).map((part) => part.text || part.refusal || "").join("");

// images: data URLs, which go before the text.
export function userTurn(id, parent, text, images = []) {
  return {id, parent, role: "user", text, created: Date.now() / 1000, ...(images.length ? {images} : {})};
}

export function answerTurn(id, parent) {
  return {id, parent, role: "assistant", items: [], usage: null, seconds: null, thinking: {}, status: "running",
    created: Date.now() / 1000};
}

// The words of an answer, without thoughts and calls.
export const answerText = (turn) =>
  turn.items.filter((item) => item.type === "message").map(textOf).join("\n\n").trim();

export class Conversation {
  // kept: it is on the server.
  constructor({id = null, title = "", settings = {}, kept = false} = {}) {
    Object.assign(this, {id, title, settings, kept});
    this.turns = new Map();
    this.head = null;
    this.leaves = new Map();  // turn -> the leaf that was last shown below it
  }

  add(turn) {
    this.turns.set(turn.id, turn);
    this.head = turn.id;
  }

  // A turn gets the id that the server gave it.
  rename(turn, id) {
    if (id === turn.id) return;
    this.turns.delete(turn.id);
    for (const other of this.turns.values()) if (other.parent === turn.id) other.parent = id;
    if (this.head === turn.id) this.head = id;
    turn.id = id;
    this.turns.set(id, turn);
  }

  // From the first turn to the head.
  path() {
    const turns = [];
    for (let at = this.turns.get(this.head); at; at = this.turns.get(at.parent)) turns.push(at);
    return turns.reverse();
  }

  // The ids of the turns with the same parent, oldest first. The server knows those that are not loaded.
  siblings(turn) {
    const here = [...this.turns.values()].filter((one) => one.parent === turn.parent && one.role === turn.role);
    const ids = here.map((one) => one.id);
    if (!turn.siblings) return ids;
    return [...turn.siblings, ...ids.filter((id) => !turn.siblings.includes(id))];
  }

  // Moves the head to the leaf below a turn that was shown last, or else to the newest.
  show(id) {
    for (const turn of this.path()) this.leaves.set(turn.id, this.head);
    const known = this.leaves.get(id);
    if (known && this.turns.has(known)) this.head = known;
    else this.head = this.newestLeaf(id);
  }

  newestLeaf(id) {
    for (;;) {
      const children = [...this.turns.values()].filter((turn) => turn.parent === id);
      if (!children.length) return id;
      id = children[children.length - 1].id;
    }
  }
}

// The input items that stand for turns, for a server that keeps nothing.
export function inputOf(turns) {
  const input = [];
  for (const turn of turns) {
    if (turn.role === "user") input.push({type: "message", role: "user", content: contentOf(turn)});
    else input.push(...turn.items.filter((item) => item.type !== "mcp_list_tools").flatMap(inputItems));
  }
  return input;
}

function contentOf({text, images}) {
  if (!images) return text;
  const parts = images.map((url) => ({type: "input_image", image_url: url}));
  return text ? [...parts, {type: "input_text", text}] : parts;
}

function inputItems(item) {
  if (item.type === "function_call")
    return [item, {type: "function_call_output", call_id: item.call_id, output: "There is no tool of this name."}];
  if (item.type !== "message" && item.type !== "reasoning") return [item];
  return [{...item, content: (item.content || []).map(({type, text}) => ({type, text}))}];
}

// ---- What the server keeps (GET /v1/sessions/ID) as turns, and back for an export.

function itemsOf(message) {
  const items = [];
  const done = message.status || "completed";
  if (message.reasoning_content)
    items.push({type: "reasoning", id: `${message.id}_thought`, content: [{type: "reasoning_text", text: message.reasoning_content}]});
  if (message.content)
    items.push({type: "message", id: message.id, role: "assistant", status: done,
      content: [{type: "output_text", text: message.content}]});
  for (const call of message.tool_calls || []) {
    const {server_label = "", name = call.function.name, approval_request_id = null} = message.mcp_calls?.[call.id] || {};
    items.push({type: "mcp_call", id: call.id, server_label, name, arguments: call.function.arguments, output: null, error: null,
      status: "open", approval_request_id});
  }
  return items;
}

function addResult(turn, message) {
  const call = turn.items.find((item) => item.type === "mcp_call" && item.id === message.tool_call_id);
  if (!call) return;
  const failed = message.mcp?.error;
  Object.assign(call, {status: failed ? "failed" : "completed", output: failed ? null : message.content,
    error: failed ? message.content || String(failed) : null, server_label: message.mcp?.server_label || call.server_label,
    name: message.mcp?.name || call.name});
}

function addMessage(turn, message) {
  turn.last = message.id;
  if (message.role === "tool") return addResult(turn, message);
  turn.items.push(...itemsOf(message));
  turn.model = message.model || turn.model;
  turn.status = message.status || "completed";
  if (message.usage) turn.usage = addUsage(turn.usage, message.usage);
  if (message.seconds) addSeconds(turn, message);
  if (message.thinking_seconds) turn.thinking[`${message.id}_thought`] = {seconds: message.thinking_seconds,
    tokens: message.usage?.reasoning_tokens};
}

// A response may store several messages, each with the time since the response began.
function addSeconds(turn, {seconds, response_id: response}) {
  const before = response && turn.timed?.response === response ? turn.timed.seconds : 0;
  turn.seconds = (turn.seconds || 0) + seconds - before;
  turn.timed = {response, seconds};
}

export function addUsage(sum, usage) {
  const total = {...(sum || {input_tokens: 0, output_tokens: 0, reasoning_tokens: 0, cached_tokens: 0})};
  for (const name of Object.keys(total)) total[name] += usage[name] || 0;
  return total;
}

// Calls that still wait for the user's consent at the end of the conversation.
function askAgain(turn) {
  for (const item of turn?.items || [])
    if (item.type === "mcp_call" && item.status === "open" && item.approval_request_id)
      Object.assign(item, {type: "mcp_approval_request", id: item.approval_request_id, status: "completed"});
}

// Calls that no server of tools knew.
function nameUnknownCalls(turn) {
  for (const item of turn.items)
    if (item.type === "mcp_call" && item.status === "open" && !item.server_label)
      Object.assign(item, {type: "function_call", call_id: item.id, status: "completed"});
}

export const imagesOf = (message) =>
  pictures(Array.isArray(message.images) ? message.images.map((image) => image?.url) : []);

export function turnsOf(messages) {
  const turns = [];
  let instructions = "";  // of system messages, shown with the user's next turn
  for (const message of messages) {
    const before = turns[turns.length - 1];
    if (message.role === "system" || message.role === "developer") {
      instructions += (instructions && "\n\n") + (message.content || "");
      continue;
    }
    if (message.role === "user") {
      const images = imagesOf(message);
      turns.push({...userTurn(message.id, before?.id ?? null, message.content || "", images), created: message.created_at, last: message.id,
        siblings: message.siblings, storedParent: message.parent, ...(instructions ? {instructions} : {})});
      instructions = "";
      continue;
    }
    let turn = before;
    if (!turn || turn.role !== "assistant") {
      turn = {...answerTurn(message.id, before?.id ?? null), created: message.created_at, siblings: message.siblings,
        storedParent: message.parent};
      turns.push(turn);
    }
    addMessage(turn, message);
  }
  askAgain(turns[turns.length - 1]);
  for (const turn of turns) if (turn.role === "assistant") nameUnknownCalls(turn);
  return turns;
}

// The messages of a chat, as exports have them.
export function messagesOf(turns) {
  const messages = [];
  for (const turn of turns) {
    if (turn.role === "user") {
      messages.push({role: "user", content: turn.text,
        ...(turn.images ? {images: turn.images.map((url) => ({at: 0, url}))} : {})});
      continue;
    }
    const message = {role: "assistant", content: answerText(turn)};
    const thought = turn.items.filter((item) => item.type === "reasoning").map(textOf).join("\n\n");
    if (thought) message.reasoning_content = thought;
    const calls = turn.items.filter((item) => item.type === "mcp_call" && item.status !== "open");
    for (const call of calls) {
      messages.push({role: "assistant", content: "", tool_calls: [{id: call.id, type: "function",
        function: {name: call.name, arguments: call.arguments}}]});
      messages.push({role: "tool", tool_call_id: call.id, content: call.output ?? call.error ?? ""});
    }
    messages.push(message);
  }
  return messages;
}
