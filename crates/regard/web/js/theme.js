// Light or dark: as the system has it until someone chooses, and then as chosen.

const system = matchMedia("(prefers-color-scheme: dark)");

/** Follows the system's theme and the button; calls a function when the colours have changed. */
export function followTheme(button, changed) {
  const set = (theme) => {
    document.documentElement.dataset.theme = theme;
  };
  // A file of its own may not be allowed to remember anything.
  try {
    const kept = localStorage.getItem("theme");
    if (kept === "light" || kept === "dark") set(kept);
  } catch { /* as the system has it */ }
  system.addEventListener("change", () => changed());
  button.addEventListener("click", () => {
    const now = document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light");
    const next = now === "dark" ? "light" : "dark";
    set(next);
    try {
      localStorage.setItem("theme", next);
    } catch { /* for this time only */ }
    changed();
  });
}
