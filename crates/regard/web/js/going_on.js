// Continues a text by one token or by many, and takes tokens back.

import { at, make } from "./dom.js";
import { chosen, select } from "./selection.js";

/** The ids of the tokens sampled after the text. They are part of the link, so that they survive a reload. */
export const drawnIds = () => chosen.drawn.split(",").filter(Boolean).map(Number);

/** The functions of the page that sample tokens and take them back. */
export function goingOn(page, { read, refresh, complain }) {
  let stepping = false;
  // How often the token at each position was taken back. It is the seed of the next sample there: the token may change,
  // and the same clicks lead to the same text.
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
      // With interventions, the reading without them is continued too.
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
    // The server evicted the reading from its cache: read again, then continue.
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
    const position = drawn.length - 1;
    attempts[position] = (attempts[position] ?? 0) + 1;
    attempts.length = position + 1;
    const before = page.history.pop();
    select({ drawn: drawn.slice(0, -1).join(",") });
    if (!before || page.base) return read({ again: true });
    page.reading = before;
    refresh();
  }

  /** Resets the seeds for a new text. */
  const forget = () => {
    attempts = [];
  };
  return { step, stepMany, stepBack, forget };
}
