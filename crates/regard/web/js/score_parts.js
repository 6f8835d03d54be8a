// Why, one level deeper: a score as a sum over pairs of components that wrote the query and the key.

import { named, signedShade } from "./colours.js";
import { draw, make } from "./dom.js";
import { brief, exactly, signed } from "./numbers.js";
import { select } from "./selection.js";
import { label, picture, wide } from "./svg.js";

const listedPairs = 12;
const listedWriters = 9;

/** The parts of a score as a graph and a table, computed on demand: this takes one forward pass. */
export function scoreParts(page, which) {
  const root = make("div", { class: "score-parts" });
  const show = async () => {
    root.replaceChildren(make("p", { class: "muted" }, "computing…"));
    try {
      const found = await page.source.parts(page.reading, which, page.signal);
      root.replaceChildren(...contents(found, page));
    } catch (problem) {
      // Whoever leaves the view and comes back may ask again.
      if (problem.name === "AbortError") offer();
      else root.replaceChildren(make("p", { class: "muted", id: "no-parts" }, `${problem.message[0].toUpperCase()}${problem.message.slice(1)}.`));
    }
  };
  const offer = () => root.replaceChildren(make("button", { type: "button", id: "split-score", click: show }, "Which earlier heads and layers made this score?"));
  offer();
  return root;
}

function contents({ writers, parts, distance, score }, page) {
  const count = writers.length;
  const pairs = parts.map((part, i) => ({ part, from: Math.floor(i / count), to: i % count })).sort((a, b) => Math.abs(b.part) - Math.abs(a.part));
  const total = parts.reduce((sum, part) => sum + part, 0) + distance;
  const best = pairs[0];
  const row = ({ part, from, to }) => make("tr", { "data-part": exactly(part) },
    make("td", {}, writerName(writers[from])), make("td", {}, writerName(writers[to])), make("td", {}, signed(part)));
  return [
    make("h2", {}, "Parts of this score"),
    make("p", { id: "parts-in-words" }, `The score of ${brief(score)} is the sum over ${count} × ${count} pairs: the contribution of each earlier component to the query times that of each to the key${distance ? `, plus ${brief(distance)} for the distance` : ""}. The largest pair is ${writers[best.from].name} in the query with ${writers[best.to].name} in the key: ${signed(best.part)}.`),
    make("div", { class: "two parts-two" },
      make("div", { class: "scroll" }, graph(writers, pairs)),
      make("div", { class: "scroll" }, make("table", { id: "score-parts", "data-sum": exactly(total), "data-score": exactly(score) },
        make("thead", {}, make("tr", {}, ["in the query", "in the key", "part"].map((name) => make("th", { scope: "col" }, name)))),
        make("tbody", {}, pairs.slice(0, listedPairs).map(row)),
        make("tfoot", {}, make("tr", {}, make("td", {}, `${othersOf(count * count - listedPairs)} others${distance ? " and distance" : ""}`), make("td", {}), make("td", {}, signed(total - pairs.slice(0, listedPairs).reduce((sum, { part }) => sum + part, 0)))),
          make("tr", {}, make("td", {}, make("b", {}, "score")), make("td", {}), make("td", {}, make("b", {}, signed(total)))))))),
  ];

  function writerName({ name, layer, head }) {
    if (head === null) return name;
    return make("button", { type: "button", class: "word", title: "open this head", click: () => select({ layer, head, view: "head" }) }, name);
  }
}

const othersOf = (value) => Math.max(0, value).toLocaleString("en");

/** Components of the query at the left and of the key at the right, joined by lines as wide as the part of each pair. */
function graph(writers, pairs) {
  const shown = pairs.slice(0, listedPairs);
  const side = (end) => {
    const sums = new Map();
    for (const pair of pairs) sums.set(pair[end], (sums.get(pair[end]) ?? 0) + pair.part);
    const used = new Set(shown.map((pair) => pair[end]));
    return [...sums].filter(([at]) => used.has(at)).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).slice(0, listedWriters);
  };
  const [left, right] = [side("from"), side("to")];
  const [x1, x2, step] = [170, 430, 30];
  const height = Math.max(left.length, right.length) * step + 34;
  const y = (list, at) => 40 + list.findIndex(([one]) => one === at) * step;
  const most = Math.max(1e-12, ...shown.map(({ part }) => Math.abs(part)));
  const lines = shown.filter(({ from, to }) => left.some(([at]) => at === from) && right.some(([at]) => at === to)).reverse().map(({ part, from, to }) => {
    const [a, b] = [y(left, from), y(right, to)];
    return draw("path", { d: `M${x1} ${a}C${x1 + 110} ${a} ${x2 - 110} ${b} ${x2} ${b}`, fill: "none", stroke: signedShade(Math.sign(part) * 0.85), "stroke-width": (1 + 11 * Math.abs(part) / most).toFixed(1), "stroke-opacity": 0.75 },
      draw("title", {}, `${writers[from].name} × ${writers[to].name}: ${exactly(part)}`));
  });
  const names = (list, x, anchor) => list.map(([at, sum]) => label(`${writers[at].name}  ${signed(sum)}`, x, y(list, at), { anchor, size: 12.5 }));
  return wide(picture(600, height, "Components of the query and the key", label("query", x1 - 8, 12, { anchor: "end", colour: "muted" }), label("key", x2 + 8, 12, { colour: "muted" }), lines,
    names(left, x1 - 8, "end"), names(right, x2 + 8, "start"), draw("line", { x1, x2: x1, y1: 26, y2: height, stroke: named("grid") }), draw("line", { x1: x2, x2, y1: 26, y2: height, stroke: named("grid") })));
}
