// Dialogs: the key, the options of a conversation, shortcuts. All are <dialog> elements, so the browser keeps the focus
// inside, closes them with Escape and gives the focus back.

import {byId, el} from "./dom.js";

for (const dialog of document.querySelectorAll("dialog")) {
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();  // beside its content
  });
  for (const button of dialog.querySelectorAll("[data-close]")) button.addEventListener("click", () => dialog.close());
}

// Resolves with {key, remember}, or null.
export function askKey(wasWrong) {
  const dialog = byId("key-dialog"), field = byId("key-field"), problem = byId("key-problem");
  field.value = "";
  problem.hidden = !wasWrong;
  return new Promise((resolve) => {
    let given = null;
    const done = () => {
      if (!field.value.trim()) return field.focus();
      given = {key: field.value.trim(), remember: byId("key-remember").checked};
      dialog.close();
    };
    const enter = (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();  // else the key also presses what has the focus after the dialog
      done();
    };
    byId("key-use").addEventListener("click", done);
    field.addEventListener("keydown", enter);
    dialog.addEventListener("close", () => {
      byId("key-use").removeEventListener("click", done);
      field.removeEventListener("keydown", enter);
      resolve(given);
    }, {once: true});
    dialog.showModal();
    field.focus();
  });
}

// The options of one conversation. actions: {rename(title), exportAs(format), remove()}
export function conversationOptions(title, actions) {
  const dialog = byId("options-dialog"), field = byId("options-title"), sure = byId("options-sure");
  field.value = title;
  sure.hidden = true;
  const act = (action) => () => {
    dialog.close();
    action();
  };
  const rename = act(() => actions.rename(field.value.trim()));
  const bind = (id, action) => { byId(id).onclick = action; };
  bind("options-rename", rename);
  bind("options-jsonl", act(() => actions.exportAs("jsonl")));
  bind("options-markdown", act(() => actions.exportAs("markdown")));
  bind("options-delete", () => {
    sure.hidden = false;
    byId("options-really").focus();
  });
  bind("options-really", act(actions.remove));
  field.onkeydown = (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    rename();
  };
  dialog.showModal();
  field.select();
}

export function showShortcuts(shortcuts) {
  byId("shortcut-list").replaceChildren(...shortcuts.map(({keys, label}) =>
    el("tr", {}, el("td", {}, keys.flatMap((key, at) => [at ? " + " : "", el("kbd", {}, key)])), el("td", {}, label))));
  byId("shortcuts-dialog").showModal();
}
