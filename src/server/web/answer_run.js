// One answer while it is generated: sends the request, and turns the events of the stream into the items of a turn.

import * as api from "./api.js";
import {addUsage, textOf} from "./conversation.js";

export class AnswerRun {
  // body: of POST /v1/responses. turn: the answer's, to which items are added. changed(item or null): after each event.
  constructor(body, turn, changed) {
    Object.assign(this, {body, turn, changed});
    this.base = turn.items.length;  // items of the responses before this one
    this.abort = new AbortController();
    this.messageIds = [];
    this.begin = performance.now();
    this.writing = 0;               // since when the model writes: not while a prompt is read or a tool runs
    this.outcome = null;            // the event that ended the stream
  }

  get path() {
    return "/v1/responses";
  }

  stop() {
    this.abort.abort();
  }

  // Resolves when the response has ended; throws ApiError. What came until then is in the turn.
  async go() {
    const turn = this.turn;
    turn.status = "running";
    try {
      await this.read();
      if (!this.outcome) throw new api.ApiError("cut", "The connection broke off in the middle of the answer.");
      if (this.outcome.type === "response.failed") throw this.failure();
    } catch (error) {
      turn.status = "incomplete";
      this.closeOpenItems();
      throw error;
    } finally {
      const time = (performance.now() - this.begin) / 1000;
      turn.seconds = (turn.seconds || 0) + time;
      this.rests();
    }
  }

  // A connection that breaks behind the event that ends the answer takes nothing from it.
  async read() {
    try {
      for await (const event of api.events(this.path, this.body, this.abort.signal)) this.take(event);
    } catch (error) {
      if (error.kind !== "cut" || !this.outcome) throw error;
    }
  }

  writes() {
    this.writing ||= performance.now();
  }

  rests() {
    if (this.writing) this.turn.generating = (this.turn.generating || 0) + (performance.now() - this.writing) / 1000;
    this.writing = 0;
  }

  failure() {
    const error = this.outcome.response?.error || {};
    return new api.ApiError("failed", error.message || "The answer ended with an error.", {status: 500, code: error.code || ""});
  }

  take(event) {
    const handler = HANDLERS[event.type];
    if (handler) this.changed(handler.call(this, event) || null);
  }

  item(event) {
    return this.turn.items[this.base + event.output_index];
  }

  // Items whose end never came.
  closeOpenItems() {
    for (const item of this.turn.items) {
      if (item.type === "reasoning") this.endThought(item);
      if (item.status === "in_progress") item.status = "incomplete";
    }
  }

  beginThought(item) {
    this.turn.thinking[item.id] = {begin: performance.now(), seconds: null, tokens: null};
  }

  endThought(item) {
    const thought = this.turn.thinking[item.id];
    if (!thought || thought.seconds !== null) return;
    thought.seconds = (performance.now() - thought.begin) / 1000;
    delete thought.begin;
  }

  addText(event, type) {
    this.writes();
    const item = this.item(event);
    if (!item) return null;
    item.content ||= [];
    const part = (item.content[event.content_index || 0] ||= {type, text: ""});
    part.text += event.delta;
    return item;
  }

  setCall(event, fields) {
    const item = this.item(event);
    if (item) Object.assign(item, fields);
    return item;
  }

  finished(event) {
    this.outcome = event;
    const {response} = event;
    const turn = this.turn;
    turn.status = event.type === "response.completed" ? "completed" : "incomplete";
    turn.cut = response.incomplete_details?.reason || null;
    turn.model = response.model || turn.model;
    turn.about = response.anabranch || null;
    this.messageIds = response.anabranch?.message_ids || [];
    const usage = response.usage;
    if (usage)
      turn.usage = addUsage(turn.usage, {input_tokens: usage.input_tokens, output_tokens: usage.output_tokens,
        reasoning_tokens: usage.output_tokens_details?.reasoning_tokens,
        cached_tokens: usage.input_tokens_details?.cached_tokens});
    turn.speculation = addDrafts(turn.speculation, usage?.speculation);
    this.countThoughts();
  }

  // The tokens of the thoughts are known as a sum; it goes to the last thought if there is only one.
  countThoughts() {
    const thoughts = this.turn.items.slice(this.base).filter((item) => item.type === "reasoning");
    const tokens = this.outcome.response.usage?.output_tokens_details?.reasoning_tokens;
    if (thoughts.length === 1 && tokens) this.turn.thinking[thoughts[0].id].tokens = tokens;
  }
}

const HANDLERS = {
  "response.created"(event) {
    this.conversationId = event.response.conversation?.id || null;
    this.turn.model = event.response.model;
  },
  "response.output_item.added"(event) {
    const item = event.item;
    this.turn.items[this.base + event.output_index] = item;
    if (item.type === "reasoning") this.beginThought(item);
    if (item.type !== "mcp_list_tools") this.writes();
    return item;
  },
  "response.output_item.done"(event) {
    const index = this.base + event.output_index;
    const before = this.turn.items[index];
    const item = event.item;
    // Views hold the item, so it stays the same object.
    this.turn.items[index] = before ? Object.assign(before, item) : item;
    if (item.type === "reasoning") this.endThought(this.turn.items[index]);
    return this.turn.items[index];
  },
  "response.reasoning_text.delta"(event) {
    return this.addText(event, "reasoning_text");
  },
  "response.reasoning_text.done"(event) {
    const item = this.item(event);
    if (item) this.endThought(item);
    return item;
  },
  "response.output_text.delta"(event) {
    return this.addText(event, "output_text");
  },
  "response.mcp_call_arguments.delta"(event) {
    const item = this.item(event);
    if (item) item.arguments = (item.arguments || "") + event.delta;
    return item;
  },
  "response.mcp_call_arguments.done"(event) {
    this.rests();
    return this.setCall(event, {arguments: event.arguments});
  },
  "response.mcp_call.in_progress"(event) {
    return this.setCall(event, {status: "in_progress"});
  },
  "response.mcp_call.completed"(event) {
    return this.setCall(event, {status: "completed"});
  },
  "response.mcp_call.failed"(event) {
    return this.setCall(event, {status: "failed"});
  },
  "response.completed"(event) {
    this.finished(event);
  },
  "response.incomplete"(event) {
    this.finished(event);
  },
  "response.failed"(event) {
    this.outcome = event;
  },
  "error"(event) {
    this.outcome = {type: "response.failed", response: {error: {message: event.message, code: event.code}}};
  },
};

// An answer may take several responses, each with drafts of its own.
function addDrafts(sum, drafts) {
  if (!drafts) return sum || null;
  return {drafted: (sum?.drafted || 0) + drafts.drafted, accepted: (sum?.accepted || 0) + drafts.accepted};
}

// The requests for consent that end an answer and are not decided yet.
export const openRequests = (turn) =>
  turn.items.filter((item) => item.type === "mcp_approval_request" && !item.decision);

// Whether there is nothing to see of an answer: the list of tools comes before all else, and is shown only if it failed.
export const isEmpty = (turn) => turn.items.every((item) => item.type === "mcp_list_tools" && !item.error);

// For a line of a log or an announcement.
export const firstWords = (turn, length = 160) =>
  turn.items.filter((item) => item.type === "message").map(textOf).join(" ").slice(0, length);
