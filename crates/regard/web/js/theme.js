// Light or dark theme: the system's until the user chooses one.

const system = matchMedia("(prefers-color-scheme: dark)");

/** Follows the system's theme and the button; calls a function when the colours have changed. */
export function followTheme(button, changed) {
  const set = (theme) => {
    document.documentElement.dataset.theme = theme;
  };
  // A standalone file may have no access to local storage.
  try {
    const kept = localStorage.getItem("theme");
    if (kept === "light" || kept === "dark") set(kept);
  } catch { /* follow the system */ }
  system.addEventListener("change", () => changed());
  button.addEventListener("click", () => {
    const now = document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light");
    const next = now === "dark" ? "light" : "dark";
    set(next);
    try {
      localStorage.setItem("theme", next);
    } catch { /* until the page is closed */ }
    changed();
  });
}
