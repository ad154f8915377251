// The button for light, dark, or as the system.

import {announce} from "./dom.js";
import {choice, choose} from "./settings.js";

const NEXT = {system: "light", light: "dark", dark: "system"};
const NAMES = {system: "as the system", light: "light", dark: "dark"};

// Returns a function that goes on to the next theme.
export function bindTheme(button) {
  let theme = choice("theme", "system");
  const show = () => {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    const label = `Theme: ${NAMES[theme]}`;
    button.setAttribute("aria-label", label);
    button.title = label;
  };
  const next = () => {
    theme = NEXT[theme] || "system";
    choose("theme", theme === "system" ? null : theme);
    show();
    announce(`Theme: ${NAMES[theme]}.`);
  };
  button.addEventListener("click", next);
  show();
  return next;
}
