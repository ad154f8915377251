// What the user decided about tools: "always" or "never" for a tool of a server, kept in this browser.

import {choice, choose} from "./settings.js";

function decisions() {
  try {
    return JSON.parse(choice("consent", "{}")) || {};
  } catch {
    return {};
  }
}

const nameOf = (server, tool) => JSON.stringify([server, tool]);

export const decisionOn = (server, tool) => decisions()[nameOf(server, tool)] || "ask";

export function decide(server, tool, decision) {
  const all = decisions();
  if (decision === "ask") delete all[nameOf(server, tool)];
  else all[nameOf(server, tool)] = decision;
  choose("consent", JSON.stringify(all));
}

export const forgetDecisions = () => choose("consent", null);

// [{server, tool, decision}], in a steady order.
export function allDecisions() {
  return Object.entries(decisions()).map(([name, decision]) => {
    const [server, tool] = JSON.parse(name);
    return {server, tool, decision};
  }).sort((a, b) => (a.server + a.tool).localeCompare(b.server + b.tool));
}

// The "tools" of a request. labels: the servers that are offered; servers: as GET /v1/mcp/servers tells.
// answered: requests for consent that this request answers, so their tools must be offered.
export function toolsField(labels, servers, answered = []) {
  const decided = allDecisions();
  const tools = [];
  for (const label of labels) {
    const names = (decision) =>
      decided.filter((one) => one.server === label && one.decision === decision).map((one) => one.tool);
    const always = names("always");
    const never = names("never").filter((name) => !answered.some((one) => one.server_label === label && one.name === name));
    const tool = {type: "mcp", server_label: label, require_approval: "always"};
    if (always.length) tool.require_approval = {never: {tool_names: always}};
    const known = servers.find((server) => server.id === label)?.tools;
    if (never.length && known?.length)
      tool.allowed_tools = known.map((one) => one.name).filter((name) => !never.includes(name));
    tools.push(tool);
  }
  return tools;
}
