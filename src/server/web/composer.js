// The field where messages are written, with files and a draft that outlasts a reload.

import {byId, el, iconButton, icon, toast} from "./dom.js";
import * as format from "./format.js";
import {MAX_FILES, MAX_TOTAL, joinFiles, readTextFile} from "./files.js";

const DRAFT = "anabranch.draft";

export class Composer {
  // actions: {send(text), stop()}
  constructor(actions) {
    this.actions = actions;
    this.area = byId("message");
    this.button = byId("send");
    this.list = byId("files");
    this.error = byId("composer-error");
    this.files = [];
    this.busy = false;
    this.area.addEventListener("input", () => this.changed());
    this.area.addEventListener("keydown", (event) => this.key(event));
    this.button.addEventListener("click", () => (this.busy ? actions.stop() : this.send()));
    byId("attach").addEventListener("click", () => byId("file-input").click());
    byId("file-input").addEventListener("change", (event) => {
      this.add([...event.target.files]);
      event.target.value = "";
    });
    this.watchDrops();
    this.restore();
  }

  key(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (!this.busy) this.send();
  }

  changed() {
    this.area.style.height = "";  // set by script, which the policy allows
    this.area.style.height = `${Math.min(this.area.scrollHeight + 2, window.innerHeight * 0.4)}px`;
    this.button.disabled = !this.busy && !this.area.value.trim() && !this.files.length;
    try {
      sessionStorage.setItem(DRAFT, JSON.stringify({text: this.area.value, files: this.files}));
    } catch {
      // The draft then does not outlast a reload.
    }
  }

  restore() {
    try {
      const draft = JSON.parse(sessionStorage.getItem(DRAFT));
      if (draft) this.set(draft.text, draft.files || []);
    } catch {
      // No draft.
    }
    this.changed();
  }

  set(text, files = []) {
    this.area.value = text;
    this.files = files;
    this.showFiles();
    this.changed();
  }

  send() {
    const text = this.area.value.trim();
    if (!text && !this.files.length) return;
    const message = joinFiles(text, this.files);
    if (this.actions.send(message)) this.set("");
  }

  focus() {
    this.area.focus();
  }

  setBusy(busy) {
    this.busy = busy;
    this.button.classList.toggle("stop", busy);
    const label = busy ? "Stop" : "Send";
    this.button.setAttribute("aria-label", label);
    this.button.title = busy ? "Stop (Escape)" : "Send (Enter)";
    this.button.replaceChildren(icon(busy ? "stop" : "send"));
    this.changed();
  }

  async add(files) {
    const problems = [];
    for (const file of files) {
      try {
        if (this.files.length >= MAX_FILES) throw new Error(`At most ${MAX_FILES} files go with a message.`);
        const read = await readTextFile(file);
        const total = this.files.reduce((sum, one) => sum + one.text.length, read.text.length);
        if (total > MAX_TOTAL) throw new Error(`${file.name} does not fit: all files may have ${format.bytes(MAX_TOTAL)}.`);
        this.files.push(read);
      } catch (error) {
        problems.push(error.message);
      }
    }
    this.error.textContent = problems.join(" ");
    this.error.hidden = !problems.length;
    this.showFiles();
    this.changed();
    this.focus();
  }

  showFiles() {
    this.list.replaceChildren(...this.files.map((file, index) => el("li.chip", {}, icon("file"), file.name,
      el("span.quiet", {}, format.bytes(new Blob([file.text]).size)),
      iconButton("close", `Remove ${file.name}`, () => {
        this.files.splice(index, 1);
        this.error.hidden = true;
        this.showFiles();
        this.changed();
        this.focus();
      }))));
    this.list.hidden = !this.files.length;
  }

  watchDrops() {
    const zone = byId("drop");
    const holdsFiles = (event) => [...(event.dataTransfer?.types || [])].includes("Files");
    let depth = 0;
    document.addEventListener("dragenter", (event) => {
      if (!holdsFiles(event)) return;
      depth++;
      zone.hidden = false;
    });
    document.addEventListener("dragleave", (event) => {
      if (holdsFiles(event) && --depth <= 0) zone.hidden = true;
    });
    document.addEventListener("dragover", (event) => {
      if (holdsFiles(event)) event.preventDefault();
    });
    document.addEventListener("drop", (event) => {
      if (!holdsFiles(event)) return;
      event.preventDefault();
      depth = 0;
      zone.hidden = true;
      if (document.querySelector("dialog[open]")) toast("Close the dialog first.");
      else this.add([...event.dataTransfer.files]);
    });
  }
}
