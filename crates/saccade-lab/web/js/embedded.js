// Where the numbers come from in a file of its own: they are inside the file. No server, no network.

import { largest, levelOf, mergeRows, reweigh, shrink } from "./maths.js";
import { realsOf } from "./packed.js";
import { axisOf, sidesOf } from "./words.js";

const tileSide = 256;

/** The source of everything that the page shows, from what the file holds. */
export function embeddedSource(held) {
  const decoded = new Map();
  const reals = (text, key) => {
    if (!decoded.has(key)) decoded.set(key, realsOf(text));
    return decoded.get(key);
  };
  const siteOf = (reading, name) => reading.sites.find((site) => site.name === name);
  const lacking = (what) => {
    throw new Error(`This file does not hold ${what}. Write it again without --layer and --head, or use saccade serve.`);
  };
  const headOf = (site, head) => held.heads[`${site}/${head}`] ?? lacking(`head ${head} of ${site}`);

  /** A head's map in the places that are shown. */
  function mapOf(reading, { site, head, scale, merge, hide }) {
    const key = `map ${site} ${head} ${scale} ${merge} ${hide}`;
    if (!decoded.has(key)) {
      const about = siteOf(reading, site);
      const [queries, keys] = sidesOf(reading, about.group);
      const weights = reals(headOf(site, head).weights, `weights ${site} ${head}`);
      const norms = scale === "norms" ? reals(headOf(site, head).norms, `norms ${site} ${head}`) : null;
      const rows = queries.map((_, i) => reweigh(weights.subarray(i * keys.length, (i + 1) * keys.length), scale, norms));
      const flags = { merge: isOn(merge), hide: isOn(hide) };
      const [down, across] = [axisOf(queries, flags), axisOf(keys, flags)];
      const values = mergeRows(rows, down, across);
      // A first row that sees only itself has no choice: it would make all others pale.
      const free = about.causal && down.length > 1 ? values.subarray(across.length) : values;
      decoded.set(key, { rows: down.length, columns: across.length, values, peak: free.reduce((a, b) => Math.max(a, b), 0) });
    }
    return decoded.get(key);
  }
  const isOn = (flag) => flag === true || flag === "true";

  return {
    live: false,
    start: held.start,
    state: async () => ({ models: [{ name: held.reading.model, kind: held.reading.kind }], training: null }),
    read: async () => held.reading,
    picture: held.picture,
    text: held.text,
    second: held.second,
    step: async () => lacking("the model, so that it cannot go on"),
    measures: async (_, site) => held.measures[site] ?? lacking(`measures of ${site}`),
    classes: async () => held.classes,
    async thumbnails(reading, question) {
      const about = siteOf(reading, question.site);
      const all = { peaks: [], levels: null, width: 0, height: 0 };
      for (let head = 0; head < about.heads; head++) {
        if (!held.heads[`${about.name}/${head}`]) {
          all.peaks.push(null);
          continue;
        }
        const map = mapOf(reading, { ...question, head });
        [all.width, all.height] = [Math.min(question.side, map.columns), Math.min(question.side, map.rows)];
        const small = shrink(map.values, map.rows, map.columns, all.height, all.width);
        all.levels ??= new Uint8Array(about.heads * small.length);
        all.levels.set(small.map((value) => levelOf(value, map.peak, question.scale)), head * small.length);
        all.peaks.push(map.peak);
      }
      return all;
    },
    async tile(reading, { zoom, x, y, ...which }) {
      const map = mapOf(reading, which);
      const span = tileSide << zoom;
      const [top, left] = [y * span, x * span];
      const [bottom, right] = [Math.min(top + span, map.rows), Math.min(left + span, map.columns)];
      const [height, width] = [Math.ceil((bottom - top) / 2 ** zoom), Math.ceil((right - left) / 2 ** zoom)];
      const large = new Float32Array(width * height);
      for (let r = top; r < bottom; r++) {
        for (let c = left; c < right; c++) {
          const place = ((r - top) >> zoom) * width + ((c - left) >> zoom);
          large[place] = Math.max(large[place], map.values[r * map.columns + c]);
        }
      }
      const levels = Uint8Array.from(large, (value) => levelOf(value, map.peak, which.scale));
      return { width, height, peak: map.peak, rows: map.rows, columns: map.columns, levels };
    },
    async block(reading, { top, bottom, left, right, ...which }) {
      const map = mapOf(reading, which);
      const values = [];
      for (let r = top; r < bottom; r++) values.push(...map.values.subarray(r * map.columns + left, r * map.columns + right));
      return { rows: bottom - top, columns: right - left, values: Float32Array.from(values) };
    },
    async vectors(reading, { site, head, query, keys }) {
      const about = siteOf(reading, site);
      const data = headOf(site, head);
      const wanted = String(keys).split(",").filter(Boolean).map(Number);
      const named = { width: about.width };
      const rows = (name, positions) => {
        const all = reals(data[name], `${name} ${site} ${head}`);
        return Float32Array.from(positions.flatMap((at) => [...all.subarray(at * about.width, (at + 1) * about.width)]));
      };
      for (const name of ["query", "query_rotated", "heads"]) if (data[name]) named[name] = rows(name, [query]);
      for (const name of ["key", "key_rotated", "value"]) if (data[name]) named[name] = rows(name, wanted);
      const columns = sidesOf(reading, about.group)[1].length;
      for (const name of ["weights", "scores"]) {
        if (data[name]) named[name] = reals(data[name], `${name} ${site} ${head}`).slice(query * columns, (query + 1) * columns);
      }
      named.norms = reals(data.norms, `norms ${site} ${head}`);
      return named;
    },
    async flow(_, { group, position }) {
      const flow = held.flow[group] ?? lacking("how this text flows through the layers");
      const [raw, rollout] = [reals(flow.raw, `raw ${group}`), reals(flow.rollout, `rollout ${group}`)];
      const size = flow.layers * flow.tokens;
      const part = (all) => all.subarray(position * size, (position + 1) * size);
      return { layers: flow.layers, tokens: flow.tokens, raw: part(raw), rollout: part(rollout) };
    },
    async next() {
      const scores = reals(held.next.scores, "next");
      return { best: held.next.best ?? largest(scores, 0), scores };
    },
  };
}
