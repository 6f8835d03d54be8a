// Vectors as strips of colour, one cell per dimension.

import { signedShade } from "./colours.js";
import { draw } from "./dom.js";
import { brief, exactly } from "./numbers.js";
import { box, label } from "./svg.js";

export const cellWidth = (width) => Math.max(3.5, Math.min(22, 640 / width));

/** The largest absolute value of some vectors, which then share one colour scale. */
export const extent = (...vectors) => Math.max(1e-12, ...vectors.map((vector) => vector.reduce((most, value) => Math.max(most, Math.abs(value)), 0)));

/** A strip with its name at the left and a number at the right. */
export function strip(name, vector, x, y, { most, height = 14, note = "", what = "" }) {
  const wide = cellWidth(vector.length);
  const group = draw("g", {});
  group.append(label(name, x - 8, y + height / 2, { anchor: "end", size: 12 }));
  vector.forEach((value, i) => group.append(box(x + i * wide, y, wide - (wide > 5 ? 0.6 : 0), height, signedShade(value / most), `${what || name}, dimension ${i}: ${exactly(value)}`)));
  if (note) group.append(label(note, x + vector.length * wide + 10, y + height / 2, { size: 12 }));
  return group;
}

/** The colour bar of a strip, from −most to most. */
export function signedBar(x, y, most) {
  const group = draw("g", {});
  for (let i = 0; i < 33; i++) group.append(box(x + i * 4, y, 4.2, 9, signedShade((i - 16) / 16)));
  group.append(label(brief(-most), x - 5, y + 5, { anchor: "end", size: 10, colour: "muted" }), label(brief(most), x + 137, y + 5, { size: 10, colour: "muted" }));
  return group;
}
