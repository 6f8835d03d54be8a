// Going on with a text token by token, and back again.

import { chosen, select } from "./selection.js";

/** The ids of the tokens that were drawn after the text. They stand in the address, so that they outlive the page. */
export const drawnIds = () => chosen.drawn.split(",").filter(Boolean).map(Number);

/** What a page does when a token is drawn or taken back. */
export function goingOn(page, { read, refresh, complain }) {
  let stepping = false;
  // How often the token at a place was taken back. It is the seed of the next draw there: another token may come, and
  // whoever does the same again sees the same again.
  let attempts = [];

  /** Goes on by a token: the one given, or one drawn. One at a time: the next is drawn after this one. */
  async function step({ token }, again = false) {
    if (stepping) return;
    stepping = true;
    complain(null);
    const [before, drawn] = [page.reading, drawnIds()];
    const sampling = { greedy: false, temperature: chosen.temperature, top_k: chosen.k, top_p: chosen.p, repetition_penalty: 1, seed: attempts[drawn.length] ?? 0 };
    let gone = false;
    try {
      const next = await page.source.step(before, { token, sampling, step: drawn.length });
      // Something else may have been read meanwhile.
      if (page.reading !== before) return;
      page.history.push(before);
      page.reading = next;
      const tokens = next.target.length ? next.target : next.source;
      select({ drawn: [...drawn, tokens.at(-1).id].join(",") });
      refresh();
    } catch (problem) {
      gone = problem.status === 410 && !again;
      if (!gone) complain(problem);
    } finally {
      stepping = false;
    }
    // The server let the reading go to make room: read again, and go on.
    if (gone && await read({ again: true })) await step({ token }, true);
  }

  /** Takes the last token back. */
  async function stepBack() {
    const drawn = drawnIds();
    if (stepping || !drawn.length) return;
    const place = drawn.length - 1;
    attempts[place] = (attempts[place] ?? 0) + 1;
    attempts.length = place + 1;
    const before = page.history.pop();
    select({ drawn: drawn.slice(0, -1).join(",") });
    if (!before) return read({ again: true });
    page.reading = before;
    refresh();
  }

  /** Another text begins anew. */
  const forget = () => {
    attempts = [];
  };
  return { step, stepBack, forget };
}
