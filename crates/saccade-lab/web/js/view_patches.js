// Attention over the patches of a picture, drawn on the picture.

import { make } from "./dom.js";
import { levelOf } from "./maths.js";
import { brief } from "./numbers.js";
import { select } from "./selection.js";
import { named } from "./colours.js";

/** Adds the picture with the weights of the chosen patch, or of the class token. */
export async function showPatches(root, page, which) {
  const [rows, columns] = page.reading.patches;
  const query = page.query();
  const question = { ...which, merge: false, hide: false, top: query, bottom: query + 1, left: 0, right: rows * columns + 1 };
  const { values } = await page.source.block(page.reading, question, page.signal);
  const weights = values.subarray(1);
  const [least, peak] = [Math.min(...weights), Math.max(...weights)];
  const canvas = make("canvas", {
    width: columns, height: rows, role: "img", "aria-label": `Where ${page.reading.source[query].text} looks, over the picture`,
    click: (event) => {
      const box = canvas.getBoundingClientRect();
      const [x, y] = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
      select({ query: Math.floor(y * rows) * columns + Math.floor(x * columns) + 1 });
    },
  });
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  const colour = named("class-1");
  const parts = [1, 3, 5].map((start) => parseInt(colour.slice(start, start + 2), 16));
  weights.forEach((value, i) => image.data.set([...parts, levelOf(value - least, peak - least, which.scale) * 0.82], i * 4));
  context.putImageData(image, 0, 0);
  const seen = page.picture ? make("img", { src: page.picture, alt: "The picture that was read" }) : null;
  root.append(make("h2", {}, `Where “${page.reading.source[query].text}” looks`), make("div", { class: "picture" }, seen, canvas),
    make("p", { class: "muted" }, `From ${brief(least)} (clear) to ${brief(peak)} (strongest). Choose a patch to see where it looks; the first token gathers the class.`));
}
