// SVG elements with their colours as attributes, so that a saved picture needs no style sheet.

import { named } from "./colours.js";
import { draw } from "./dom.js";

const family = "Inter, 'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif";

/** A picture with interactive elements: for screen readers a group, not one image. */
export function choosable(svg) {
  svg.setAttribute("role", "group");
  return svg;
}

/** A picture that is never scaled down: it scrolls instead. */
export function wide(svg) {
  svg.classList.add("wide");
  return svg;
}

/** A picture of some size with a title for screen readers. */
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

/** Text at a position: `anchor` is start, middle or end; y is its vertical centre. */
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

/** A rectangle, with a tooltip if given. */
export function box(x, y, width, height, fill, tip, more = {}) {
  const children = tip ? [draw("title", {}, tip)] : [];
  return draw("rect", { x, y, width, height, fill, ...more }, ...children);
}

/** A line. */
export function stroke(x1, y1, x2, y2, colour, more = {}) {
  return draw("line", { x1, y1, x2, y2, stroke: colour, ...more });
}

let ruler = null;

/** The width of a text in pixels. */
export function widthOf(text, size = 12, weight = 400) {
  ruler ??= document.createElement("canvas").getContext("2d");
  ruler.font = `${weight} ${size}px ${family}`;
  return ruler.measureText(text).width;
}
