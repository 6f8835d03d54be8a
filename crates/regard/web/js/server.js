// The data source of the page while the server runs.

import { unpackBytes, unpackReals } from "./packed.js";

/** A failed request: the server's message and its status. */
export class Refusal extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

const lost = "The server does not answer. Is `regard serve` still running? Read again to try once more.";

async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new Refusal(lost, 0);
  }
  if (!answer.ok) {
    const failure = await answer.json().catch(() => ({}));
    throw new Refusal(failure.error || `The server answered ${answer.status}.`, answer.status);
  }
  return answer;
}

const json = async (path, options) => (await ask(path, options)).json();
const binary = async (path, options) => (await ask(path, options)).arrayBuffer();
const send = (path, body, signal) =>
  json(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal });

/** The reading that ran an attention: another one, if this reading resumed after it. */
function originOf(reading, site) {
  return reading.origins[reading.sites.findIndex(({ name }) => name === site)] ?? reading.id;
}

/** The data source of the page. Responses about a reading are cached; those about an attention, for all readings that share it. */
export function serverSource() {
  const kept = new Map();
  const about = (reading, what, question, signal, read) => {
    const asked = `${what}?${new URLSearchParams(question)}`;
    const key = `${originOf(reading, question.site)}/${asked}`;
    if (!kept.has(key)) {
      if (kept.size > 600) kept.delete(kept.keys().next().value);
      // Asked of this reading: the server may have evicted the one that ran it.
      const answer = read(`api/readings/${reading.id}/${asked}`, { signal });
      kept.set(key, answer);
      const forget = () => kept.delete(key);
      // An aborted request must not stay in the cache.
      signal?.addEventListener("abort", forget, { once: true });
      answer.then(() => signal?.removeEventListener("abort", forget), forget);
    }
    return kept.get(key);
  };
  return {
    live: true,
    state: () => json("api/state"),
    film: (model) => json(`api/film?${new URLSearchParams({ model })}`),
    control: (request) => send("api/film", request),
    tokens: (request, signal) => send("api/tokens", request, signal),
    read: (request, signal) => send("api/read", request, signal),
    step: (reading, request, signal) => send(`api/readings/${reading.id}/step`, request, signal),
    measures: (reading, site, signal) => about(reading, "measures", { site }, signal, json),
    classes: (reading, signal) => about(reading, "classes", {}, signal, json),
    async thumbnails(reading, question, signal) {
      const [found, levels] = unpackBytes(await about(reading, "thumbnails", question, signal, binary));
      return { ...found, levels };
    },
    async tile(reading, question, signal) {
      const [found, levels] = unpackBytes(await about(reading, "tile", question, signal, binary));
      return { ...found, levels };
    },
    async block(reading, question, signal) {
      const [found, values] = unpackReals(await about(reading, "block", question, signal, binary));
      return { ...found, values };
    },
    async vectors(reading, question, signal) {
      const [found, values] = unpackReals(await about(reading, "vectors", question, signal, binary));
      const named = { width: found.width };
      let start = 0;
      for (const { name, count } of found.parts) {
        named[name] = values.subarray(start, start + count);
        start += count;
      }
      return named;
    },
    async flow(reading, question, signal) {
      const [found, values] = unpackReals(await about(reading, "flow", question, signal, binary));
      const half = found.layers * found.tokens;
      return { ...found, raw: values.subarray(0, half), rollout: values.subarray(half) };
    },
    async next(reading, { position, layer }, signal) {
      const question = Object.fromEntries(Object.entries({ position, layer }).filter(([, value]) => value !== undefined));
      const [found, scores] = unpackReals(await about(reading, "next", question, signal, binary));
      return { ...found, scores };
    },
    patch: (request, signal) => send("api/patch", request, signal),
    parts: (reading, question, signal) => about(reading, "parts", question, signal, json),
    blankOut: (reading, position, signal) => about(reading, "blank_out", position === undefined ? {} : { position }, signal, json),
    names: (reading, signal) => about(reading, "names", {}, signal, json),
    /** Samples several tokens; `each` gets them one by one. */
    async generate(reading, request, each, signal) {
      const answer = await ask(`api/readings/${reading.id}/generate`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(request), signal });
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        const lines = (rest + value).split("\n");
        rest = lines.pop();
        for (const line of lines.map((text) => JSON.parse(text))) {
          if (line.error) throw new Refusal(line.error, 0);
          each(line);
        }
      }
    },
    ribbons: (reading, question, signal) => about(reading, "ribbons", question, signal, json),
    search: (reading, request, signal) => send(`api/readings/${reading.id}/search`, request, signal),
    lens: (reading, question, signal) => about(reading, "lens", question, signal, json),
  };
}
