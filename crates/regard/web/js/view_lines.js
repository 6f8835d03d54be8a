// Lines: words left and right joined by lines as strong as the weights, one head or many in colour.

import { classColour, named } from "./colours.js";
import { draw, make } from "./dom.js";
import { exactly } from "./numbers.js";
import { chosen, select } from "./selection.js";
import { pickable, roving } from "./roving.js";
import { choosable, label, picture, stroke, wide, widthOf } from "./svg.js";
import { axisOf, placeOf, shortened, sidesOf } from "./words.js";

const mostWords = 90;
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
    const [asks, looked] = [rows.slice(top, bottom), columns.slice(left, right)];
    const svg = this.draw(asks, looked, heads, blocks.map((block) => block.values), middle - top, root.clientWidth);
    const part = (name, from, to, all) => (to - from < all ? `${name}: ${from + 1} to ${to} of ${all}. ` : "");
    const parts = part("Words that ask, around the one chosen", top, bottom, rows.length) + part("Words that are looked at", left, right, columns.length);
    if (parts) root.append(make("p", { class: "muted", id: "parts" }, `${parts}Weights on words beyond are not drawn.`));
    root.append(make("div", { class: "scroll" }, svg));
    return {
      svg: () => svg,
      csv: () => [["head", "asks", "is looked at", "weight"], ...heads.flatMap((head, h) =>
        asks.flatMap((ask, r) => looked.map((key, c) => [head, ask.label, key.label, exactly(blocks[h].values[r * looked.length + c])])))],
    };
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
        return make("button", { type: "button", id: `chip-${head}`, "aria-pressed": String(on), style: on ? `border-color: ${classColour(head)}` : null, click: () => toggle(head) }, `head ${head}`);
      }),
      make("button", { type: "button", id: "chip-all", click: () => select({ lines: all.join(",") }) }, "all"));
  },

  draw(asks, looked, heads, weights, query, room) {
    const [size, step] = [14, 23];
    const longest = (places) => Math.max(widthOf("is looked at", 12), ...places.map((place) => widthOf(shortened(place.label, 22), size, 700)));
    const left = longest(asks) + 12;
    const right = left + Math.min(460, Math.max(140, room - left - longest(looked) - 22));
    const bend = (right - left) * 0.43;
    const [width, height] = [right + longest(looked) + 16, Math.max(asks.length, looked.length) * step + 26];
    const y = (i) => 34 + i * step;
    const svg = wide(choosable(picture(Math.ceil(width), Math.ceil(height), `Lines from ${asks.length} words that ask to ${looked.length} that are looked at`)));
    svg.append(label("asks", left - 8, 10, { anchor: "end", colour: "muted" }), label("is looked at", right + 8, 10, { colour: "muted" }));
    const layers = asks.map(() => draw("g", {}));
    const peak = Math.max(1e-9, ...weights.map((values) => values.reduce((most, value) => Math.max(most, value), 0)));
    heads.forEach((head, h) => {
      const colour = heads.length === 1 ? classColour(0) : classColour(head);
      weights[h].forEach((weight, i) => {
        const [r, c] = [Math.floor(i / looked.length), i % looked.length];
        const share = weight / peak;
        if (share < faintest) return;
        const [from, to] = [y(r), y(c) + (h - (heads.length - 1) / 2) * 1.2];
        const line = draw("path", {
          d: `M${left} ${from}C${left + bend} ${from} ${right - bend} ${to.toFixed(1)} ${right} ${to.toFixed(1)}`, fill: "none", stroke: colour, "data-key": c,
          "stroke-width": (0.6 + 3.6 * share).toFixed(2), "stroke-opacity": Math.min(0.9, 0.05 + share).toFixed(3),
        }, draw("title", {}, `head ${head}: ${asks[r].label} → ${looked[c].label}: ${exactly(weight)}`));
        layers[r].append(line);
      });
    });
    const isolate = (row) => layers.forEach((layer, r) => layer.setAttribute("opacity", row === null || r === row ? 1 : 0.05));
    svg.append(...layers);
    const word = (place, x, i, more, see) => label(shortened(place.label, 22), x, y(i), {
      size, ...more, pointerenter: () => see(i), pointerleave: () => see(null), focus: () => see(i), blur: () => see(null),
    });
    const askers = asks.map((place, r) => word(place, left - 8, r, {
      anchor: "end", weight: r === query ? 700 : 400, colour: r === query ? classColour(1) : "ink", ...pickable(`asks-${r}`, `${place.label} asks`, () => select({ query: place.start })),
    }, isolate));
    const seen = (column) => layers.forEach((layer) => layer.childNodes.forEach((line) => line.setAttribute("opacity", column === null || Number(line.dataset.key) === column ? 1 : 0.04)));
    const lookedAt = looked.map((place, c) => word(place, right + 8, c, {
      colour: place.special ? "muted" : "ink", ...pickable(`seen-${c}`, `${place.label} is looked at`, () => select({ key: place.start })),
    }, seen));
    roving(askers, query);
    roving(lookedAt);
    svg.append(...askers, ...lookedAt);
    svg.append(stroke(left - 2, y(0) - 8, left - 2, y(asks.length - 1) + 8, named("grid")));
    return svg;
  },
};
