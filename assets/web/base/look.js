// The theme, the language and which panels are open: kept in this browser.
const PLACE = "llm-lite.look";

export const look = read();

function read() {
  try {
    return JSON.parse(localStorage.getItem(PLACE) || "{}");
  } catch {
    return {};
  }
}

export function keepLook(changes) {
  Object.assign(look, changes);
  try {
    localStorage.setItem(PLACE, JSON.stringify(look));
  } catch {
    // A browser that keeps nothing forgets it with the tab.
  }
}

export function isDark() {
  return look.theme ? look.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** "dark", "light", or "" for the system's. */
export function setTheme(theme) {
  keepLook({ theme });
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  document.dispatchEvent(new Event("theme"));
}
