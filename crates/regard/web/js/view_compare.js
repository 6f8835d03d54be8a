// Two readings side by side: another text, model or step of a run, or the same with and without changes; maps, their difference, predictions.

import { signedShade } from "./colours.js";
import { make } from "./dom.js";
import { mapPicture } from "./drawing.js";
import { strong } from "./explain.js";
import { inWords } from "./film.js";
import { largest, softmax } from "./maths.js";
import { brief, exactly, percent } from "./numbers.js";
import { chosen, select } from "./selection.js";
import { signedBar } from "./steps.js";
import { box, label, picture, wide } from "./svg.js";
import { shortened, sidesOf, spelled } from "./words.js";

const mostTokens = 48;

/** The colours of differences: less on the right, more on the right. */
const signedLegend = (most) => picture(280, 14, "Colours of the difference", signedBar(74, 2, most));

/** Pairs of aligned positions: by index if the lengths are equal, else the longest common subsequence of tokens. */
export function aligned(a, b) {
  if (a.length === b.length) return a.map((_, i) => [i, i]);
  const length = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) length[i][j] = a[i].text === b[j].text ? length[i + 1][j + 1] + 1 : Math.max(length[i + 1][j], length[i][j + 1]);
  }
  const pairs = [];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i].text === b[j].text) pairs.push([i++, j++]);
    else if (length[i + 1][j] >= length[i][j + 1]) i += 1;
    else j += 1;
  }
  return pairs;
}

export const compareView = {
  name: "compare",
  title: "Side by side",
  fits: (reading) => reading.sites.length > 0 && !reading.patches,
  lacks: "This view compares texts in models with attention heads.",
  controls: ["group", "head"],
  redraw: ["group", "layer", "head", "other", "beside", "query"],

  async show(root, page) {
    if (!page.source.live && !page.base) {
      root.append(make("p", { class: "muted", id: "one-reading" }, "A saved page holds one reading, and with interventions also the one without them. This one has no interventions: there is nothing to compare."));
      return {};
    }
    if (page.source.live) root.append(this.form(page));
    const [left, right, names] = await this.sides(page);
    const parts = await Promise.all([left, right].map((reading) => this.read(page, reading)));
    const difference = this.difference(parts);
    const heading = (i) => make("h2", {}, names[i]);
    root.append(make("p", { id: "alignment", class: difference.problem ? "problem" : "muted" }, difference.problem ?? difference.about));
    const maps = parts.map((part, i) => make("div", {}, heading(i), part.map ? make("div", { class: "scroll" }, part.map) : make("p", { class: "muted" }, part.problem), part.prediction));
    root.append(make("div", { class: "sides" }, maps));
    if (difference.svg && !difference.same) root.append(make("h2", {}, "Difference: right minus left"), signedLegend(difference.most), make("div", { class: "scroll" }, difference.svg));
    return {
      explain: () => difference.problem ? null : this.inWords(difference.rows),
      svg: () => difference.svg ?? parts[0].map,
      csv: () => (difference.problem ? [] : [["query position left", "query", "key position left", "key", "left", "right", "difference"], ...difference.rows]),
    };
  },

  /** The pair that differs most. */
  inWords(rows) {
    const best = rows.reduce((a, b) => (Math.abs(b[6]) > Math.abs(a[6]) ? b : a));
    return Number(best[6]) === 0 ? ["Both maps are the same."] : ["They differ most in ", strong(`“${best[1]}” → “${best[3]}”`), `: ${brief(Number(best[4]))} on the left, ${brief(Number(best[5]))} on the right.`];
  },

  /** The form that chooses the other reading, which is kept in the link. */
  form(page) {
    const models = [...[...document.getElementById("model").options].map(({ value }) => value), ...page.film.snapshots()];
    const text = make("input", { type: "text", id: "other-text", value: chosen.other, placeholder: "the same text", "aria-label": "other text" });
    const model = make("select", { id: "other-model", "aria-label": "other model" }, models.map((name) => make("option", { value: name, selected: name === (chosen.beside || page.reading.model) }, inWords(name))));
    const run = () => select({ other: text.value.trim(), beside: model.value === page.reading.model ? "" : model.value });
    text.addEventListener("keydown", (event) => event.key === "Enter" && run());
    model.addEventListener("change", run);
    return make("div", { class: "chips fields" }, "beside it:", model, text, make("button", { type: "button", id: "compare", click: run }, "Compare"),
      page.base && !chosen.other && !chosen.beside ? make("span", {}, "(now: without and with the changes)") : "");
  },

  /** Both readings and their names. */
  async sides(page) {
    const { model, text, second } = page.known;
    if (!page.source.live || (!chosen.other && !chosen.beside)) return [page.base ?? page.reading, page.reading, page.base ? ["Without changes", "With changes"] : ["This text", "The same: choose another text, model or step, or change something"]];
    const other = await page.source.read({ model: chosen.beside || model, text: chosen.other || text, second }, page.signal);
    const name = (reading, own) => `${inWords(reading.model)}: “${shortened(own, 40)}”`;
    return [page.reading, other, [name(page.reading, text), name(other, chosen.other || text)]];
  },

  /** The map of the chosen head and the prediction of one side. */
  async read(page, reading) {
    const sites = reading.sites.filter(({ group }) => group === page.group() || (group === "self" && page.group() !== "cross"));
    const site = sites[Math.min(page.site().layer, sites.length - 1)];
    const prediction = await this.prediction(page, reading);
    if (!site) return { problem: "This model has no such attention.", prediction };
    const head = Math.min(page.head(), site.heads - 1);
    const [queries, keys] = sidesOf(reading, site.group).map((tokens) => tokens.slice(0, mostTokens));
    const question = { site: site.name, head, scale: "raw", merge: false, hide: false, top: 0, bottom: queries.length, left: 0, right: keys.length };
    const { values } = await page.source.block(reading, question, page.signal);
    const free = site.causal && queries.length > 1 ? values.subarray(keys.length) : values;
    const top = free.reduce((most, value) => Math.max(most, value), 0);
    const names = (tokens) => tokens.map((token) => spelled(token.text));
    const map = wide(mapPicture(values, names(queries), names(keys), { title: `${reading.model}, ${site.name}, head ${head}`, top, scale: "raw", side: Math.min(460, keys.length * 30), most: 30 }));
    return { map, values, queries, keys, prediction };
  },

  async prediction(page, reading) {
    let rows = [];
    if (reading.answer === "class") {
      const { labels, probabilities } = await page.source.classes(reading, page.signal);
      rows = largest(probabilities, 6).map((i) => [labels[i], probabilities[i]]);
    } else if (reading.answer === "next") {
      const { best, scores } = await page.source.next(reading, {}, page.signal);
      const [shares, spelt] = [softmax(scores), new Map(best.map(({ id, text }) => [id, text]))];
      rows = largest(shares, 6).map((id) => [spelled(spelt.get(id) ?? `#${id}`), shares[id]]);
    }
    const most = rows[0]?.[1] || 1;
    return rows.length ? make("table", { class: "beside" }, make("tbody", {}, rows.map(([name, share]) => make("tr", {}, make("td", {}, name), make("td", {}, percent(share)), make("td", { class: "bar-cell" }, make("span", { class: "meter", style: `width: ${(share / most) * 100}%` })))))) : "";
  },

  /** The difference of both maps where their tokens correspond. */
  difference([a, b]) {
    if (!a.values || !b.values) return { problem: "There is nothing to align: one side has no such attention." };
    const [rows, columns] = [aligned(a.queries, b.queries), aligned(a.keys, b.keys)];
    if (rows.length < 2 || columns.length < 2) return { problem: "These texts cannot be aligned: they have different numbers of tokens and hardly any in common. Use the same text, or one with the same number of tokens." };
    const cell = ([i, j], [k, l]) => [a.values[i * a.keys.length + k], b.values[j * b.keys.length + l]];
    const values = rows.map((row) => columns.map((column) => cell(row, column)));
    const farthest = Math.max(...values.flat().map(([x, y]) => Math.abs(y - x)));
    const most = farthest || 1;
    const same = a.queries.length === b.queries.length;
    const different = same ? a.queries.filter((token, i) => token.text !== b.queries[i].text).length : 0;
    const about = `${same ? `All ${rows.length} tokens correspond by position${different ? `, ${different} of them with different text` : ""}` : `${rows.length} of ${a.queries.length} and ${b.queries.length} tokens are aligned; the others are left out`}. ${farthest ? `The largest difference is ${brief(farthest)}.` : "No weight differs."}`;
    const side = Math.max(7, Math.min(30, 560 / columns.length));
    const [left, top] = [110, 84];
    const name = (i, j) => (a.queries[i].text === b.queries[j].text ? spelled(a.queries[i].text) : `${spelled(a.queries[i].text)} / ${spelled(b.queries[j].text)}`);
    const keyName = (i, j) => (a.keys[i].text === b.keys[j].text ? spelled(a.keys[i].text) : `${spelled(a.keys[i].text)} / ${spelled(b.keys[j].text)}`);
    const svg = wide(picture(left + columns.length * side + 20, top + rows.length * side + 6, "Difference of both maps",
      values.map((row, r) => row.map(([x, y], c) => box(left + c * side, top + r * side, side, side, signedShade((y - x) / most), `${name(...rows[r])} → ${keyName(...columns[c])}: ${exactly(x)} → ${exactly(y)}`, { "data-difference": exactly(y - x) }))),
      rows.map((pair, r) => (side >= 11 || r % 2 === 0 ? label(shortened(name(...pair), 16), left - 6, top + (r + 0.5) * side, { anchor: "end", size: 11 }) : null)),
      columns.map((pair, c) => (side >= 14 || c % 2 === 0 ? label(shortened(keyName(...pair), 16), left + (c + 0.5) * side, top - 7, { size: 11, turned: -45 }) : null))));
    svg.id = "difference";
    const listed = rows.flatMap((row, r) => columns.map((column, c) => [row[0], name(...row), column[0], keyName(...column), exactly(values[r][c][0]), exactly(values[r][c][1]), exactly(values[r][c][1] - values[r][c][0])]));
    return { about, svg, rows: listed, most, same: farthest === 0 };
  },
};
