// A heat map as a picture that can be saved: a rectangle per cell if it is small, one image if it is large.

import { named, paint, palette, shade } from "./colours.js";
import { draw } from "./dom.js";
import { levelOf } from "./maths.js";
import { exactly, brief } from "./numbers.js";
import { box, label, picture, widthOf } from "./svg.js";
import { shortened } from "./words.js";

const fewCells = 2500;

/** Slanted labels closer than this overlap. */
export const columnGap = 17;

/** The label at the dark end of a scale: its value, after ≥ if larger values have the same colour. */
export const endOf = (top, largest) => `${largest > top ? "≥ " : ""}${brief(top)}`;

/** The cells of a map: values row by row, with a tooltip each. */
export function cells(values, rows, columns, { x, y, width, height, top, scale = "raw", tip, pick }) {
  const [high, wide] = [height / rows, width / columns];
  if (rows * columns > fewCells) {
    const levels = Uint8Array.from(values, (value) => levelOf(value, top, scale));
    const href = paint(levels, columns, rows, palette()).toDataURL("image/png");
    return draw("image", { x, y, width, height, href, preserveAspectRatio: "none", style: "image-rendering: pixelated" });
  }
  const group = draw("g", { "shape-rendering": "crispEdges" });
  for (let r = 0; r < rows; r++) {
    for (let c = 0; c < columns; c++) {
      const share = levelOf(values[r * columns + c], top, scale) / 255;
      const more = pick ? { class: "pick", click: () => pick(r, c) } : {};
      group.append(box(x + c * wide, y + r * high, wide, high, shade(share), tip?.(r, c, values[r * columns + c]), more));
    }
  }
  return group;
}

/** A whole map with row and column labels. */
export function mapPicture(values, rowLabels, columnLabels, { title, top: end, largest = end, scale, rowName = "", columnName = "", most = 26, side = 640, pick }) {
  const [rows, columns] = [rowLabels.length, columnLabels.length];
  const wide = Math.max(1, Math.min(most, side / columns));
  const high = Math.max(1, Math.min(28, Math.max(side / columns, side / rows / 1.6)));
  const [down, across] = [rowLabels.map((text) => shortened(text)), columnLabels.map((text) => shortened(text))];
  const left = Math.max(...down.map((text) => widthOf(text, 11)), 0) + 10 + (rowName ? 18 : 0);
  const top = Math.max(...across.map((text) => widthOf(text, 11)), 0) * 0.72 + 16 + (columnName ? 18 : 0);
  const [width, height] = [columns * wide, rows * high];
  const tip = (r, c, value) => `${rowLabels[r]} → ${columnLabels[c]}: ${exactly(value)}`;
  const every = (length, apart) => Math.max(1, Math.ceil(apart / length));
  const svg = picture(
    Math.ceil(left + width + 84), Math.ceil(top + height + 8), title,
    cells(values, rows, columns, { x: left, y: top, width, height, top: end, scale, tip, pick }),
    draw("rect", { x: left, y: top, width, height, fill: "none", stroke: named("rule"), "stroke-width": 0.5 }),
    down.map((text, r) => (r % every(high, 12) ? null : label(text, left - 6, top + (r + 0.5) * high, { anchor: "end", size: 11 }))),
    across.map((text, c) => (c % every(wide, columnGap) ? null : label(text, left + (c + 0.5) * wide, top - 7, { size: 11, turned: -45 }))),
    rowName ? label(rowName, 7, top + height / 2, { anchor: "middle", colour: "muted", turned: -90 }) : null,
    columnName ? label(columnName, left, 8, { colour: "muted" }) : null,
    scaleBar(left + width + 16, top, Math.min(height, 140), end, scale, largest),
  );
  return svg;
}

/** The colour bar of a map. */
export function scaleBar(x, y, height, top, scale, largest = top) {
  const steps = 24;
  const bar = draw("g", {});
  for (let i = 0; i < steps; i++) bar.append(box(x, y + (i * height) / steps, 10, height / steps + 0.5, shade(1 - i / (steps - 1))));
  bar.append(label(endOf(top, largest), x + 14, y + 5, { size: 10, colour: "muted" }));
  bar.append(label(scale === "log" ? brief(top / 1e4) : "0", x + 14, y + height - 5, { size: 10, colour: "muted" }));
  return bar;
}
