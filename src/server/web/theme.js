// Runs before the page is drawn, so that no light page flashes in the dark. Not a module: modules run later.
(() => {
  let wanted = null;
  try {
    wanted = localStorage.getItem("anabranch.theme");
  } catch {
    // Storage may be forbidden; the system's choice counts then.
  }
  if (wanted === "light" || wanted === "dark") document.documentElement.dataset.theme = wanted;
})();
