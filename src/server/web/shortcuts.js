// Keys for everything that is done often. All but Escape need Alt, so that typing never triggers one.

// actions: name -> function. Returns the list for the dialog that shows them.
export function bindShortcuts(actions) {
  const shortcuts = [
    {code: "Enter", keys: ["Enter"], label: "Send the message (Shift + Enter: a new line)"},
    {code: "Escape", keys: ["Escape"], label: "Stop the answer, or close what is open", run: actions.stop, bare: true},
    {code: "KeyN", keys: ["Alt", "N"], label: "New conversation", run: actions.fresh},
    {code: "KeyM", keys: ["Alt", "M"], label: "Go to the message field", run: actions.compose},
    {code: "KeyK", keys: ["Alt", "K"], label: "Search conversations", run: actions.search},
    {code: "KeyR", keys: ["Alt", "R"], label: "Generate the last answer again", run: actions.regenerate},
    {code: "KeyE", keys: ["Alt", "E"], label: "Edit your last message", run: actions.edit},
    {code: "KeyB", keys: ["Alt", "B"], label: "Branch into a new conversation", run: actions.branch},
    {code: "KeyC", keys: ["Alt", "C"], label: "Copy the last answer", run: actions.copy},
    {code: "Comma", keys: ["Alt", ","], label: "Previous version of the last answer", run: actions.previous},
    {code: "Period", keys: ["Alt", "."], label: "Next version of the last answer", run: actions.next},
    {code: "KeyU", keys: ["Alt", "U"], label: "Attach text files", run: actions.attach},
    {code: "KeyS", keys: ["Alt", "S"], label: "Settings", run: actions.settings},
    {code: "KeyO", keys: ["Alt", "O"], label: "Options of this conversation: rename, export, delete", run: actions.options},
    {code: "KeyL", keys: ["Alt", "L"], label: "Show or hide the conversations", run: actions.sidebar},
    {code: "KeyT", keys: ["Alt", "T"], label: "Light, dark, or as the system", run: actions.theme},
    {code: "Slash", keys: ["Alt", "/"], label: "Show this list", run: actions.help},
  ];
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const inDialog = document.querySelector("dialog[open]") !== null;
    for (const {code, run, bare} of shortcuts) {
      if (!run || code !== event.code || event.altKey === !!bare) continue;
      if (inDialog) return;  // Escape closes it, and the rest waits
      event.preventDefault();
      run();
      return;
    }
  });
  return shortcuts;
}
