// What a user can do with the conversation that is open. One answer at a time is generated.

import {ApiError} from "./api.js";
import {AnswerRun, firstWords, isEmpty, openRequests} from "./answer_run.js";
import {answerBody, approvalResponse, completionBody, consentBody, pendingTurns} from "./bodies.js";
import {CompletionRun} from "./completion_run.js";
import {announce, copyText, toast} from "./dom.js";
import {Conversation, answerText, answerTurn, userTurn} from "./conversation.js";
import {decide, decisionOn} from "./consent.js";
import {splitFiles} from "./files.js";
import {clean, remember, remembered} from "./settings.js";
import {Troubles} from "./troubles.js";
import {Transcript} from "./transcript.js";
import {serverStore} from "./server_store.js";
import {tabStore} from "./tab_store.js";

const SAVE_MS = 2000;
let newTurns = 0;
const temporaryId = () => `turn_${Date.now().toString(36)}_${++newTurns}`;

export const storeOf = (id) => (id?.startsWith("tab_") ? tabStore : serverStore);

export class Chat {
  // hooks: {keeps(): whether new conversations are kept on the server, opened(conversation), busy(bool), listChanged(),
  // servers(): the MCP servers, null while they are not known, waiting(): why no token has come, continues(): whether the
  // model only continues texts}
  constructor(hooks) {
    this.hooks = hooks;
    this.run = null;
    this.conversation = null;
    this.troubles = new Troubles(this);
    this.transcript = new Transcript({
      show: (id, turn) => this.show(id, turn), copy: (turn) => this.copy(turn), edit: (turn, text) => this.edit(turn, text),
      regenerate: (turn) => this.regenerate(turn), branch: (turn) => this.branch(turn),
      decide: (turn, item, decision) => this.decide(turn, item, decision),
    });
    addEventListener("pagehide", () => this.save());
  }

  get store() {
    return this.conversation.kept ? serverStore : tabStore;
  }

  get busy() {
    return this.run !== null;
  }

  draw() {
    this.transcript.show(this.conversation, this.busy);
  }

  // ---- Which conversation is open.

  fresh() {
    this.stop();
    this.setConversation(new Conversation({settings: remembered()}));
  }

  async open(id) {
    if (this.conversation?.id === id) return;
    const conversation = await storeOf(id).load(id);
    if (!conversation) throw new Error("This conversation is not in this tab: it was never kept on a server.");
    this.stop();
    conversation.settings = clean(conversation.settings);
    for (const turn of conversation.turns.values()) if (turn.status === "running") turn.status = "incomplete";
    this.setConversation(conversation);
  }

  setConversation(conversation) {
    this.troubles.clear();
    this.conversation = conversation;
    if (this.run) this.setBusy(null);  // an answer that was stopped may take a moment to end
    this.draw();
    this.transcript.toEnd();
    this.hooks.opened(conversation);
  }

  // ---- Actions.

  // images: data URLs.
  send(text, images = []) {
    if (this.busy) return false;
    this.leaveRequests();
    const conversation = this.conversation;
    if (!conversation.title) conversation.title = titleOf(text) || "Image";
    const user = {...userTurn(temporaryId(), conversation.head, text, images), pending: true};
    conversation.add(user);
    this.answer(user);
    this.transcript.toEnd();
    return true;
  }

  edit(turn, text) {
    if (this.busy) return;
    const user = {...userTurn(temporaryId(), turn.parent, text, turn.images), pending: true, siblings: turn.siblings, storedParent: turn.storedParent};
    this.conversation.show(turn.id);
    this.conversation.add(user);
    this.answer(user);
  }

  regenerate(turn) {
    if (this.busy || !turn) return;
    const user = this.conversation.turns.get(turn.parent);
    if (user) this.answer(user, turn);
  }

  // before: the answer that this one stands beside. One in which nothing arrived is replaced.
  answer(user, before = null) {
    const conversation = this.conversation;
    const kept = before && !isEmpty(before);
    if (before && !kept) conversation.turns.delete(before.id);
    if (before) conversation.show(kept ? before.id : user.id);
    const turn = {...answerTurn(temporaryId(), user.id), siblings: before?.siblings};
    conversation.add(turn);
    return this.generate(turn, () => (this.hooks.continues() ? completionBody(conversation, turn)
      : answerBody(conversation, turn, this.hooks.servers())));
  }

  async show(id, turn) {
    if (this.busy) return;
    try {
      await this.store.show(this.conversation, id, turn);
    } catch (error) {
      toast(error.message);
    }
    this.draw();
    document.querySelector(`[data-turn="${CSS.escape(id)}"] .siblings button:not([disabled])`)?.focus();
  }

  async branch(turn) {
    try {
      const title = `${this.conversation.title || "Conversation"} (branch)`.slice(0, 200);
      const id = await this.store.branch(this.conversation, turn, title);
      this.hooks.listChanged();
      await this.open(id);
      toast("This is a new conversation with everything up to that message.");
    } catch (error) {
      toast(error.message);
    }
  }

  async copy(turn) {
    try {
      await copyText(turn.role === "user" ? turn.text : answerText(turn));
      toast("Copied.");
    } catch {
      toast("The browser does not allow copying here.");
    }
  }

  stop() {
    this.troubles.clear();
    this.run?.stop();
  }

  changeSettings(settings) {
    this.conversation.settings = settings;
    remember(settings);
    if (!this.conversation.id) return;
    Promise.resolve().then(() => this.store.saveSettings(this.conversation)).catch((error) => toast(error.message));
  }

  // ---- Consent.

  decide(turn, item, decision) {
    if (this.busy) return;
    if (decision === "always" || decision === "never") decide(item.server_label, item.name, decision);
    item.decision = decision;
    this.draw();
    if (!openRequests(turn).length) this.goOn(turn);
  }

  // Decides by what the user said earlier. Returns whether nothing is left to ask.
  decideByHabit(turn) {
    for (const item of openRequests(turn)) {
      const habit = decisionOn(item.server_label, item.name);
      if (habit !== "ask") item.decision = habit;
    }
    return !openRequests(turn).length;
  }

  goOn(turn) {
    const decided = turn.items.filter((item) => item.type === "mcp_approval_request" && !item.answered);
    for (const item of decided) {
      item.answered = true;
      turn.items.push(approvalResponse(item));
    }
    return this.generate(turn, () => consentBody(this.conversation, turn, decided, this.hooks.servers()));
  }

  // The user writes on instead of deciding.
  leaveRequests() {
    const turn = this.conversation.turns.get(this.conversation.head);
    if (turn?.role !== "assistant") return;
    for (const item of openRequests(turn)) {
      Object.assign(item, {decision: "gone", answered: true});
      turn.items.push(approvalResponse(item));
    }
  }

  // ---- Generation.

  async generate(turn, makeBody) {
    const conversation = this.conversation;
    this.troubles.clear();
    turn.status = "running";
    let run = {stop() {}};
    this.setBusy(run);
    try {
      if (!conversation.id) await this.begin(conversation);
      if (conversation !== this.conversation) throw new ApiError("stopped", "Stopped.");
      const Run = this.hooks.continues() ? CompletionRun : AnswerRun;
      run = new Run(makeBody(), turn, (item) => this.progress(turn, item));
      this.setBusy(run);
      announce("Generating an answer.");
      await run.go();
      this.adopt(conversation, turn, run.messageIds);
      announce(`Answer complete. ${firstWords(turn)}`);
    } catch (error) {
      await this.failed(conversation, turn, makeBody, error);
    }
    if (this.run === run) this.setBusy(null);
    this.afterAnswer(conversation, turn);
  }

  async begin(conversation) {
    conversation.kept = this.hooks.keeps() && !this.hooks.continues();  // the server keeps chats
    const store = conversation.kept ? serverStore : tabStore;
    try {
      await store.begin(conversation);
    } catch (error) {
      conversation.kept = false;
      throw error;
    }
    if (conversation === this.conversation) this.hooks.opened(conversation);
  }

  setBusy(run) {
    this.run = run;
    this.hooks.busy(run !== null);
    this.draw();
    clearInterval(this.timer);
    if (run) this.timer = setInterval(() => this.tick(), 500);
  }

  tick() {
    const turn = this.conversation.turns.get(this.conversation.head);
    if (turn?.role === "assistant") this.transcript.view(turn).wait(this.hooks.waiting());
    if (performance.now() - (this.saved || 0) > SAVE_MS) this.save();
  }

  progress(turn, item) {
    if (this.conversation.turns.get(turn.id) !== turn) return;
    this.transcript.view(turn).updateItems(item);
    this.transcript.follow();
  }

  save(conversation = this.conversation) {
    this.saved = performance.now();
    if (!conversation?.id || conversation.kept || !tabStore.has(conversation.id)) return;
    try {
      tabStore.save(conversation);
    } catch (error) {
      if (!conversation.warned) toast(error.message);
      conversation.warned = true;
    }
  }

  // The server's ids take the place of ours. ids: of the messages that were stored, in order.
  adopt(conversation, turn, ids) {
    const user = conversation.turns.get(turn.parent);
    if (!conversation.kept) {
      delete user.pending;
      return;
    }
    const left = [...ids];
    for (const one of pendingTurns(conversation, user)) {
      if (!left.length) return;
      conversation.rename(one, left.shift());
      one.last = one.id;
      delete one.pending;
    }
    if (!left.length) return;
    if (!turn.last) conversation.rename(turn, left[0]);
    turn.last = left[left.length - 1];
  }

  async failed(conversation, turn, makeBody, error) {
    turn.status = "incomplete";
    if (conversation.kept && ["stopped", "cut", "failed"].includes(error.kind)) await this.catchUp(conversation, turn);
    if (conversation !== this.conversation) return;
    if (error.kind === "stopped") announce("Stopped.");
    else this.troubles.show(turn, error, makeBody);
  }

  // What the server stored of an answer that did not end here.
  async catchUp(conversation, turn) {
    await new Promise((done) => setTimeout(done, 400));
    const user = conversation.turns.get(turn.parent);
    const fresh = new Conversation({id: conversation.id, kept: true});
    try {
      await serverStore.refresh(fresh);
    } catch {
      return;
    }
    const path = fresh.path(), pending = pendingTurns(conversation, user);
    const isNew = (one) => one.id === turn.id || !conversation.turns.has(one.id);
    const asked = path.filter((one) => one.role === "user" && isNew(one));
    if (asked.length !== pending.length || asked.some((one, at) => one.text !== pending[at].text)) return;
    const parent = asked.length ? asked[asked.length - 1].id : user.id;
    const answer = path.find((one) => one.role === "assistant" && isNew(one) && one.parent === parent);
    this.adopt(conversation, turn, [...asked, ...(answer ? [answer] : [])].map((one) => one.id));
    if (answer) turn.last = answer.last;
  }

  afterAnswer(conversation, turn) {
    this.save(conversation);
    if (conversation === this.conversation) {
      this.draw();
      if (openRequests(turn).length) {
        if (this.decideByHabit(turn)) return this.goOn(turn);
        this.draw();
        announce("The model asks for permission to run a tool.");
        // The group and not a button: Enter, meant for the message field, must not allow anything.
        this.transcript.view(turn).element.querySelector(".consent:not(.decided)")?.focus();
      }
    }
    this.hooks.listChanged();
  }
}

function titleOf(message) {
  const {text, files} = splitFiles(message);
  const line = text.trim().split("\n")[0] || files.map((file) => file.name).join(", ");
  return line.length > 60 ? `${line.slice(0, 59).trimEnd()}…` : line;
}
