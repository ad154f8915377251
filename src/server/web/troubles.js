// What went wrong with an answer, in words, and what can be done about it.

import * as format from "./format.js";
import {tabStore} from "./tab_store.js";

const MAX_RETRIES = 5;

export class Troubles {
  constructor(chat) {
    this.chat = chat;
    this.timer = 0;
    this.retries = 0;
    this.view = null;
  }

  clear() {
    clearInterval(this.timer);
    this.timer = 0;
    this.view?.setNotice("");
    this.view = null;
  }

  show(turn, error, makeBody) {
    const view = this.view = this.chat.transcript.view(turn);
    const again = () => {
      this.clear();
      this.retry(turn, makeBody);
    };
    const gone = this.chat.conversation.kept && error.status === 404 && !/model/.test(error.code);
    if ((error.status === 429 || error.status === 503) && !error.lasting) return this.countDown(error, again);
    this.retries = 0;
    if (gone) {
      view.setNotice("This conversation is no longer on the server: it was deleted there, or belongs to another key.", [
        ["Go on without the server's copy", () => this.detach(turn, makeBody)]]);
    } else if (error.kind === "cut") {
      view.setNotice("The connection broke off in the middle of the answer. What had arrived is kept.", [
        ["Generate again", again]]);
    } else if (error.kind === "key") {
      view.setNotice(error.message, [["Enter a key", again]]);
    } else {
      const hint = error.code === "sessions_off" || error.code === "no_api_keys"
        ? " Turn off “Keep conversations on this server” to go on without." : "";
      view.setNotice(error.message + hint, [["Try again", again]]);
    }
  }

  // Something that arrived is kept, and the next answer stands beside it.
  retry(turn, makeBody) {
    if (turn.items.some((item) => item.type === "mcp_approval_response")) this.chat.generate(turn, makeBody);
    else this.chat.regenerate(turn);
  }

  // The server is busy: try again by itself, a few times.
  countDown(error, again) {
    const {view} = this;
    if (this.retries >= MAX_RETRIES) {
      this.retries = 0;
      return view.setNotice(`${error.message} Nothing is lost: try again later.`, [["Try again", again]]);
    }
    let left = Math.ceil(error.retryAfter || 2 ** this.retries);
    this.retries++;
    const text = () => `${error.message.replace(/\.?$/, ".")} Trying again in ${format.plural(left, "second")}.`;
    view.setNotice(text(), [["Try now", again], ["Do not try again", () => this.clear()]]);
    const line = view.notice.querySelector("p");
    line.setAttribute("role", "status");  // announced once, not every second
    line.setAttribute("aria-live", "off");
    this.timer = setInterval(() => {
      if (--left <= 0) again();
      else line.textContent = text();
    }, 1000);
  }

  async detach(turn, makeBody) {
    const {conversation} = this.chat;
    conversation.kept = false;
    for (const one of conversation.turns.values()) delete one.siblings;
    await tabStore.begin(conversation);
    this.clear();
    this.chat.hooks.opened(conversation);
    this.retry(turn, makeBody);
  }
}
