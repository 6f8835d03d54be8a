// One line above every view that speaks about the numbers in sight.

import { at, make } from "./dom.js";

let turns = 0;

/** Writes the line of the view that is open, or takes it away where there is nothing to say. */
export async function explain(shown, root) {
  const mine = ++turns;
  const parts = await Promise.resolve(shown?.explain?.()).catch(() => null);
  if (mine !== turns || !root.isConnected) return;
  at("explain")?.remove();
  if (parts?.length) root.prepend(make("p", { id: "explain", class: "explain", role: "note" }, parts));
}

/** A number or word that the line is about. */
export const strong = (text) => make("b", {}, text);
