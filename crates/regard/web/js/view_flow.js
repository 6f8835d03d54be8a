// Flow: what a word is made of after each layer. Raw attention beside rollout.

import { draw, make } from "./dom.js";
import { mapPicture } from "./drawing.js";
import { largest } from "./maths.js";
import { exactly, percent } from "./numbers.js";
import { chosen, select } from "./selection.js";
import { label, picture, wide } from "./svg.js";
import { axisOf, spelled } from "./words.js";

export const flowView = {
  name: "flow",
  title: "Flow",
  fits: (reading) => reading.sites.some((site) => site.group !== "cross"),
  lacks: "This model has no attention heads.",
  controls: ["group", "through", "shown"],
  redraw: ["group", "query", "merge", "hide"],

  async show(root, page) {
    const group = page.group() === "cross" ? "decoder" : page.group();
    const tokens = group === "decoder" ? page.reading.target : page.reading.source;
    const position = Math.min(page.query(), tokens.length - 1);
    const flow = await page.source.flow(page.reading, { group, position }, page.signal);
    const layers = Array.from({ length: flow.layers }, (_, layer) => `layer ${layer}`);
    const word = spelled(tokens[position].text);
    const places = axisOf(tokens, chosen);
    const names = places.map((place) => place.label);
    // What comes from the pieces of a word is added.
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
    const last = rolled.subarray((flow.layers - 1) * places.length);
    if (page.group() === "cross") root.append(make("p", { class: "muted", id: "instead" }, "Flow follows a text through its own layers, which cross-attention does not do: this is the decoder's attention to itself."));
    root.append(
      make("p", {}, `Which tokens contribute to “${word}” (${position}), layer by layer. Each row is a mean over the heads of its layer.`),
      make("h2", {}, "Raw attention: what each layer attends to"), make("div", { class: "scroll" }, raw),
      make("h2", {}, "Rollout: contributions accumulated up to each layer"),
      make("p", { class: "muted" }, "Weights multiplied through the layers, half of each layer being what was there before (Abnar & Zuidema, 2020)."),
      make("div", { class: "scroll" }, rollout),
      make("p", {}, "After the last layer, most comes from ", largest(last, 3).map((at, i) => [i ? ", " : "", make("b", {}, names[at]), ` ${percent(last[at])}`]), "."));
    return {
      svg: () => this.together([["Raw attention", raw], ["Rollout", rollout]], word),
      csv: () => [["method", "layer", "token", "position", "value"], ...[["attention", rawValues], ["rollout", rolled]].flatMap(([name, values]) =>
        Array.from(values, (value, i) => [name, Math.floor(i / names.length), names[i % names.length], places[i % names.length].start, exactly(value)]))],
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
