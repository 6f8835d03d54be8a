// Continuing a text token by token or by many, and back again.

import { at, make } from "./dom.js";
import { chosen, select } from "./selection.js";

/** The ids of the tokens that were sampled after the text. They stand in the address, so that they outlive the page. */
export const drawnIds = () => chosen.drawn.split(",").filter(Boolean).map(Number);

/** What a page does when a token is sampled or taken back. */
export function goingOn(page, { read, refresh, complain }) {
  let stepping = false;
  // How often the token at a place was taken back. It is the seed of the next draw there: another token may come, and
  // whoever does the same again sees the same again.
  let attempts = [];

  /** Continues by a token: the one given, or a sampled one. One at a time: the next is sampled after this one. */
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
      const tokens = next.target.length ? next.target : next.source;
      select({ drawn: [...drawn, tokens.at(-1).id].join(",") });
      // With changes inside the model, the text without them goes on too.
      if (page.base) return void await read({ again: true });
      page.history.push(before);
      page.reading = next;
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

  /** Samples many tokens, shown as they come, and reads the whole text once at the end. Called again, it stops. */
  async function stepMany(count) {
    if (page.generating) return page.generating.abort();
    if (stepping) return;
    stepping = true;
    complain(null);
    const stop = new AbortController();
    page.generating = stop;
    const [before, drawn] = [page.reading, drawnIds()];
    const sampling = { greedy: false, temperature: chosen.temperature, top_k: chosen.k, top_p: chosen.p, repetition_penalty: 1, seed: attempts[drawn.length] ?? 0 };
    const ids = [];
    if (at("generate-many")) at("generate-many").textContent = "Stop";
    try {
      await page.source.generate(before, { count, sampling, step: drawn.length }, ({ id, text }) => {
        ids.push(id);
        at("prose")?.append(make("mark", {}, text));
      }, stop.signal);
    } catch (problem) {
      complain(problem);
    } finally {
      stepping = false;
      page.generating = null;
    }
    if (!ids.length || page.reading !== before) return;
    select({ drawn: [...drawn, ...ids].join(",") });
    await read({ again: true });
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
    if (!before || page.base) return read({ again: true });
    page.reading = before;
    refresh();
  }

  /** Another text begins anew. */
  const forget = () => {
    attempts = [];
  };
  return { step, stepMany, stepBack, forget };
}
