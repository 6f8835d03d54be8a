// Pieces of pictures: everything has its colours in its attributes, so that a saved picture needs no style sheet.

import { named } from "./colours.js";
import { draw } from "./dom.js";

const family = "Inter, 'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif";

/** A picture of some size with a title for those who cannot see it. */
export function picture(width, height, title, ...children) {
  return draw(
    "svg",
    {
      class: "drawn", xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
      "aria-label": title, "font-family": family, "font-size": 12, fill: named("ink"),
    },
    draw("title", {}, title),
    ...children,
  );
}

/** Text at a place: anchor is start, middle or end; its middle is at y. */
export function label(text, x, y, { anchor = "start", colour = "ink", size = 12, turned = 0, weight = 400, ...more } = {}) {
  const transform = turned ? `rotate(${turned} ${x} ${y})` : null;
  return draw(
    "text",
    {
      x, y, dy: "0.36em", "text-anchor": anchor, fill: colour.startsWith("#") ? colour : named(colour), "font-size": size,
      "font-weight": weight, transform, ...more,
    },
    text,
  );
}

/** A rectangle that tells something when pointed at. */
export function box(x, y, width, height, fill, tip, more = {}) {
  const children = tip ? [draw("title", {}, tip)] : [];
  return draw("rect", { x, y, width, height, fill, ...more }, ...children);
}

/** A line. */
export function stroke(x1, y1, x2, y2, colour, more = {}) {
  return draw("line", { x1, y1, x2, y2, stroke: colour, ...more });
}

/** About how wide a text is. */
export function widthOf(text, size = 12) {
  let width = 0;
  for (const letter of text) width += /[\u2e80-\uffff]/.test(letter) ? 1 : /[ijltfI.,:;'|!()[\]]/.test(letter) ? 0.32 : /[mwMW@]/.test(letter) ? 0.88 : 0.58;
  return width * size;
}
