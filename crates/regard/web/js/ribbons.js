// Flow as ribbons: through which tokens and layers influence reaches a token.

import { classColour, headColour, named } from "./colours.js";
import { draw, make } from "./dom.js";
import { exactly, percent } from "./numbers.js";
import { pickable, roving } from "./roving.js";
import { box, choosable, label, picture, wide, widthOf } from "./svg.js";
import { shortened } from "./words.js";

const levelHeight = 84;
const laneWidth = 74;
const narrowest = 5;

/** Shares and ribbons of tokens summed by axis entry: the pieces of a word if merged; special tokens, or a sink, as one extra entry. */
export function byPlace(found, places, apart) {
  const count = places.length;
  const of = new Int32Array(found.tokens).fill(-1);
  places.forEach((place, p) => of.fill(apart(place) ? count : p, place.start, place.end));
  // Hidden tokens belong to the extra entry too: they keep their share.
  of.forEach((at, token) => { if (at < 0) of[token] = count; });
  const shares = found.shares.map((row) => {
    const sums = new Float64Array(count + 1);
    row.forEach((share, token) => (sums[of[token]] += share));
    return sums;
  });
  const ribbons = found.ribbons.map((layer) => {
    const sums = new Map();
    for (const [from, to, share] of layer) {
      const key = of[from] * (count + 1) + of[to];
      sums.set(key, (sums.get(key) ?? 0) + share);
    }
    return [...sums].map(([key, share]) => ({ from: Math.floor(key / (count + 1)), to: key % (count + 1), share }));
  });
  return { shares, ribbons, count };
}

/**
 * The picture: inputs at the bottom, layers upward, the token at the top. Words at a level have widths in
 * proportion to their shares; special tokens, or a sink, have a lane of their own at the left, so that they do not dominate the rest.
 */
export function ribbonPicture({ shares, ribbons, count }, places, { room, word, apartName, pick, current }) {
  const lane = shares.some((row) => row[count] > 1e-6) ? laneWidth : 0;
  const left = 92 + lane + (lane ? 22 : 0);
  const across = Math.max(360, Math.min(1180, room - left - 12));
  const levels = shares.length;
  const longest = Math.max(...places.map((place) => widthOf(shortened(place.label, 14), 12)));
  const [top, foot] = [34, longest * 0.74 + 26];
  const height = top + (levels - 1) * levelHeight + foot;
  const y = (level) => top + (levels - 1 - level) * levelHeight;
  const gap = Math.min(6, (across * 0.25) / Math.max(1, count));
  // A word appears at every level at which it has a share.
  const nodes = shares.map((row) => {
    const seen = Array.from({ length: count }, (_, p) => p).filter((p) => row[p] > 2e-4);
    const whole = seen.reduce((sum, p) => sum + row[p], 0) || 1;
    const scale = (across - gap * Math.max(0, seen.length - 1)) / whole;
    const found = new Map();
    let x = left;
    for (const p of seen) {
      found.set(p, { x, width: row[p] * scale, share: row[p], scale, in: 0, out: 0 });
      x += row[p] * scale + gap;
    }
    if (lane) found.set(count, { x: 92, width: row[count] * lane, share: row[count], scale: lane, in: 0, out: 0 });
    return found;
  });
  const svg = wide(choosable(picture(Math.ceil(left + across + 14), Math.ceil(height), `Flow to ${word} through ${levels - 1} layers`)));
  // Hues, not classes: one of those marks the token that is followed.
  const colour = (p) => (p === count ? named("muted") : p === current ? classColour(1) : headColour(p, Math.max(7, count)));
  const bands = draw("g", {});
  ribbons.forEach((layer, l) => {
    const [low, high] = [nodes[l], nodes[l + 1]];
    const sorted = [...layer].sort((a, b) => a.to - b.to || a.from - b.from);
    const upperEnds = new Map();
    for (const one of sorted) {
      const node = high.get(one.to);
      if (!node) continue;
      upperEnds.set(one, { upper: node.x + node.in, upperWidth: one.share * node.scale });
      node.in += one.share * node.scale;
    }
    for (const one of [...layer].sort((a, b) => a.from - b.from || a.to - b.to)) {
      const [node, ends] = [low.get(one.from), upperEnds.get(one)];
      if (!node || !ends) continue;
      const [a, b] = [node.x + node.out, node.x + node.out + one.share * node.scale];
      node.out += one.share * node.scale;
      const [c, d] = [ends.upper, ends.upper + ends.upperWidth];
      const [y0, y1] = [y(l) - 5, y(l + 1) + 5];
      const m = (y0 + y1) / 2;
      const f = (value) => value.toFixed(1);
      const name = (p) => (p === count ? apartName : places[p].label);
      bands.append(draw("path", {
        d: `M${f(a)} ${y0}C${f(a)} ${f(m)} ${f(c)} ${f(m)} ${f(c)} ${y1}L${f(d)} ${y1}C${f(d)} ${f(m)} ${f(b)} ${f(m)} ${f(b)} ${y0}Z`, fill: colour(one.from), "fill-opacity": one.from === count ? 0.22 : 0.46,
        "data-from": one.from, "data-to": one.to, "data-layer": l, "data-share": exactly(one.share),
      }, draw("title", {}, `layer ${l}: ${name(one.from)} → ${name(one.to)}: ${percent(one.share)}`)));
    }
  });
  svg.append(bands);
  const dim = (p) => bands.childNodes.forEach((band) => band.setAttribute("opacity", p === null || Number(band.dataset.from) === p || Number(band.dataset.to) === p ? 1 : 0.12));
  const chips = [];
  nodes.forEach((found, level) => {
    svg.append(label(level === 0 ? "input" : `after layer ${level - 1}`, 84, y(level), { anchor: "end", size: 12, colour: "muted" }));
    for (const [p, node] of found) {
      const says = `${p === count ? apartName : places[p].label}, ${level === 0 ? "input" : `after layer ${level - 1}`}: ${percent(node.share)}`;
      const act = p === count ? { class: "", id: `flow-${level}-apart` } : pickable(`flow-${level}-${p}`, says, () => pick(p));
      const bar = box(node.x, y(level) - 5, Math.max(1, node.width), 10, colour(p), says, { rx: 2, ...act, "data-share": exactly(node.share), "data-place": p, "data-level": level, pointerenter: () => dim(p), pointerleave: () => dim(null) });
      if (p !== count) chips.push(bar);
      svg.append(bar);
      if (p !== count && level > 0 && level < levels - 1 && node.width > 56) svg.append(label(`${shortened(places[p].label, Math.floor(node.width / 9))} ${percent(node.share)}`, node.x + node.width / 2, y(level) - 13, { anchor: "middle", size: 11 }));
    }
    if (lane) svg.append(label(percent(found.get(count).share), 92, y(level) - 13, { size: 11, colour: "muted" }));
  });
  if (lane) svg.append(label(shortened(apartName, 16), 92, y(0) + 15, { size: 11, colour: "muted" }));
  svg.append(label(word, nodes.at(-1).get(current)?.x ?? left, top - 20, { size: 14, weight: 700 }));
  let free = -Infinity;
  const wordsBelow = [...nodes[0]].filter(([p, node]) => p !== count && node.width >= narrowest);
  for (const [p, node] of wordsBelow) {
    const x = node.x + node.width / 2;
    if (x < free) continue;
    free = x + 15;
    svg.append(label(`${shortened(places[p].label, 14)}`, x + 3, y(0) + 13, { size: 12, turned: 45, weight: p === current ? 700 : 400 }));
  }
  roving(chips, 0);
  return svg;
}

/** The same as one picture that can be saved: figures that `patchRibbons` has drawn, six in a row. */
export function patchPicture(page, figures) {
  const [rows, columns] = page.reading.patches;
  const [width, across] = [200, Math.min(6, figures.length)];
  const height = Math.round((width * rows) / columns);
  const all = picture(across * (width + 14), Math.ceil(figures.length / across) * (height + 40), "Contributions of the patches through the layers");
  figures.forEach((figure, i) => {
    const place = { x: (i % across) * (width + 14), y: Math.floor(i / across) * (height + 40), width, height, preserveAspectRatio: "none" };
    const [level, ...shares] = figure.querySelector("figcaption").textContent.split(" · ");
    all.append(
      ...(page.picture ? [draw("image", { ...place, href: page.picture })] : []),
      draw("image", { ...place, href: figure.querySelector("canvas").toDataURL("image/png"), style: "image-rendering: pixelated" }),
      label(level, place.x, place.y + height + 10, { size: 11, weight: 700 }), label(shares.join(", "), place.x, place.y + height + 24, { size: 11, colour: "muted" }));
  });
  return all;
}

/** For vision models: the shares of the patches over the picture at each level, and the share of the other tokens. */
export function patchRibbons(page, found, pick) {
  const [rows, columns] = page.reading.patches;
  const first = page.reading.source.length - rows * columns;
  const colour = classColour(1);
  const parts = [1, 3, 5].map((start) => parseInt(colour.slice(start, start + 2), 16));
  return make("div", { class: "levels", id: "flow-levels" }, found.shares.slice(0, -1).map((row, level) => {
    const patches = row.slice(first);
    const most = Math.max(1e-12, ...patches);
    const other = row.slice(0, first).reduce((sum, share) => sum + share, 0);
    const canvas = make("canvas", { width: columns, height: rows, role: "img", "aria-label": `Shares of the patches ${level ? `after layer ${level - 1}` : "of the input"}; the largest is ${percent(most)}`,
      click: (event) => {
        const frame = canvas.getBoundingClientRect();
        const inside = (value, length) => Math.min(length - 1, Math.max(0, Math.floor(value * length)));
        pick(first + inside((event.clientY - frame.top) / frame.height, rows) * columns + inside((event.clientX - frame.left) / frame.width, columns));
      } });
    const context = canvas.getContext("2d");
    const image = context.createImageData(columns, rows);
    patches.forEach((share, i) => image.data.set([...parts, 225 * (share / most)], i * 4));
    context.putImageData(image, 0, 0);
    const seen = page.picture ? make("img", { src: page.picture, alt: "" }) : null;
    return make("figure", { "data-level": level },
      make("div", { class: seen ? "picture" : "picture bare" }, seen, canvas),
      make("figcaption", {}, make("b", {}, level ? `after layer ${level - 1}` : "input"), ` · largest patch ${percent(most)} · other tokens ${percent(other)}`));
  }));
}
