// Pieces of pictures: everything has its colours in its attributes, so that a saved picture needs no style sheet.

import { named } from "./colours.js";
import { draw } from "./dom.js";

const family = "Inter, 'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif";

/** A picture in which something can be chosen: a group for those who cannot see it, not one image. */
export function choosable(svg) {
  svg.setAttribute("role", "group");
  return svg;
}

/** A picture that is never made smaller than it is drawn: it scrolls instead. */
export function wide(svg) {
  svg.classList.add("wide");
  return svg;
}

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

let ruler = null;

/** How wide a text is. */
export function widthOf(text, size = 12, weight = 400) {
  ruler ??= document.createElement("canvas").getContext("2d");
  ruler.font = `${weight} ${size}px ${family}`;
  return ruler.measureText(text).width;
}
