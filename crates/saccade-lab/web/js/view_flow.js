// Flow: what a word is made of after each layer. Raw attention beside rollout.

import { draw, make } from "./dom.js";
import { mapPicture } from "./drawing.js";
import { largest } from "./maths.js";
import { exactly } from "./numbers.js";
import { chosen, select } from "./selection.js";

import { label, picture } from "./svg.js";

export const flowView = {
  name: "flow",
  title: "Flow",
  fits: (reading) => reading.sites.some((site) => site.group !== "cross"),
  lacks: "This model has no attention heads.",
  controls: ["group"],
  redraw: ["group", "query"],

  async show(root, page) {
    const group = page.group() === "cross" ? "decoder" : page.group();
    const tokens = group === "decoder" ? page.reading.target : page.reading.source;
    const position = Math.min(page.query(), tokens.length - 1);
    const flow = await page.source.flow(page.reading, { group, position }, page.signal);
    const layers = Array.from({ length: flow.layers }, (_, layer) => `layer ${layer}`);
    const words = tokens.map((token) => token.text);
    const map = (values, title) => {
      const peak = values.reduce((most, value) => Math.max(most, value), 0);
      return mapPicture(values, layers, words, { title, peak, scale: "raw", side: Math.max(320, Math.min(1050, words.length * 46)), most: 46, pick: (_, key) => select({ query: key }) });
    };
    const raw = map(flow.raw, `Raw attention of ${words[position]}`);
    const rollout = map(flow.rollout, `Rollout of ${words[position]}`);
    const last = flow.rollout.subarray((flow.layers - 1) * flow.tokens);
    root.append(
      make("p", {}, `What “${words[position]}” (${position}) is made of, layer by layer. Each row is a mean over the heads of its layer.`),
      make("h2", {}, "Raw attention: where each layer looks"), make("div", { class: "scroll" }, raw),
      make("h2", {}, "Rollout: what has come together up to each layer"),
      make("p", { class: "muted" }, "Weights multiplied through the layers, half of each layer being what was there before (Abnar & Zuidema, 2020)."),
      make("div", { class: "scroll" }, rollout),
      make("p", {}, "After the last layer, most of it comes from ", largest(last, 3).map((at, i) => [i ? ", " : "", make("b", {}, words[at]), ` ${exactly(last[at])}`]), "."));
    return {
      svg: () => this.together([["Raw attention", raw], ["Rollout", rollout]], words[position]),
      csv: () => [["method", "layer", "word", "place", "value"], ...[["attention", flow.raw], ["rollout", flow.rollout]].flatMap(([name, values]) =>
        Array.from(values, (value, i) => [name, Math.floor(i / flow.tokens), words[i % flow.tokens], i % flow.tokens, exactly(value)]))],
    };
  },

  together(parts, word) {
    const size = (svg, name) => Number(svg.getAttribute(name));
    const width = Math.max(...parts.map(([, svg]) => size(svg, "width")));
    const height = parts.reduce((sum, [, svg]) => sum + size(svg, "height") + 40, 0);
    const all = picture(width, height, `What “${word}” is made of`);
    let y = 0;
    for (const [name, svg] of parts) {
      all.append(label(name, 0, y + 10, { size: 14, weight: 600 }));
      all.append(draw("g", { transform: `translate(0 ${y + 26})` }, [...svg.cloneNode(true).childNodes]));
      y += size(svg, "height") + 40;
    }
    return all;
  },
};
