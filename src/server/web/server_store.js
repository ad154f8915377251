// Conversations that the server keeps: /v1/sessions.

import * as api from "./api.js";
import {Conversation, turnsOf} from "./conversation.js";

const path = (id) => `/v1/sessions/${encodeURIComponent(id)}`;

// A session with the messages of its current branch, which come in pages.
async function read(id) {
  const session = await api.json(path(id));
  for (let more = session.has_more; more;) {
    const page = await api.json(`${path(id)}?before=${encodeURIComponent(session.messages[0].id)}`);
    session.messages.unshift(...page.messages);
    more = page.has_more;
  }
  return session;
}

function fill(conversation, session) {
  conversation.title = session.title || "";
  if (!session.messages) return conversation;
  const turns = turnsOf(session.messages);
  for (const turn of turns) conversation.turns.set(turn.id, turn);
  conversation.head = turns.length ? turns[turns.length - 1].id : null;
  return conversation;
}

export const serverStore = {
  kept: true,

  // {entries: [{id, title, updated, snippet}], more}
  // options: of api.json.
  async list(query, after, options = {}) {
    const parameters = new URLSearchParams({limit: "50"});
    if (query) parameters.set("query", query);
    if (after) parameters.set("after", after);
    const answer = await api.json(`/v1/sessions?${parameters}`, options);
    return {more: answer.has_more, entries: answer.data.map((session) => ({id: session.id, title: session.title,
      updated: session.updated_at, snippet: session.snippet || null}))};
  },

  async load(id) {
    const session = await read(id);
    return fill(new Conversation({id, kept: true, settings: session.settings || {}}), session);
  },

  async begin(conversation) {
    const session = await api.post("/v1/sessions", {settings: conversation.settings, title: conversation.title});
    conversation.id = session.id;
    conversation.kept = true;
  },

  // Makes the branch that goes through a message the current one: to the leaf that was shown last, or else the newest.
  async show(conversation, id) {
    const known = conversation.turns.get(id);
    if (known) conversation.show(id);
    const head = conversation.turns.get(conversation.head);
    const wanted = known && head ? head.last || head.id : id;
    await api.post(path(conversation.id), {head: wanted});
    fill(conversation, await read(conversation.id));
  },

  // Reads again what the server has, after an answer.
  async refresh(conversation) {
    fill(conversation, await read(conversation.id));
  },

  save() {},  // the server stores turns by itself
  saveSettings: (conversation) => api.post(path(conversation.id), {settings: conversation.settings}),
  rename: (id, title) => api.post(path(id), {title}),
  remove: (id) => api.json(path(id), {method: "DELETE"}),

  async branch(conversation, turn, title) {
    const session = await api.post(`${path(conversation.id)}/branch`, {message: turn.last || turn.id, title});
    return session.id;
  },

  async exportText(id, format) {
    return (await api.request(`${path(id)}/export?format=${format}`)).text();
  },

  async importText(text) {
    const answer = await api.post("/v1/sessions/import", {jsonl: text});
    return answer.data.map((session) => session.id);
  },
};
