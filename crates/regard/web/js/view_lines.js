// Lines: queries on the left and keys on the right, joined by lines as strong as the weights; one head or many in colour.

import { headColour, named } from "./colours.js";
import { draw, make } from "./dom.js";
import { strong } from "./explain.js";
import { exactly, percent, several } from "./numbers.js";
import { chosen, select } from "./selection.js";
import { pickable, roving } from "./roving.js";
import { choosable, label, picture, stroke, wide, widthOf } from "./svg.js";
import { axisOf, placeOf, shortened, sidesOf } from "./words.js";

const mostWords = 90;
const mostLines = 1200;
const faintest = 0.015;

export const linesView = {
  name: "lines",
  title: "Lines",
  fits: (reading) => reading.sites.length > 0,
  lacks: "This model has no attention heads.",
  controls: ["group", "head", "scale", "shown"],
  redraw: ["group", "layer", "head", "scale", "merge", "hide", "lines", "query"],

  async show(root, page) {
    const site = page.site();
    const [queries, keys] = sidesOf(page.reading, site.group);
    const [rows, columns] = [axisOf(queries, chosen), axisOf(keys, chosen)];
    const heads = this.heads(site, page.head());
    root.append(this.chips(site, heads));
    const middle = placeOf(rows, page.query());
    const around = (length, at) => {
      const start = Math.max(0, Math.min(at - mostWords / 2, length - mostWords));
      return [Math.floor(start), Math.min(length, Math.floor(start) + mostWords)];
    };
    const [top, bottom] = around(rows.length, middle);
    const [left, right] = columns.length === rows.length ? [top, bottom] : around(columns.length, 0);
    const question = { site: site.name, scale: chosen.scale, merge: chosen.merge, hide: chosen.hide, top, bottom, left, right };
    const blocks = await Promise.all(heads.map((head) => page.source.block(page.reading, { ...question, head }, page.signal)));
    const [shownQueries, shownKeys] = [rows.slice(top, bottom), columns.slice(left, right)];
    const { svg, hidden, release } = this.draw(shownQueries, shownKeys, { heads, all: site.heads, causal: site.causal }, blocks.map((block) => block.values), middle - top, root.clientWidth);
    const part = (name, from, to, all) => (to - from < all ? `${name}: ${from + 1} to ${to} of ${all}. ` : "");
    const parts = part("Queries around the one chosen", top, bottom, rows.length) + part("Keys", left, right, columns.length);
    const notes = [parts ? `${parts}Weights on other tokens are not drawn.` : "", hidden ? `${several(hidden, "weak line")} left out.` : "", "Click a word to keep only its lines, again or Escape to see all."];
    root.append(make("p", { class: "muted", id: "parts" }, notes.filter(Boolean).join(" ")), make("div", { class: "scroll" }, svg));
    const escape = (event) => event.key === "Escape" && release();
    const listen = () => document.addEventListener("keydown", escape);
    listen();
    return {
      explain: () => this.inWords(shownQueries, shownKeys, heads, blocks, site),
      close: () => document.removeEventListener("keydown", escape),
      reopen: listen,
      svg: () => svg,
      csv: () => [["head", "query position", "query", "key position", "key", "weight"], ...heads.flatMap((head, h) =>
        shownQueries.flatMap((query, r) => shownKeys.map((key, c) => [head, query.start, query.label, key.start, key.label, exactly(blocks[h].values[r * shownKeys.length + c])])))],
    };
  },

  /** The strongest line that joins two different words. */
  inWords(shownQueries, shownKeys, heads, blocks) {
    let best = { weight: 0 };
    blocks.forEach(({ values }, h) => values.forEach((weight, i) => {
      const [row, column] = [Math.floor(i / shownKeys.length), i % shownKeys.length];
      if (weight > best.weight && shownQueries[row].start !== shownKeys[column].start && (column > 0 || shownKeys.length < 3)) best = { weight, row, column, h };
    }));
    return best.weight > 0 ? ["The strongest line between two words, except to the first key: ", strong(`“${shownQueries[best.row].label}” → “${shownKeys[best.column].label}”`), `, ${percent(best.weight)} of its row in head ${heads[best.h]}.`] : null;
  },

  heads(site, one) {
    const chips = chosen.lines.split(",").filter(Boolean).map(Number).filter((head) => head < site.heads);
    return chips.length ? chips : [one];
  },

  chips(site, heads) {
    const toggle = (head) => {
      const next = heads.includes(head) ? heads.filter((one) => one !== head) : [...heads, head].sort((a, b) => a - b);
      select({ lines: next.join(","), head: next.length === 1 ? next[0] : chosen.head });
    };
    const all = Array.from({ length: site.heads }, (_, head) => head);
    return make("div", { class: "chips", role: "group", "aria-label": "Heads" },
      all.map((head) => {
        const on = heads.includes(head);
        return make("button", { type: "button", id: `chip-${head}`, "aria-pressed": String(on), style: on ? `border-color: ${headColour(head, site.heads)}` : null, click: () => toggle(head) }, `head ${head}`);
      }),
      make("button", { type: "button", id: "chip-all", click: () => select({ lines: all.join(",") }) }, "all"));
  },

  /** The lines of all heads, strongest last; the weakest are left out if there are too many. */
  lines(weights, width) {
    const lines = [];
    weights.forEach((values, h) => values.forEach((weight, i) => {
      if (weight > 0) lines.push({ h, weight, row: Math.floor(i / width), column: i % width });
    }));
    lines.sort((a, b) => b.weight - a.weight);
    return lines.slice(0, mostLines).reverse();
  },

  draw(shownQueries, shownKeys, { heads, all, causal }, weights, query, room) {
    const [size, step] = [14, 23];
    const longest = (places) => Math.max(widthOf("query", 12), ...places.map((place) => widthOf(shortened(place.label, 22), size, 700)));
    const left = longest(shownQueries) + 12;
    const right = left + Math.min(460, Math.max(140, room - left - longest(shownKeys) - 22));
    const bend = (right - left) * 0.43;
    const [width, height] = [right + longest(shownKeys) + 16, Math.max(shownQueries.length, shownKeys.length) * step + 26];
    const y = (i) => 34 + i * step;
    const svg = wide(choosable(picture(Math.ceil(width), Math.ceil(height), `Lines from ${shownQueries.length} queries to ${shownKeys.length} keys`)));
    svg.append(label("query", left - 8, 10, { anchor: "end", colour: "muted" }), label("key", right + 8, 10, { colour: "muted" }));
    const layers = shownQueries.map(() => draw("g", {}));
    const found = this.lines(weights, shownKeys.length);
    // The first query of causal attention sees one key, whose large weight would make all others faint.
    const free = found.filter(({ row }) => !causal || row > 0 || shownQueries.length === 1);
    const peak = Math.max(1e-9, ...free.map(({ weight }) => weight));
    const peaks = shownQueries.map((_, r) => Math.max(1e-9, ...found.filter(({ row }) => row === r).map(({ weight }) => weight)));
    const strength = (line, share) => {
      line.setAttribute("stroke-width", (0.7 + 3.6 * Math.min(1, share)).toFixed(2));
      line.setAttribute("stroke-opacity", Math.min(0.92, 0.1 + 0.9 * share).toFixed(3));
    };
    let drawn = 0;
    for (const { h, weight, row, column } of found) {
      if (weight / peak < faintest && weight / peaks[row] < 0.1) continue;
      drawn += 1;
      const [from, to] = [y(row), y(column) + (h - (heads.length - 1) / 2) * 1.2];
      const line = draw("path", {
        d: `M${left} ${from}C${left + bend} ${from} ${right - bend} ${to.toFixed(1)} ${right} ${to.toFixed(1)}`, fill: "none", "data-key": column,
        stroke: heads.length === 1 ? headColour(0, 1) : headColour(heads[h], all),
      }, draw("title", {}, `head ${heads[h]}: ${shownQueries[row].label} → ${shownKeys[column].label}: ${exactly(weight)}`));
      Object.assign(line, { overall: weight / peak, within: weight / peaks[row] });
      strength(line, line.overall);
      layers[row].append(line);
    }
    let pinned = null;
    /** Shows the lines of one query on their own scale, or of one key; all by default. */
    const isolate = (one) => {
      const { row = null, column = null } = one ?? pinned ?? {};
      layers.forEach((layer, r) => {
        layer.setAttribute("opacity", row === null || r === row ? 1 : 0.05);
        layer.childNodes.forEach((line) => {
          line.setAttribute("opacity", column === null || Number(line.dataset.key) === column ? 1 : 0.04);
          strength(line, r === row ? line.within : line.overall);
        });
      });
    };
    const same = (a, b) => a && a.row === b.row && a.column === b.column;
    const pin = (one) => {
      pinned = same(pinned, one) ? null : one;
      isolate(pinned);
    };
    const release = () => {
      pinned = null;
      isolate(null);
    };
    svg.append(...layers);
    const word = (place, x, i, more, one) => label(shortened(place.label, 22), x, y(i), {
      size, ...more, pointerenter: () => isolate(one), pointerleave: () => isolate(null), blur: () => isolate(null),
      focus: (event) => event.target.matches(":focus-visible") && isolate(one),
    });
    const queryLabels = shownQueries.map((place, r) => word(place, left - 8, r, {
      anchor: "end", weight: r === query ? 700 : 400, colour: r === query ? named("class-1") : "ink", ...pickable(`asks-${r}`, `query ${place.label}`, () => pin({ row: r })),
    }, { row: r }));
    const keyLabels = shownKeys.map((place, c) => word(place, right + 8, c, {
      colour: place.special ? "muted" : "ink", ...pickable(`seen-${c}`, `key ${place.label}`, () => pin({ column: c })),
    }, { column: c }));
    roving(queryLabels, query);
    roving(keyLabels);
    svg.append(...queryLabels, ...keyLabels);
    svg.append(stroke(left - 2, y(0) - 8, left - 2, y(shownQueries.length - 1) + 8, named("grid")));
    const total = weights.reduce((sum, values) => sum + values.reduce((count, value) => count + (value > 0 ? 1 : 0), 0), 0);
    return { svg, hidden: total - drawn, release };
  },
};
