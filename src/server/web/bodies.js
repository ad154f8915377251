// The body of POST /v1/responses for each way to get an answer.

import {inputOf, textOf} from "./conversation.js";
import {toolsField} from "./consent.js";
import {requestFields} from "./settings.js";

const CONTINUED = 400;  // tokens of a continuation, which may have no end of its own

// The id under which the server has the message that a turn follows; null at the root. Answers that failed may not be there.
function storedParent(conversation, turn) {
  let parent = conversation.turns.get(turn.parent);
  for (; parent && !parent.last; parent = conversation.turns.get(turn.parent)) turn = parent;
  return parent ? parent.last : turn.storedParent ?? null;
}

// What the user wrote that the server does not have yet, up to this turn: also what got no answer before.
export function pendingTurns(conversation, user) {
  const turns = [];
  for (let at = user; at && !at.last; at = conversation.turns.get(at.parent)) if (at.pending) turns.unshift(at);
  return turns;
}

export const approvalResponse = (item) => ({type: "mcp_approval_response", approval_request_id: item.id,
  approve: item.decision === "once" || item.decision === "always",
  ...(item.decision === "once" || item.decision === "always" ? {} : {reason: "The user did not allow this call."})});

function common(conversation, servers, answered = []) {
  const body = {...requestFields(conversation.settings), stream: true, store: conversation.kept};
  const wanted = new Set([...conversation.settings.tools, ...answered.map((item) => item.server_label)]);
  // While the servers are not known yet, those that were chosen earlier are taken to be there.
  const here = [...wanted].filter((label) => !servers || servers.some((server) => server.id === label));
  const tools = toolsField(here, servers || [], answered);
  if (tools.length) body.tools = tools;
  return body;
}

// An answer to a user's turn, the first one or another one. turn: the answer's, which is in the conversation already.
export function answerBody(conversation, turn, servers) {
  const body = common(conversation, servers);
  const user = conversation.turns.get(turn.parent);
  if (!conversation.kept) {
    const path = conversation.path();
    body.input = inputOf(path.slice(0, path.indexOf(turn)));
    return body;
  }
  body.conversation = {id: conversation.id};
  if (user.pending) {
    const pending = pendingTurns(conversation, user);
    body.input = inputOf(pending);
    body.conversation.parent = storedParent(conversation, pending[0]);
  } else {
    body.input = [];
    body.conversation.parent = user.last || user.id;
  }
  return body;
}

const wholeText = (turn) => turn.items.filter((item) => item.type === "message").map(textOf).join("");

// The text that a model without a chat template continues: everything so far, with a line between the turns of the two sides.
export function completionBody(conversation, turn) {
  const path = conversation.path();
  const before = path.slice(0, path.indexOf(turn));
  const prompt = before.map((one, at) => (one.role === "user" ? (at ? "\n" : "") + one.text : wholeText(one))).join("");
  const {model, temperature, top_p, top_k, min_p, seed, max_output_tokens} = requestFields(conversation.settings);
  return {model, temperature, top_p, top_k, min_p, seed, max_tokens: max_output_tokens ?? CONTINUED, prompt, stream: true,
    stream_options: {include_usage: true}};
}

// Goes on after requests for consent were decided.
export function consentBody(conversation, turn, decided, servers) {
  const body = common(conversation, servers, decided);
  if (conversation.kept) {
    body.conversation = {id: conversation.id};
    body.input = decided.map(approvalResponse);
  } else {
    const path = conversation.path();
    body.input = inputOf(path.slice(0, path.indexOf(turn) + 1));
  }
  return body;
}
