// Flow: the contributions to a word through the layers, as ribbons; raw attention and rollout as maps.

import { draw, make } from "./dom.js";
import { mapPicture } from "./drawing.js";
import { strong } from "./explain.js";
import { largest } from "./maths.js";
import { exactly, percent, several } from "./numbers.js";
import { byPlace, patchPicture, patchRibbons, ribbonPicture } from "./ribbons.js";
import { chosen, select } from "./selection.js";
import { label, picture, wide } from "./svg.js";
import { axisOf, spelled } from "./words.js";

const methods = {
  rollout: ["Rollout", "Weights multiplied through the layers, with the residual connection counted as half (Abnar & Zuidema, 2020)."],
  flow: ["Attention flow", "The maximum flow from each token through the layers, with weights as capacities (Abnar & Zuidema, 2020). Up to 64 tokens."],
  gradient: ["Gradient × attention", "Weights times the gradient of the prediction, where that is positive (Chefer et al., 2021): contributions to this prediction."],
};

/** More words than this are not drawn at a level. */
const mostRibbonWords = 96;

export const flowView = {
  name: "flow",
  title: "Flow",
  fits: (reading) => reading.sites.some((site) => site.group !== "cross"),
  lacks: "This model has no attention heads.",
  controls: ["group", "through", "shown"],
  redraw: ["group", "query", "merge", "hide", "method"],

  async show(root, page) {
    const group = page.group() === "cross" ? "decoder" : page.group();
    const tokens = group === "decoder" ? page.reading.target : page.reading.source;
    const position = Math.min(page.query(), tokens.length - 1);
    const word = spelled(tokens[position].text);
    const places = axisOf(tokens, chosen);
    if (page.group() === "cross") root.append(make("p", { class: "muted", id: "instead" }, "Flow follows a text through its own layers, which cross-attention does not do: this is the decoder's attention to itself."));
    root.append(this.chips(), make("p", { class: "muted" }, methods[chosen.method][1]));
    const river = make("div", { class: "scroll", id: "river" });
    root.append(river);
    let found = null;
    try {
      found = await page.source.ribbons(page.reading, { group, position, method: chosen.method }, page.signal);
    } catch (problem) {
      if (problem.name === "AbortError" || problem.status === 410) throw problem;
      river.append(make("p", { class: "problem", id: "no-ribbons" }, problem.message));
    }
    const sink = this.sink(tokens, page, group, position);
    const current = places.findIndex((place) => place.start <= position && position < place.end);
    const shown = found && !page.reading.patches ? this.legible(found, places, sink, current) : null;
    let svg = null;
    if (shown) {
      svg = ribbonPicture(shown, places, { room: river.clientWidth, word, apartName: sink.name, current, pick: (p) => select({ query: places[p].start }) });
      river.append(svg);
    } else if (found) {
      river.append(patchRibbons(page, found, (query) => select({ query })));
    }
    const maps = page.reading.patches ? null : await this.maps(root, page, { group, position, places, word });
    return {
      explain: () => found && this.inWords(found, shown, places, { word, position, sink, page, tokens }),
      svg: page.reading.patches ? found && (() => patchPicture(page, [...river.querySelectorAll("figure")])) : () => svg ?? maps.svg(),
      csv: () => [["method", "layer", "token", "position", "value"],
        ...(found ? found.shares.flatMap((row, level) => row.map((share, i) => [`${chosen.method} ribbons`, level === 0 ? "input" : level - 1, tokens[i].text, i, exactly(share)])) : []), ...(maps?.csv() ?? [])],
    };
  },

  chips() {
    return make("div", { class: "chips", role: "group", "aria-label": "Method" }, Object.entries(methods).map(([name, [title]]) =>
      make("button", { type: "button", id: `flow-${name}`, "aria-pressed": String(chosen.method === name), click: () => select({ method: name }) }, title)));
  },

  /** The tokens that are shown apart: special tokens or, in causal models without any, the first one, which is often a sink. */
  sink(tokens, page, group, position) {
    const special = tokens.some((token, i) => token.special && i !== position);
    const causal = page.reading.sites.find((site) => site.group === group)?.causal;
    if (special) return { name: "special tokens", said: "special tokens", apart: (place) => tokens[place.start].special && position !== place.start };
    if (causal && position > 1) return { name: `first: ${spelled(tokens[0].text)}`, said: `the first token, “${spelled(tokens[0].text)}”,`, apart: (place) => place.start === 0 };
    return { name: "", said: "", apart: () => false };
  },

  /** Shares and ribbons of the words that have room, each at least some pixels wide; the others are summed beside the sink. */
  legible(found, places, sink, current) {
    const all = byPlace(found, places, sink.apart);
    if (places.length <= mostRibbonWords) return all;
    const inAll = Float64Array.from(places, (_, p) => all.shares.reduce((sum, row) => sum + row[p], 0));
    const kept = new Set([...largest([...inAll], mostRibbonWords), current]);
    const rest = places.filter((place, p) => !kept.has(p) && !sink.apart(place)).length;
    const apart = new Set(places.filter((place, p) => !kept.has(p) || sink.apart(place)));
    sink.name = [several(rest, "other word"), sink.name].filter(Boolean).join(", ");
    sink.said = [several(rest, "other word"), sink.said].filter(Boolean).join(" and ");
    return byPlace(found, places, (place) => apart.has(place));
  },

  inWords(found, shown, places, { word, position, sink, page, tokens }) {
    const of = page.reading.patches ? "the class" : `“${word}” (${position})`;
    const input = found.shares[0];
    if (!shown) {
      const first = tokens.length - page.reading.patches[0] * page.reading.patches[1];
      const best = largest(input.slice(first), 1)[0];
      const [row, column] = [Math.floor(best / page.reading.patches[1]) + 1, (best % page.reading.patches[1]) + 1];
      return [`Through ${several(found.layers, "layer")}, the largest contribution to ${of} comes from `, strong(`the patch in row ${row}, column ${column}`), `: ${percent(input[first + best])}. Tokens that are not patches contribute ${percent(input.slice(0, first).reduce((a, b) => a + b, 0))}.`];
    }
    const row = shown.shares[0];
    const order = largest(row.slice(0, shown.count), 3).filter((p) => row[p] > 0);
    const apart = row[shown.count];
    return [`Through ${several(found.layers, "layer")}, the largest contributions to ${of} are `, order.map((p, i) => [i ? ", " : "", strong(`${places[p].label} ${percent(row[p])}`)]), apart > 0.0005 ? `; ${sink.said} ${percent(apart)}, shown apart at the left` : "", ". Point at a word to follow its ribbons."];
  },

  /** The maps of raw attention and rollout, below the ribbons. */
  async maps(root, page, { group, position, places, word }) {
    const flow = await page.source.flow(page.reading, { group, position }, page.signal);
    const layers = Array.from({ length: flow.layers }, (_, layer) => `layer ${layer}`);
    const names = places.map((place) => place.label);
    // The contributions of a word's pieces are summed.
    const merged = (values) => Float32Array.from({ length: flow.layers * places.length }, (_, i) => {
      const [layer, place] = [Math.floor(i / places.length), places[i % places.length]];
      return values.subarray(layer * flow.tokens + place.start, layer * flow.tokens + place.end).reduce((sum, value) => sum + value, 0);
    });
    const [rawValues, rolled] = [merged(flow.raw), merged(flow.rollout)];
    const map = (values, title) => {
      const top = values.reduce((most, value) => Math.max(most, value), 0);
      return wide(mapPicture(values, layers, names, { title, top, scale: "raw", side: Math.max(320, Math.min(1050, names.length * 46)), most: 46, pick: (_, at) => select({ query: places[at].start }) }));
    };
    const raw = map(rawValues, `Raw attention of ${word}`);
    const rollout = map(rolled, `Rollout of ${word}`);
    root.append(
      make("h2", {}, "Raw attention: what each layer attends to"), make("p", { class: "muted" }, "Each row is a mean over the heads of its layer."), make("div", { class: "scroll" }, raw),
      make("h2", {}, "Rollout: contributions accumulated up to each layer"), make("div", { class: "scroll" }, rollout));
    return {
      svg: () => this.together([["Raw attention", raw], ["Rollout", rollout]], word),
      csv: () => [["attention", rawValues], ["rollout", rolled]].flatMap(([name, values]) =>
        Array.from(values, (value, i) => [name, Math.floor(i / names.length), names[i % names.length], places[i % names.length].start, exactly(value)])),
    };
  },

  together(parts, word) {
    const size = (svg, name) => Number(svg.getAttribute(name));
    const width = Math.max(...parts.map(([, svg]) => size(svg, "width")));
    const height = parts.reduce((sum, [, svg]) => sum + size(svg, "height") + 40, 0);
    const all = picture(width, height, `Contributions to “${word}”`);
    let y = 0;
    for (const [name, svg] of parts) {
      all.append(label(name, 0, y + 10, { size: 14, weight: 600 }));
      all.append(draw("g", { transform: `translate(0 ${y + 26})` }, [...svg.cloneNode(true).childNodes]));
      y += size(svg, "height") + 40;
    }
    return all;
  },
};
