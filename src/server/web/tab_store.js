// Conversations that nobody keeps: they live in this tab (sessionStorage), outlast a reload, and end with the tab.

import {Conversation, answerText, answerTurn, imagesOf, messagesOf, textOf, userTurn} from "./conversation.js";

const PREFIX = "anabranch.tab_";

export class StorageFull extends Error {}

const newId = () => `tab_${Date.now().toString(36)}${Math.floor(Math.random() * 1e9).toString(36)}`;
let memory = new Map();  // for browsers that forbid storage

function write(id, text) {
  memory.set(id, text);
  try {
    sessionStorage.setItem(PREFIX + id, text);
  } catch {
    throw new StorageFull("This conversation has become too long to outlast a reload of the page. Export it to keep it.");
  }
}

function readAll() {
  const found = new Map(memory);
  try {
    for (let at = 0; at < sessionStorage.length; at++) {
      const name = sessionStorage.key(at);
      if (name.startsWith(PREFIX)) found.set(name.slice(PREFIX.length), sessionStorage.getItem(name));
    }
  } catch {
    // What is in memory counts.
  }
  return found;
}

function parse(id) {
  const text = readAll().get(id);
  return text ? JSON.parse(text) : null;
}

const wholeText = (record) => record.turns.map((turn) => turn.text ?? answerText(turn)).join("\n");

function snippetOf(text, query) {
  const at = text.toLowerCase().indexOf(query);
  if (at < 0) return null;
  const from = Math.max(0, at - 30);
  return [{text: text.slice(from, at), match: false}, {text: text.slice(at, at + query.length), match: true},
    {text: text.slice(at + query.length, at + query.length + 60), match: false}];
}

// One conversation as an export has it: a line that describes it, then its messages.
function jsonLines(record, turns) {
  const head = {session: {title: record.title, model: record.settings.model || "", settings: record.settings, metadata: {}}};
  return [head, ...messagesOf(turns)].map((line) => JSON.stringify(line) + "\n").join("");
}

function markdown(record, turns) {
  let text = `# ${record.title || "Conversation"}\n`;
  for (const turn of turns) {
    text += `\n## ${turn.role === "user" ? "User" : "Assistant"}\n\n`;
    for (const item of turn.items || [])
      if (item.type === "reasoning") text += textOf(item).split("\n").map((line) => `> ${line}\n`).join("") + "\n";
    text += (turn.role === "user" ? turn.text : answerText(turn)) + "\n";
    if (turn.images) text += `\n*Images: ${turn.images.length}*\n`;
  }
  return text;
}

function turnsFromMessages(messages) {
  const turns = [];
  for (const message of messages) {
    const parent = turns.length ? turns[turns.length - 1].id : null;
    const id = `turn_${turns.length + 1}`;
    const text = typeof message.content === "string" ? message.content : "";
    if (message.role === "user") turns.push(userTurn(id, parent, text, imagesOf(message)));
    if (message.role !== "assistant" || !(text || message.reasoning_content)) continue;
    const turn = {...answerTurn(id, parent), status: "completed"};
    if (message.reasoning_content)
      turn.items.push({type: "reasoning", content: [{type: "reasoning_text", text: message.reasoning_content}]});
    turn.items.push({type: "message", role: "assistant", content: [{type: "output_text", text}]});
    turns.push(turn);
  }
  return turns;
}

function importRecord(head, messages) {
  const turns = turnsFromMessages(messages);
  if (!turns.length) return null;
  const id = newId();
  write(id, JSON.stringify({id, title: String(head.title || "").slice(0, 200), settings: head.settings || {}, turns,
    head: turns[turns.length - 1].id, updated: Date.now() / 1000}));
  return id;
}

export const tabStore = {
  kept: false,

  async list(query) {
    const wanted = (query || "").toLowerCase();
    const records = [...readAll().values()].map((text) => JSON.parse(text)).sort((a, b) => b.updated - a.updated);
    const entries = records.map((record) => ({id: record.id, title: record.title, updated: record.updated,
      snippet: wanted ? snippetOf(wholeText(record), wanted) : null}));
    return {more: false, entries: entries.filter((entry) =>
      !wanted || entry.snippet || entry.title.toLowerCase().includes(wanted))};
  },

  async load(id) {
    const record = parse(id);
    if (!record) return null;
    const conversation = new Conversation({id, title: record.title, settings: record.settings});
    for (const turn of record.turns) conversation.turns.set(turn.id, turn);
    conversation.head = record.head;
    return conversation;
  },

  async begin(conversation) {
    conversation.id = newId();
    this.save(conversation);
  },

  // Whether it was not deleted meanwhile.
  has: (id) => readAll().has(id),

  async show(conversation, id) {
    conversation.show(id);
    this.save(conversation);
  },

  async refresh() {},

  save(conversation) {
    if (!conversation.id || conversation.kept) return;
    const turns = [...conversation.turns.values()];
    write(conversation.id, JSON.stringify({id: conversation.id, title: conversation.title, settings: conversation.settings,
      turns, head: conversation.head, updated: Date.now() / 1000}));
  },

  async saveSettings(conversation) {
    this.save(conversation);
  },

  async rename(id, title) {
    write(id, JSON.stringify({...parse(id), title}));
  },

  async remove(id) {
    memory.delete(id);
    sessionStorage.removeItem(PREFIX + id);
  },

  async branch(conversation, turn, title) {
    const copy = new Conversation({title, settings: conversation.settings});
    await this.begin(copy);
    for (const one of conversation.path()) {
      copy.add(structuredClone(one));
      if (one.id === turn.id) break;
    }
    this.save(copy);
    return copy.id;
  },

  async exportText(id, format) {
    const record = parse(id);
    const conversation = await this.load(id);
    return (format === "jsonl" ? jsonLines : markdown)(record, conversation.path());
  },

  async importText(text) {
    const ids = [];
    let head = {}, messages = [];
    const finish = () => {
      const id = importRecord(head, messages);
      if (id) ids.push(id);
      messages = [];
    };
    for (const [index, line] of text.split(/\r?\n/).entries()) {
      if (!line.trim()) continue;
      let json;
      try {
        json = JSON.parse(line);
      } catch {
        throw new Error(`Line ${index + 1} is not JSON.`);
      }
      if (json.session || Array.isArray(json.messages)) {
        finish();
        head = json.session || {};
        messages.push(...(json.messages || []));
      } else {
        messages.push(json);
      }
    }
    finish();
    if (!ids.length) throw new Error("The file has no messages.");
    return ids;
  },
};
