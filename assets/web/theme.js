// Before the first picture: the theme and the language that this browser was set to.
(function () {
  try {
    const kept = JSON.parse(localStorage.getItem("llm-lite.look") || "{}");
    if (kept.theme === "dark" || kept.theme === "light") document.documentElement.dataset.theme = kept.theme;
    if (kept.language) document.documentElement.lang = kept.language;
  } catch {
    // A browser that keeps nothing follows the system.
  }
})();
