// One head: a large map with row and column labels, exact numbers under the pointer and in a table.

import { make } from "./dom.js";
import { strong } from "./explain.js";
import { endOf, mapPicture } from "./drawing.js";
import { keepingFocus, roving } from "./roving.js";
import { paint, palette } from "./colours.js";
import { TiledMap } from "./map.js";
import { largest } from "./maths.js";
import { brief, counted, exactly, percent, several } from "./numbers.js";
import { chosen, select } from "./selection.js";
import { patchesOf } from "./patches.js";
import { axisOf, placeOf, sidesOf } from "./words.js";

const mostSaved = 262144;
const listed = 24;

const meanings = {
  raw: "Weights. Each row sums to 1.",
  log: "Weights, coloured by their logarithm over four orders of magnitude.",
  rest: "Without the first token, rows normalised again: what the head attends to besides its sink.",
  norms: "Weights times the norm of the transformed value, rows normalised: a large weight on a small vector has little effect.",
};

export const headView = {
  name: "head",
  title: "One head",
  fits: (reading) => reading.sites.length > 0,
  lacks: "This model has no attention heads.",
  controls: ["group", "head", "scale", "shown"],
  redraw: ["group", "layer", "head", "scale", "merge", "hide"],

  async show(root, page) {
    const site = page.site();
    const [queries, keys] = sidesOf(page.reading, site.group);
    const [rows, columns] = [axisOf(queries, chosen), axisOf(keys, chosen)];
    const which = { site: site.name, head: page.head(), scale: chosen.scale, merge: chosen.merge, hide: chosen.hide };
    const rowOf = async (row) => (await page.source.block(page.reading, { ...which, top: row, bottom: row + 1, left: 0, right: columns.length }, page.signal)).values;
    const readout = make("p", { class: "readout", "aria-live": "polite", id: "readout" });
    const table = make("div", {});
    const legend = make("div", { class: "legend" });
    let latest = null;
    let ends = null;
    const endsOf = async () => ends ?? page.source.tile(page.reading, { ...which, zoom: 0, x: 0, y: 0 }, page.signal);
    const showValue = async (cell) => {
      latest = cell ?? { row: placeOf(rows, page.query()), column: chosen.key >= 0 ? placeOf(columns, chosen.key) : -1 };
      const { row, column } = latest;
      const values = await rowOf(row).catch(() => null);
      if (!values || latest?.row !== row || latest?.column !== column) return;
      const at = column >= 0 ? column : largest(values, 1)[0];
      readout.replaceChildren(
        make("span", {}, `“${rows[row].label}” (${row}) → “${columns[at].label}” (${at}): `),
        make("b", { id: "exact" }, exactly(values[at])),
      );
    };
    const pick = (row, column) => select({ query: rows[row].start, key: columns[column].start });
    const map = new TiledMap({
      rows, columns, hover: showValue, pick,
      describe: `Attention of layer ${site.layer}, head ${page.head()}: ${rows.length} queries, ${columns.length} keys. Arrows move, + and − zoom, 0 shows all.`,
      fetchTile: async (zoom, x, y) => {
        const tile = await page.source.tile(page.reading, { ...which, zoom, x, y }, page.signal);
        ends = tile;
        this.legend(legend, tile);
        return tile;
      },
    });
    const buttons = make("div", { class: "chips" },
      make("button", { type: "button", click: () => map.zoom(1.5), "aria-label": "Zoom in" }, "+"),
      make("button", { type: "button", click: () => map.zoom(1 / 1.5), "aria-label": "Zoom out" }, "−"),
      make("button", { type: "button", click: () => map.fit() }, "all"),
      make("span", { class: "muted small" }, "Ctrl and wheel or two fingers zoom, dragging moves."));
    const aside = make("div", {}, readout, legend, make("p", { class: "muted" }, meanings[chosen.scale] + (chosen.hide ? " Hidden tokens keep their share." : "")), buttons, table);
    // For vision models, the picture comes first.
    const patches = page.reading.patches ? patchesOf(page, which) : null;
    // A small map leaves no gap beside it.
    const room = patches ? null : `--first: ${Math.ceil(map.widest())}px`;
    root.append(make("div", { class: "two", style: room }, make("div", {}, patches?.root, patches ? make("h2", {}, "All patches: rows are queries, columns are keys") : null, map.root), aside));
    // Sized before it is shown, so that the layout does not shift.
    map.resize();
    const showQuery = async () => {
      const [row, column] = [placeOf(rows, page.query()), chosen.key >= 0 ? placeOf(columns, chosen.key) : -1];
      if (map.width) map.show(row, Math.max(column, 0));
      map.mark = { row, column };
      const [values] = await Promise.all([rowOf(row), patches?.update()]);
      keepingFocus(table, () => this.table(table, rows[row], values, columns, column));
      showValue(null);
    };
    await showQuery();
    return {
      explain: async () => this.inWords(rows[placeOf(rows, page.query())], await rowOf(placeOf(rows, page.query())), columns, site),
      selected: (changed) => (changed.some((name) => name === "query" || name === "key") ? showQuery().catch(() => {}) : null),
      repaint: () => { map.repaint(); patches?.update(); if (ends) this.legend(legend, ends); },
      close: () => map.close(),
      // On the page's colour scale.
      svg: () => patches ? patches.svg() : this.save(page, which, rows, columns, async (values) => {
        const { top, largest: most } = await endsOf();
        return mapPicture(values, rows.map((place) => place.label), columns.map((place) => place.label), {
          title: `${page.reading.model}, ${site.name}, head ${which.head}`, top, largest: most, scale: which.scale, rowName: "query", columnName: "key",
        });
      }),
      csv: () => this.save(page, which, rows, columns, (values) => [
        ["position", "query \\ key", ...columns.map((place) => `${place.start} ${place.label}`)],
        ...rows.map((place, r) => [place.start, place.label, ...Array.from(values.subarray(r * columns.length, (r + 1) * columns.length), exactly)]),
      ]),
    };
  },

  /** The key with the largest weight for the chosen query, and how many keys have 90 % of the weight. */
  inWords(row, values, columns) {
    const order = largest(values, values.length);
    const total = values.reduce((sum, value) => sum + value, 0);
    if (!(total > 0)) return null;
    let [most, count] = [0, 0];
    while (count < order.length && most < 0.9 * total) most += values[order[count++]];
    const others = order.filter((key) => values[key] > 0).length;
    return [`“${row.label}” gives ${percent(values[order[0]] / total)} of its attention to `, strong(`“${columns[order[0]].label}”`), ` (${order[0]}); ${several(count, "key")} of ${others} visible ${others === 1 ? "one takes" : "ones take"} 90\u00a0%.`];
  },

  /** All values of the map, where they are not too many to save. */
  async save(page, which, rows, columns, write) {
    if (rows.length * columns.length > mostSaved) {
      throw new Error(`A map of ${counted(rows.length)} × ${counted(columns.length)} is too large to save from the page; use regard trace.`);
    }
    const { values } = await page.source.block(page.reading, { ...which, top: 0, bottom: rows.length, left: 0, right: columns.length }, page.signal);
    return write(values);
  },

  table(root, row, values, columns, column) {
    const order = largest(values, listed);
    const most = values[order[0]] || 1;
    const choose = (key) => select({ key: columns[key].start });
    const names = order.map((key) => make("button", { type: "button", class: "word", id: `looked-${key}`, "aria-pressed": String(key === column) }, columns[key].label || "␣"));
    const lines = order.map((key, i) => make("tr", { "aria-selected": String(key === column), click: () => choose(key) },
      make("td", {}, names[i]), make("td", {}, String(key)), make("td", {}, exactly(values[key])),
      make("td", { class: "bar-cell" }, make("span", { class: "meter", style: `width: ${(values[key] / most) * 100}%` }))));
    roving(names, order.indexOf(column));
    root.replaceChildren(
      make("h2", {}, `“${row.label}” attends to`),
      make("div", { class: "scroll" }, make("table", {},
        make("thead", {}, make("tr", {}, ["key", "position", "value", ""].map((name) => make("th", { scope: "col" }, name)))),
        make("tbody", {}, lines))),
      values.length > listed ? make("p", { class: "muted" }, `The ${listed} largest of ${counted(values.length)}; all of them as CSV below.`) : "");
  },

  legend(root, { top, largest }) {
    const canvas = paint(Uint8Array.from({ length: 64 }, (_, i) => i * 4), 64, 1, palette());
    const beyond = largest > top ? make("span", {}, `(the largest is ${brief(largest)})`) : null;
    root.replaceChildren(...[make("span", {}, chosen.scale === "log" ? `≤ ${brief(top / 1e4)}` : "0"), canvas, make("span", {}, endOf(top, largest)), beyond].filter(Boolean));
  },
};
