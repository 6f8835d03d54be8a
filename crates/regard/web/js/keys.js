// The keyboard.

import { undoChange } from "./changes.js";
import { blockPair, switchHead } from "./panel.js";
import { select } from "./selection.js";

/** The head with the focus in the grid of all heads, if there is one. */
function focusedHead(event, page) {
  const named = event.target.closest?.("[data-head]")?.dataset.head.split(".").map(Number);
  return named ? [page.sites()[named[0]], named[1]] : null;
}

/** Handles the keys that work everywhere except in input fields. */
export function pressed(event, page, views) {
  if (event.ctrlKey || event.metaKey || event.altKey || !page.reading || /^(TEXTAREA|INPUT|SELECT)$/.test(event.target.tagName)) return;
  const turn = (value, by, count) => (value + by + count) % count;
  const [layers, heads] = [page.sites().length, page.site()?.heads ?? 0];
  const inTokens = event.target.closest?.("#tokens");
  if (/^[1-9]$/.test(event.key) && views[Number(event.key) - 1]) select({ view: views[Number(event.key) - 1].name });
  else if (event.key === "x" && heads) switchHead(page, focusedHead(event, page));
  else if (event.key === "b" && heads) blockPair(page);
  else if (event.key === "u") undoChange();
  else if (event.key === "[" && layers) select({ layer: turn(page.site().layer, -1, layers) });
  else if (event.key === "]" && layers) select({ layer: turn(page.site().layer, 1, layers) });
  else if (event.key === "," && heads) select({ head: turn(page.head(), -1, heads), lines: "" });
  else if (event.key === "." && heads) select({ head: turn(page.head(), 1, heads), lines: "" });
  else if (event.key === "ArrowLeft") select({ query: Math.max(0, page.query() - 1) });
  else if (event.key === "ArrowRight") select({ query: Math.min(page.asking().length - 1, page.query() + 1) });
  else if (event.key === "Home" && inTokens) select({ query: 0 });
  else if (event.key === "End" && inTokens) select({ query: page.asking().length - 1 });
  else return;
  event.preventDefault();
}
