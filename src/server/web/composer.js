// The field where messages are written, with files, images and a draft that outlasts a reload.

import {byId, el, iconButton, icon, toast} from "./dom.js";
import * as format from "./format.js";
import {MAX_FILES, MAX_TOTAL, joinFiles, readTextFile} from "./files.js";
import {isPdf, readPdf} from "./pdf_text.js";
import {MAX_IMAGES, isImage, pictures, readImage} from "./images.js";

const DRAFT = "anabranch.draft";

export class Composer {
  // actions: {send(text, images), stop()}
  constructor(actions) {
    this.actions = actions;
    this.area = byId("message");
    this.button = byId("send");
    this.list = byId("files");
    this.error = byId("composer-error");
    this.files = [];
    this.images = [];  // {name, url}
    this.adding = Promise.resolve();  // settles when the last files are read
    this.takesImages = false;
    this.busy = false;
    this.area.addEventListener("input", () => this.changed());
    this.area.addEventListener("keydown", (event) => this.key(event));
    this.button.addEventListener("click", () => (this.busy ? actions.stop() : this.send()));
    byId("attach").addEventListener("click", () => byId("file-input").click());
    byId("file-input").addEventListener("change", (event) => {
      this.add([...event.target.files]);
      event.target.value = "";
    });
    this.area.addEventListener("paste", (event) => this.paste(event));
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
    this.button.disabled = !this.busy && this.empty();
    try {
      sessionStorage.setItem(DRAFT, JSON.stringify({text: this.area.value, files: this.files, images: this.images}));
    } catch {
      // The draft then does not outlast a reload.
    }
  }

  restore() {
    try {
      const draft = JSON.parse(sessionStorage.getItem(DRAFT));
      if (draft) this.set(draft.text, draft.files || [], (draft.images || []).filter((image) => pictures([image.url]).length));
    } catch {
      // No draft.
    }
    this.changed();
  }

  empty() {
    return !this.area.value.trim() && !this.files.length && !this.images.length;
  }

  set(text, files = [], images = []) {
    this.area.value = text;
    this.files = files;
    this.images = images;
    this.showFiles();
    this.changed();
  }

  send() {
    if (this.empty()) return;
    const message = joinFiles(this.area.value.trim(), this.files);
    if (this.actions.send(message, this.images.map((image) => image.url))) this.set("");
  }

  // images: whether the model takes them. continues: it continues the text instead of answering it.
  offer(images, continues) {
    this.takesImages = images;
    this.area.placeholder = continues ? "Write the beginning of a text" : "Write a message";
    const label = images ? "Attach text files and images" : "Attach text files";
    byId("attach").setAttribute("aria-label", label);
    byId("attach").title = `${label} (Alt + U)`;
    byId("drop").firstElementChild.textContent = images ? "Drop text files and images here" : "Drop text files here";
  }

  // Programs that copy text often copy a picture of it as well: then the text is meant.
  paste(event) {
    const files = [...(event.clipboardData?.files || [])];
    if (!files.length || event.clipboardData.getData("text/plain")) return;
    event.preventDefault();
    this.add(files);
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

  // One call after another: files that arrive while others are read are counted with them.
  add(files) {
    this.adding = this.adding.then(() => this.addAll(files));
  }

  async addAll(files) {
    const problems = [];
    for (const file of files) {
      try {
        await (isImage(file) ? this.addImage(file) : this.addText(file));
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

  async addText(file) {
    if (this.files.length >= MAX_FILES) throw new Error(`At most ${MAX_FILES} files go with a message.`);
    const read = await (isPdf(file) ? readPdf(file) : readTextFile(file));
    const total = this.files.reduce((sum, one) => sum + one.text.length, read.text.length);
    if (total > MAX_TOTAL) throw new Error(`${file.name} does not fit: all files may have ${format.bytes(MAX_TOTAL)}.`);
    this.files.push(read);
  }

  async addImage(file) {
    if (!this.takesImages) throw new Error(`${file.name} is an image, and this model reads text only.`);
    if (this.images.length >= MAX_IMAGES) throw new Error(`At most ${MAX_IMAGES} images go with a message.`);
    this.images.push(await readImage(file));
  }

  showFiles() {
    const remove = (list, one) => iconButton("close", `Remove ${one.name}`, () => {
      list.splice(list.indexOf(one), 1);
      this.error.hidden = true;
      this.showFiles();
      this.changed();
      this.focus();
    });
    this.list.replaceChildren(
      ...this.images.map((image) => el("li.chip.picture", {}, el("img", {src: image.url, alt: image.name}),
        remove(this.images, image))),
      ...this.files.map((file) => el("li.chip", {}, icon("file"), file.name,
        el("span.quiet", {}, format.bytes(new Blob([file.text]).size)), remove(this.files, file))));
    this.list.hidden = !this.files.length && !this.images.length;
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
