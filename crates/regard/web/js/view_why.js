// Why: the attention of one query step by step, with the computed numbers.

import { named } from "./colours.js";
import { draw, make } from "./dom.js";
import { strong } from "./explain.js";
import { dot, largest } from "./maths.js";
import { brief, exactly, percent, several } from "./numbers.js";
import { chosen, select } from "./selection.js";
import { scoreParts } from "./score_parts.js";
import { cellWidth, extent, signedBar, strip } from "./steps.js";
import { pickable, roving } from "./roving.js";
import { box, choosable, label, picture, wide } from "./svg.js";
import { shortened, sidesOf, spelled } from "./words.js";

const mostKeys = 8;

/** Whether a query may not attend to a key: it comes later, or lies outside the window. */
const isMasked = (site, query, at) => (site.causal && at > query) || (site.window !== null && query - at > site.window) || (site.ahead !== null && at - query > site.ahead);

export const whyView = {
  name: "why",
  title: "Why",
  fits: (reading) => reading.sites.some((site) => site.projected),
  lacks: "The queries and keys behind these weights are not known.",
  controls: ["group", "head", "rotated"],
  redraw: ["group", "layer", "head", "query", "key", "rotated"],

  async show(root, page) {
    const site = page.site();
    const [queries, keys] = sidesOf(page.reading, site.group);
    const query = page.query();
    const which = { site: site.name, head: page.head() };
    const whole = { ...which, scale: "raw", merge: false, hide: false, top: query, bottom: query + 1, left: 0, right: keys.length };
    const { values: weights } = await page.source.block(page.reading, whole, page.signal);
    // Masked keys have no weight to explain.
    const masks = (at) => isMasked(site, query, at);
    const visible = Array.from(weights.keys()).filter((at) => !masks(at));
    let shown = largest(visible.map((at) => weights[at]), mostKeys).map((i) => visible[i]);
    const requested = chosen.key >= 0 && chosen.key < keys.length ? chosen.key : shown[0];
    const key = masks(requested) ? shown[0] : requested;
    if (!shown.includes(key)) shown = [...shown.slice(0, mostKeys - 1), key];
    const found = await page.source.vectors(page.reading, { ...which, query, keys: shown.join(",") }, page.signal);
    const state = this.work(site, found, shown, weights, query, key);
    state.names = { query: spelled(queries[query].text), keys: shown.map((at) => spelled(keys[at].text)) };
    const svg = this.picture(site, state);
    root.append(
      make("p", {}, `Why “${state.names.query}” (${query}) attends to “${spelled(keys[key].text)}” (${key}), in layer ${site.layer}, head ${which.head}. Every strip is a vector of ${site.width} numbers; point at a cell for its value.`),
      requested === key ? "" : make("p", { class: "muted", id: "masked-key" }, `The chosen key “${spelled(keys[requested].text)}” (${requested}) is masked for this query: it has no weight to explain. This is the strongest visible key.`),
      chosen.merge || chosen.hide ? make("p", { class: "muted" }, "Whole words and hidden tokens make no difference here: a query and a key belong to one token each.") : "",
      make("div", { class: "scroll" }, svg),
      this.formula(site, state, keys.length),
      site.group === "self" && page.source.live ? scoreParts(page, { ...which, query, key }) : "");
    return {
      explain: () => [this.inWords(site, state, keys.length)],
      svg: () => svg,
      csv: () => [["key", "position", "dot product", "score", "weight"], ...shown.map((at, i) => [keys[at].text, at, exactly(state.dots[i]), state.scores ? exactly(state.scores[at]) : "", exactly(weights[at])])],
    };
  },

  /** The numbers of each step. */
  work(site, found, shown, weights, query, key) {
    const width = found.width;
    const rotated = site.rotary && chosen.rotated;
    const pick = (name) => (rotated ? found[`${name}_rotated`] : found[name]);
    const rows = (all) => shown.map((_, i) => all.subarray(i * width, (i + 1) * width));
    const [q, k, v] = [pick("query"), rows(pick("key")), rows(found.value)];
    const products = k.map((one) => q.map((value, i) => value * one[i]));
    const dots = k.map((one) => dot(q, one));
    const masked = Array.from(weights, (_, at) => isMasked(site, query, at));
    return { width, q, k, v, products, dots, shown, weights, scores: found.scores, norms: found.norms, output: found.heads, query, key, masked, rotated, at: shown.indexOf(key) };
  },

  /** The dimension with the largest product, and the weight that follows from the score. */
  inWords(site, { products, dots, at, weights, key, names, masked }) {
    const [own, total] = [products[at], dots[at]];
    const order = Array.from(own.keys()).sort((a, b) => Math.abs(own[b]) - Math.abs(own[a]));
    const same = own[order[0]] * total > 0;
    const rank = weights.filter((weight, i) => !masked[i] && weight > weights[key]).length;
    const first = same ? [strong(`Dimension ${order[0]} decides`), `: ${brief(own[order[0]])} of ${brief(total)}`] : ["The largest product, of ", strong(`dimension ${order[0]}`), `, is ${brief(own[order[0]])}, against a sum of ${brief(total)}`];
    const more = order.slice(1, 3).map((i) => `dimension ${i} ${own[i] < 0 ? "takes away" : "gives"} ${brief(Math.abs(own[i]))}`);
    return make("span", { id: "in-words" }, first, more.length ? `; ${more.join(", ")}` : "", `. After scale and softmax “${names.keys[at]}” has ${percent(weights[key])} of the attention, ${rank ? `behind ${several(rank, "other key")}` : "more than any other key"}.`);
  },

  picture(site, state) {
    const { width, q, k, v, products, shown, weights, output, names, dots } = state;
    const left = 150;
    const strips = width * cellWidth(width);
    const whole = Math.max(left + strips + 250, 780);
    const svg = wide(choosable(picture(whole, 150 + shown.length * 56 + 90, `Why ${names.query} attends to its keys`)));
    let y = 4;
    const heading = (text) => {
      svg.append(label(text, 0, y + 8, { weight: 600, size: 13 }));
      y += 24;
    };
    const short = (text) => shortened(text, 18);
    const most = extent(q, ...k);
    heading(site.rotary ? `1 · the query ${state.rotated ? "after" : "before"} rotation` : "1 · the query");
    svg.append(strip(short(names.query), q, left, y, { most, what: "query" }), signedBar(left + strips + 62, y + 2, most));
    y += 26;
    heading("2 · keys, and query × key dimension by dimension; their sum is the dot product");
    const strongest = extent(...products);
    const rows = [];
    shown.forEach((at, i) => {
      const chosenKey = at === state.key;
      const row = draw("g", pickable(`key-${at}`, `${names.keys[i]}: dot product ${brief(dots[i])}, weight ${brief(weights[at])}`, () => select({ key: at })));
      rows.push(row);
      row.append(box(0, y - 3, left + strips + 130, 40, "none", "", { "pointer-events": "all" }));
      if (chosenKey) row.append(box(0, y - 3, left + strips + 130, 40, named("grid"), "", { rx: 4 }));
      row.append(
        strip(short(names.keys[i]), k[i], left, y, { most, what: `key of ${names.keys[i]}`, height: 13 }),
        strip("q × k", products[i], left, y + 16, { most: strongest, what: "query × key", height: 13, note: `Σ = ${brief(dots[i])}` }),
        label(`weight ${brief(weights[at])}`, left + strips + 10, y + 6, { size: 12, weight: chosenKey ? 700 : 400 }));
      svg.append(row);
      y += 42;
    });
    roving(rows, state.at);
    y += 6;
    heading("3 · the values, each times its weight; their sum over all keys is the head's output at this position");
    const weighted = v.map((one, i) => one.map((value) => value * weights[shown[i]]));
    const widest = extent(output ?? [0], ...weighted);
    const few = shown.slice(0, 4);
    few.forEach((at, i) => {
      svg.append(strip(`${short(names.keys[i])}`, weighted[i], left, y, { most: widest, what: `${brief(weights[at])} × value of ${names.keys[i]}`, height: 9, note: `× ${brief(weights[at])}` }));
      y += 13;
    });
    if (output) svg.append(strip("the sum", output, left, y + 4, { most: widest, what: "the head's output", height: 14 }));
    y += 30;
    svg.setAttribute("height", y);
    svg.setAttribute("viewBox", `0 0 ${whole} ${y}`);
    return svg;
  },

  /** The chosen key's weight as a calculation. */
  formula(site, state, count) {
    const { at, dots, scores, weights, key, masked } = state;
    const line = (name, value) => make("div", {}, make("span", {}, name), make("span", {}, value));
    const root = make("div", { class: "formula", id: "formula" });
    const scaled = dots[at] * site.scale;
    root.append(line("dot product", `q · k = ${brief(dots[at])}`), line("scale", `× ${brief(site.scale)} = ${brief(scaled)}${site.scale !== 1 ? `   (1/√${site.width} = ${brief(1 / Math.sqrt(site.width))})` : ""}`));
    if (!site.softmax) {
      root.append(line("weight", `${exactly(weights[key])} — this attention is not a softmax of dot products`));
      return root;
    }
    if (site.rotary && !state.rotated) {
      root.append(line("before rotation", "not the numbers that attention uses: positions enter with the rotation"));
      return root;
    }
    if (!scores) return root;
    const cap = site.soft_cap;
    const capped = cap === null ? scaled : cap * Math.tanh(scaled / cap);
    if (cap !== null) root.append(line("soft cap", `${brief(cap)} · tanh(${brief(scaled)} / ${brief(cap)}) = ${brief(capped)}`));
    if (site.biased) root.append(line("bias by distance", `${scores[key] - capped < 0 ? "−" : "+"} ${brief(Math.abs(scores[key] - capped))} = ${brief(scores[key])}`));
    const visible = Array.from(scores.keys()).filter((i) => !masked[i]);
    root.append(line("mask", masked[key] ? `${site.causal && key > state.query ? "later than the query" : "outside the window"}: −∞, weight 0` : `visible, like ${visible.length - 1} of the other ${count - 1} keys`));
    if (masked[key]) return root;
    const most = Math.max(...visible.map((i) => scores[i]));
    const total = visible.reduce((sum, i) => sum + Math.exp(scores[i] - most), 0);
    const up = Math.exp(scores[key] - most);
    // The sink takes the rest of the weight, up to 1.
    const kept = site.sink ? visible.reduce((sum, i) => sum + weights[i], 0) : 1;
    if (site.sink) root.append(line("sink", `it takes ${percent(1 - kept)} of the weight of this row and adds nothing; the sum below includes it`));
    const sum = total / kept;
    root.append(
      line("softmax", `e^(${brief(scores[key])} − ${brief(most)}) = ${brief(up)}, divided by the sum over all keys ${brief(sum)} = ${brief(up / sum)}`),
      line("weight in the model", `${exactly(weights[key])} (${percent(weights[key])})`),
      line("norm of the transformed value", `‖value · output‖ = ${brief(state.norms[key])}, times the weight ${brief(state.norms[key] * weights[key])}`));
    return root;
  },
};
