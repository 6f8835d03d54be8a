// One line above every view that summarises its numbers.

import { at, make } from "./dom.js";

let turns = 0;

/** Writes the summary line of the open view, or removes it if the view has none. */
export async function explain(shown, root) {
  const mine = ++turns;
  const parts = await Promise.resolve(shown?.explain?.()).catch(() => null);
  if (mine !== turns || !root.isConnected) return;
  at("explain")?.remove();
  if (parts?.length) root.prepend(make("p", { id: "explain", class: "explain", role: "note" }, parts));
}

/** An emphasised number or word of the summary line. */
export const strong = (text) => make("b", {}, text);
