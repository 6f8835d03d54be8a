// The data source of a standalone file: all numbers are inside it. No server, no network.

import { dot, largest, levelOf, mergeRows, reweigh, rolloutRibbons, shrink, topOf } from "./maths.js";
import { realsOf } from "./packed.js";
import { axisOf, sidesOf } from "./words.js";

const tileSide = 256;

/** The data source of the page, backed by the contents of the file. */
export function embeddedSource(held) {
  const decoded = new Map();
  const reals = (text, key) => {
    if (!decoded.has(key)) decoded.set(key, realsOf(text));
    return decoded.get(key);
  };
  const siteOf = (reading, name) => reading.sites.find((site) => site.name === name);
  const lacking = (what) => {
    throw new Error(`This file does not hold ${what}. Write it again without --layer and --head, or use regard serve.`);
  };
  // The file may hold two readings: with interventions and, as `base`, without them.
  const heldOf = (reading) => (reading === held.reading ? held : held.base);
  const from = (reading) => (reading === held.reading ? "" : "base ");
  const headOf = (reading, site, head) => heldOf(reading).heads?.[`${site}/${head}`] ?? lacking(`head ${head} of ${site}`);

  /** A head's map over the entries of both axes. */
  function mapOf(reading, { site, head, scale, merge, hide }) {
    const key = `map ${from(reading)}${site} ${head} ${scale} ${merge} ${hide}`;
    if (!decoded.has(key)) {
      const about = siteOf(reading, site);
      const [queries, keys] = sidesOf(reading, about.group);
      const norms = scale === "norms" ? reals(headOf(reading, site, head).norms, `norms ${from(reading)}${site} ${head}`) : null;
      const rows = queries.map((_, i) => reweigh(rowOf(reading, site, head, "weights", i), scale, norms));
      const flags = { merge: isOn(merge), hide: isOn(hide) };
      const [down, across] = [axisOf(queries, flags), axisOf(keys, flags)];
      const values = mergeRows(rows, down, across);
      // The first row of causal attention sees one key, whose large weight would make all others pale.
      const first = about.causal && down.length > 1 ? 1 : 0;
      // Only one large map is cached at a time.
      if (values.length > 1 << 22) for (const old of decoded.keys()) if (old.startsWith("map ")) decoded.delete(old);
      decoded.set(key, { rows: down.length, columns: across.length, values, ...topOf(values, down.length, across.length, first) });
    }
    return decoded.get(key);
  }

  /** A row of weights or scores. Of causal attention the file holds the lower triangle. */
  function rowOf(reading, site, head, name, row) {
    const about = siteOf(reading, site);
    const columns = sidesOf(reading, about.group)[1].length;
    const all = reals(headOf(reading, site, head)[name], `${name} ${from(reading)}${site} ${head}`);
    if (!about.causal) return all.subarray(row * columns, (row + 1) * columns);
    const held = Math.min(row + 1, columns);
    const before = row <= columns ? (row * (row + 1)) / 2 : (columns * (columns + 1)) / 2 + (row - columns) * columns;
    const whole = new Float32Array(columns);
    whole.set(all.subarray(before, before + held));
    return whole;
  }

  /** The scores of a query, recomputed: the file of a long text does not hold them. */
  function scoresOf(about, data, head, query) {
    if (about.biased || !about.softmax) return undefined;
    const part = (name) => reals(data[about.rotary ? `${name}_rotated` : name], `${about.rotary ? `${name}_rotated` : name} ${about.name} ${head}`);
    const row = (all, at) => all.subarray(at * about.width, (at + 1) * about.width);
    const [q, k] = [row(part("query"), query), part("key")];
    return Float32Array.from({ length: k.length / about.width }, (_, at) => dot(q, row(k, at)) * about.scale);
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
    step: async () => lacking("the model, so it cannot continue the text"),
    measures: async (_, site) => held.measures[site] ?? lacking(`measures of ${site}`),
    classes: async (reading) => (reading === held.reading ? held : held.base).classes,
    async thumbnails(reading, question) {
      const about = siteOf(reading, question.site);
      const all = { tops: [], levels: null, width: 0, height: 0 };
      for (let head = 0; head < about.heads; head++) {
        if (!heldOf(reading).heads?.[`${about.name}/${head}`]) {
          all.tops.push(null);
          continue;
        }
        const map = mapOf(reading, { ...question, head });
        [all.width, all.height] = [Math.min(question.side, map.columns), Math.min(question.side, map.rows)];
        const small = shrink(map.values, map.rows, map.columns, all.height, all.width);
        all.levels ??= new Uint8Array(about.heads * small.length);
        all.levels.set(small.map((value) => levelOf(value, map.top, question.scale)), head * small.length);
        all.tops.push(map.top);
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
          const pixel = ((r - top) >> zoom) * width + ((c - left) >> zoom);
          large[pixel] = Math.max(large[pixel], map.values[r * map.columns + c]);
        }
      }
      const levels = Uint8Array.from(large, (value) => levelOf(value, map.top, which.scale));
      return { width, height, top: map.top, largest: map.largest, rows: map.rows, columns: map.columns, levels };
    },
    async block(reading, { top, bottom, left, right, ...which }) {
      const map = mapOf(reading, which);
      const values = new Float32Array((bottom - top) * (right - left));
      for (let r = top; r < bottom; r++) values.set(map.values.subarray(r * map.columns + left, r * map.columns + right), (r - top) * (right - left));
      return { rows: bottom - top, columns: right - left, values };
    },
    async vectors(reading, { site, head, query, keys }) {
      const about = siteOf(reading, site);
      const data = headOf(reading, site, head);
      const wanted = String(keys).split(",").filter(Boolean).map(Number);
      const named = { width: about.width };
      const rows = (name, positions) => {
        const all = reals(data[name], `${name} ${site} ${head}`);
        return Float32Array.from(positions.flatMap((at) => [...all.subarray(at * about.width, (at + 1) * about.width)]));
      };
      for (const name of ["query", "query_rotated", "heads"]) if (data[name]) named[name] = rows(name, [query]);
      for (const name of ["key", "key_rotated", "value"]) if (data[name]) named[name] = rows(name, wanted);
      for (const name of ["weights", "scores"]) if (data[name]) named[name] = rowOf(reading, site, head, name, query);
      named.scores ??= scoresOf(about, data, head, query);
      named.norms = reals(data.norms, `norms ${site} ${head}`);
      return named;
    },
    async flow(_, { group, position }) {
      const flow = held.flow[group] ?? lacking("the flow of this text through the layers");
      const [raw, rollout] = [reals(flow.raw, `raw ${group}`), reals(flow.rollout, `rollout ${group}`)];
      const size = flow.layers * flow.tokens;
      const part = (all) => all.subarray(position * size, (position + 1) * size);
      return { layers: flow.layers, tokens: flow.tokens, raw: part(raw), rollout: part(rollout) };
    },
    async ribbons(reading, { group, position, method }) {
      if (method !== "rollout") lacking("the model, which all methods but rollout need");
      const key = `means ${group} ${reading === held.reading}`;
      if (!decoded.has(key)) {
        const means = reading.sites.filter((site) => site.group === group).map((site) => {
          const tokens = sidesOf(reading, group)[0].length;
          const mean = new Float32Array(tokens * tokens);
          for (let head = 0; head < site.heads; head++) {
            for (let row = 0; row < tokens; row++) rowOf(reading, site.name, head, "weights", row).forEach((weight, k) => (mean[row * tokens + k] += weight / site.heads));
          }
          return mean;
        });
        decoded.set(key, means);
      }
      return rolloutRibbons(decoded.get(key), sidesOf(reading, group)[0].length, position);
    },
    search: async () => lacking("the model, so it cannot search texts"),
    base: held.base?.reading,
    parts: async () => lacking("the model, so it cannot split scores into parts"),
    blankOut: async () => lacking("the model, so it cannot strike words out"),
    async next(reading, { position, layer }) {
      const from = reading === held.reading ? held : held.base;
      if (layer === undefined && (position === undefined || position === from.next?.position)) {
        const scores = reals(from.next.scores, `next ${reading === held.reading}`);
        return { best: from.next.best ?? largest(scores, 0), scores };
      }
      return lacking("the distribution at this position and layer");
    },
    async lens(_, { from, to, token }) {
      const { positions, cells } = held.lens ?? lacking("the predictions of the layers");
      if (token !== undefined || from < positions[0] || to > positions[1]) lacking("the predictions of the layers for this token or position");
      const wide = positions[1] - positions[0];
      return { layers: cells.length / wide, cells: cells.filter((_, i) => i % wide >= from - positions[0] && i % wide < to - positions[0]) };
    },
  };
}
