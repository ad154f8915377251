// The list of conversations: those that the server keeps, and those of this tab.

import {byId, download, el, iconButton, toast} from "./dom.js";
import * as format from "./format.js";
import {conversationOptions} from "./dialogs.js";
import {serverStore} from "./server_store.js";
import {tabStore} from "./tab_store.js";
import {storeOf} from "./chat.js";

const SEARCH_MS = 200;

export class Sidebar {
  // hooks: {keeps(), open(id), fresh(), current(): the open conversation's id, renamed(id, title)}
  constructor(hooks) {
    this.hooks = hooks;
    this.list = byId("conversations");
    this.search = byId("search");
    this.note = byId("list-note");
    this.wanted = 0;
    this.unavailable = "";  // why the server keeps no conversations, once it has said so
    this.search.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.refresh(), SEARCH_MS);
    });
    byId("import").addEventListener("click", () => byId("import-input").click());
    byId("import-input").addEventListener("change", (event) => this.importFile(event.target));
  }

  async refresh() {
    const turn = ++this.wanted;
    const query = this.search.value.trim();
    const here = await tabStore.list(query);
    const {kept, problem} = await this.listKept(query);
    if (turn !== this.wanted) return;  // a later search is under way
    this.show(here.entries, kept, query, problem);
    if (!query) this.tellWhatIsKept(kept.entries.length > 0);
  }

  // Conversations that were kept are listed whatever the switch says about new ones. With the switch off, nobody is asked for a
  // key because of them, and a server that keeps none is not asked again.
  async listKept(query) {
    const none = {entries: [], more: false}, wanted = this.hooks.keeps();
    if (this.unavailable && !wanted) return {kept: none, problem: ""};
    try {
      const kept = await serverStore.list(query, null, {quiet: !wanted});
      this.unavailable = "";
      return {kept, problem: ""};
    } catch (error) {
      if (error.status === 403 || error.status === 404) this.unavailable = error.message;
      return {kept: none, problem: wanted ? error.message : ""};
    }
  }

  tellWhatIsKept(some) {
    byId("keep-hint").textContent = this.hooks.keeps()
      ? "On: new conversations are stored on this server until you delete them."
      : this.unavailable ? "This server keeps no conversations: they end with this tab."
        : some ? "Off: new conversations end with this tab. The ones listed by day are stored on this server until you delete them."
          : "Off: new conversations end with this tab, and nothing is stored.";
  }

  show(here, kept, query, problem) {
    this.list.replaceChildren();
    if (here.length) this.addGroup(this.hooks.keeps() || kept.entries.length ? "Only in this tab" : "In this tab", here);
    let day = null, group = [];
    for (const entry of kept.entries) {
      const name = query ? "Found" : format.dayName(entry.updated);
      if (name !== day && group.length) this.addGroup(day, group);
      if (name !== day) group = [];
      day = name;
      group.push(entry);
    }
    if (group.length) this.addGroup(day, group);
    if (kept.more) this.list.append(el("button.small.more", {type: "button", onclick: () => this.showMore(here, kept, query)},
      "Show older ones"));
    const none = !here.length && !kept.entries.length;
    this.note.textContent = problem || (none ? (query ? "Nothing was found." : "No conversations yet.") : "");
    this.note.hidden = !this.note.textContent;
  }

  async showMore(here, kept, query) {
    try {
      const next = await serverStore.list(query, kept.entries[kept.entries.length - 1].id);
      const first = kept.entries.length;
      this.show(here, {entries: [...kept.entries, ...next.entries], more: next.more}, query, "");
      this.list.querySelectorAll("a")[here.length + first]?.focus();
    } catch (error) {
      toast(error.message);
    }
  }

  addGroup(name, entries) {
    this.list.append(el("h3.group", {}, name), el("ul", {}, entries.map((entry) => this.line(entry))));
  }

  line(entry) {
    const title = entry.title || "Conversation";
    const current = entry.id === this.hooks.current();
    const link = el("a", {href: `#${entry.id}`, "aria-current": current ? "page" : null}, el("span.title", {}, title));
    if (entry.snippet) link.append(el("span.snippet", {}, entry.snippet.map((part) =>
      part.match ? el("mark", {}, part.text) : part.text)));
    return el("li", {}, link, iconButton("more", `Options of ${title}`, () => this.options(entry)));
  }

  options(entry) {
    const store = storeOf(entry.id);
    const guarded = async (action) => {
      try {
        await action();
      } catch (error) {
        toast(error.message);
      }
      this.refresh();
    };
    conversationOptions(entry.title || "", {
      rename: (title) => title && guarded(async () => {
        await store.rename(entry.id, title);
        this.hooks.renamed(entry.id, title);
      }),
      exportAs: (form) => guarded(async () => {
        const text = await store.exportText(entry.id, form);
        const name = (entry.title || "conversation").replace(/[^\p{L}\p{N} _-]/gu, "").trim().slice(0, 60) || "conversation";
        download(`${name}.${form === "jsonl" ? "jsonl" : "md"}`, form === "jsonl" ? "application/jsonl" : "text/markdown", text);
      }),
      remove: () => guarded(async () => {
        await store.remove(entry.id);
        toast("The conversation is deleted.");
        if (entry.id === this.hooks.current()) this.hooks.fresh();
      }),
    });
  }

  async importFile(input) {
    const [file] = input.files;
    input.value = "";
    if (!file) return;
    try {
      const store = this.hooks.keeps() ? serverStore : tabStore;
      const ids = await store.importText(await file.text());
      toast(`${format.plural(ids.length, "conversation")} imported.`);
      await this.refresh();
      this.hooks.open(ids[0]);
    } catch (error) {
      toast(`The file was not imported: ${error.message}`);
    }
  }
}
