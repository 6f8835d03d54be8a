// Attention over the patches of a picture, drawn on the picture.

import { draw, make } from "./dom.js";
import { levelOf } from "./maths.js";
import { brief } from "./numbers.js";
import { select } from "./selection.js";
import { named } from "./colours.js";
import { label, picture } from "./svg.js";

/** The picture with the weights of the chosen patch, or of the class token; `update` redraws it for the current query. */
export function patchesOf(page, which) {
  const [rows, columns] = page.reading.patches;
  // Learned tokens come before the patches.
  const first = page.reading.source.length - rows * columns;
  const patch = (query) => `the patch in row ${Math.floor((query - first) / columns) + 1}, column ${((query - first) % columns) + 1}`;
  const name = (query) => (query >= first ? patch(query) : query === 0 ? "the class token" : `the token ${page.reading.source[query].text}`);
  const heading = make("h2", { id: "patch-heading" });
  const about = make("p", { class: "muted" });
  const inside = (value, length) => Math.min(length - 1, Math.max(0, value));
  const canvas = make("canvas", {
    width: columns, height: rows, role: "img", tabindex: 0, id: "patches",
    click: (event) => {
      const box = canvas.getBoundingClientRect();
      const [x, y] = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
      select({ query: inside(Math.floor(y * rows), rows) * columns + inside(Math.floor(x * columns), columns) + first });
    },
    keydown: (event) => {
      const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (!move && event.key !== "Escape") return;
      const at = page.query() - first;
      const from = [Math.floor(at / columns), at % columns];
      // The class token is not a patch: arrows lead from it to the first patch, Escape back to it.
      const to = at < 0 ? 0 : move && inside(from[0] + move[0], rows) * columns + inside(from[1] + move[1], columns);
      select({ query: move ? to + first : 0 });
      event.preventDefault();
      event.stopPropagation();
    },
  });
  const mark = make("div", { class: "mark", hidden: true });
  const seen = page.picture ? make("img", { src: page.picture, alt: "The picture that was read" }) : null;
  const root = make("div", { class: "patches" }, heading, make("div", { class: seen ? "picture" : "picture bare" }, seen, canvas, mark), about);

  async function update() {
    // Decoded first, so that the layout does not shift.
    await seen?.decode().catch(() => {});
    const query = page.query();
    const question = { ...which, merge: false, hide: false, top: query, bottom: query + 1, left: 0, right: rows * columns + first };
    const { values } = await page.source.block(page.reading, question, page.signal);
    if (query !== page.query()) return;
    const weights = values.subarray(first);
    const [least, most] = [weights.reduce((a, b) => Math.min(a, b), Infinity), weights.reduce((a, b) => Math.max(a, b), 0)];
    const context = canvas.getContext("2d");
    const image = context.createImageData(columns, rows);
    const colour = named("class-1");
    const parts = [1, 3, 5].map((start) => parseInt(colour.slice(start, start + 2), 16));
    weights.forEach((value, i) => image.data.set([...parts, levelOf(value - least, most - least, which.scale) * 0.82], i * 4));
    context.putImageData(image, 0, 0);
    heading.textContent = `What ${name(query)} attends to`;
    canvas.setAttribute("aria-label", `What ${name(query)} attends to, over the picture. Arrows choose another patch, Escape the class token.`);
    about.textContent = `From ${brief(least)} (clear) to ${brief(most)} (strongest). Choose a patch to see what it attends to; the first token, the class token, is the one that is classified.`;
    mark.hidden = query < first;
    const [row, column] = [Math.floor((query - first) / columns), (query - first) % columns];
    mark.style.cssText = `left: ${(100 * column) / columns}%; top: ${(100 * row) / rows}%; width: ${100 / columns}%; height: ${100 / rows}%`;
  }
  /** The picture with the weights over it, as it is shown. */
  async function svg() {
    await seen?.decode().catch(() => {});
    const width = 560;
    const height = seen ? Math.round((width * seen.naturalHeight) / seen.naturalWidth) : Math.round((width * rows) / columns);
    const query = page.query();
    const [row, column] = [Math.floor((query - first) / columns), (query - first) % columns];
    const frame = query < first ? null : draw("rect", { x: (column * width) / columns, y: 28 + (row * height) / rows, width: width / columns, height: height / rows, fill: "none", stroke: named("ink"), "stroke-width": 2 });
    return picture(width, height + 28, heading.textContent,
      label(`${page.reading.model}, ${which.site}, head ${which.head}: ${heading.textContent}`, 0, 10, { size: 13, weight: 600 }),
      seen ? draw("image", { x: 0, y: 28, width, height, href: page.picture, preserveAspectRatio: "none" }) : null,
      draw("image", { x: 0, y: 28, width, height, href: canvas.toDataURL("image/png"), preserveAspectRatio: "none", style: "image-rendering: pixelated" }), frame);
  }
  return { root, update, svg };
}
