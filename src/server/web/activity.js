// What the server is doing: asks /health every few seconds and draws the plots.

import * as api from "./api.js";
import {el} from "./dom.js";
import * as format from "./format.js";
import {Plot} from "./plots.js";

const BUSY_MS = 1000, IDLE_MS = 5000, GONE_MS = 2000;

// What happened between two answers of /health; shares are null when nothing was counted.
export function between(before, now) {
  const difference = (part, name) => (now[part]?.[name] ?? 0) - (before?.[part]?.[name] ?? 0);
  const share = (part, whole) => (whole > 0 ? part / whole : null);
  const seconds = before ? now.uptime_s - before.uptime_s : 0;
  const drafts = (health) => health?.engine?.speculation || {drafted: 0, accepted: 0};
  const drafted = (drafts(now).drafted || 0) - (drafts(before).drafted || 0);
  const accepted = (drafts(now).accepted || 0) - (drafts(before).accepted || 0);
  const restarted = before && seconds < 0;
  if (!before || restarted) return {tokens: null, accepted: null, cached: null};
  return {
    tokens: seconds > 0 ? difference("engine", "completion_tokens") / seconds : null,
    accepted: share(accepted, drafted),
    cached: share(difference("cache", "cached_tokens"), difference("cache", "prompt_tokens")),
  };
}

export function makePlots() {
  return {
    tokens: new Plot("Speed", (value) => `${Math.round(value)} tok/s`),
    accepted: new Plot("Accepted drafts", format.percent, 1),
    cached: new Plot("Cached prompts", format.percent, 1),
    memory: new Plot("Memory", format.bytes),
    queue: new Plot("Requests", (value) => format.count(value)),
  };
}

export function addToPlots(plots, before, now) {
  const changed = between(before, now);
  plots.tokens.add(changed.tokens);
  plots.accepted.add(changed.accepted);
  plots.cached.add(changed.cached);
  plots.memory.add(now.memory?.process?.resident_bytes ?? null);
  const waiting = now.engine?.queued ?? 0, running = now.engine?.running ?? 0;
  plots.queue.add(running + waiting);
  plots.queue.value.textContent = `${running} run, ${waiting} wait`;
}

export class Activity {
  // hooks: {busy(): whether an answer is generated, gone(bool), news(health)}
  constructor(place, hooks) {
    this.hooks = hooks;
    this.plots = makePlots();
    place.append(...Object.values(this.plots).map((plot) => plot.element));
    this.note = el("p.hint", {role: "note", hidden: true});
    place.append(this.note);
    this.health = null;
    this.gone = false;
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.soon(0);
    });
    this.soon(0);
  }

  soon(pause) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.look(), pause);
  }

  async look() {
    if (document.hidden) return;
    try {
      const health = await this.ask();
      if (health.engine !== undefined) addToPlots(this.plots, this.health, health);
      this.health = health;
      this.setGone(false);
      this.hooks.news(health);
      this.note.hidden = true;
    } catch (error) {
      this.setGone(error.kind === "offline");
      this.note.textContent = `The server does not tell what it is doing: ${error.message}`;
      this.note.hidden = this.gone;
      if (error.lasting) return;  // asked again when an answer begins, or the page is looked at again
    }
    this.soon(this.gone ? GONE_MS : this.hooks.busy() ? BUSY_MS : IDLE_MS);
  }

  // A server that stops answers 503, with the status in its body.
  async ask() {
    try {
      return await api.json("/health", {quiet: true});
    } catch (error) {
      if (error.status === 503) return {status: "stopping"};
      throw error;
    }
  }

  setGone(gone) {
    if (gone === this.gone) return;
    this.gone = gone;
    this.hooks.gone(gone);
  }

  // Why no token has come yet.
  waiting() {
    const states = (this.health?.models || []).map((model) => model.state);
    if (states.includes("loading") || states.includes("waiting")) return "The model is being loaded…";
    if (this.health?.engine === null) return "The model is being loaded…";
    if (this.health?.engine?.queued > 0) return "Waiting for other requests to end…";
    return "Reading the prompt…";
  }
}
