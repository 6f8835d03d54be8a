// The colour maps of the figures, read from the page's style sheet: light or dark, and safe for colour-blind readers.

const paints = { sequential: null, diverging: null };
// Asking for a computed style takes longer than drawing what it colours.
const knownStyles = new Map();
const knownInks = new Map();

function styleOf(name) {
  if (!knownStyles.has(name)) knownStyles.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return knownStyles.get(name);
}

function parts(hex) {
  return [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16));
}

function ramp(letter) {
  const levels = [];
  for (let level = 0; level <= 128; level++) levels.push(styleOf(`--figure-${letter}${level}`));
  return levels;
}

/** Discards the cached colours; call it when the theme changes. */
export function forgetColours() {
  knownStyles.clear();
  knownInks.clear();
  paints.sequential = paints.diverging = null;
}

/** The hex colour of a share (0 to 1) of the sequential map. */
export function shade(share) {
  paints.sequential ??= ramp("s");
  return paints.sequential[Math.round(Math.min(1, Math.max(0, share || 0)) * 128)];
}

/** The hex colour of a signed share (−1 to 1). */
export function signedShade(share) {
  paints.diverging ??= ramp("d");
  return paints.diverging[Math.round((Math.min(1, Math.max(-1, share || 0)) + 1) * 64)];
}

/** The relative luminance of a colour, as in the contrast ratio of WCAG. */
function luminance(hex) {
  const linear = parts(hex).map((part) => (part <= 10 ? part / 3294 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
}

/** Ink or paper, whichever has more contrast with a colour. */
function legibleOn(hex) {
  if (!knownInks.has(hex)) {
    const contrast = (other) => {
      const [a, b] = [luminance(hex), luminance(other)];
      return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    };
    const [ink, paper] = [styleOf("--figure-ink"), styleOf("--figure-paper")];
    knownInks.set(hex, contrast(ink) >= contrast(paper) ? ink : paper);
  }
  return knownInks.get(hex);
}

/** The text colour that is legible on a share of the sequential map. */
export const inkOn = (share) => legibleOn(shade(share));

/** The text colour that is legible on a signed share. */
export const inkOnSigned = (share) => legibleOn(signedShade(share));

/** The colour of a class or head. */
export const classColour = (index) => styleOf(`--figure-class-${index % 6}`);

/** The colour of one of `count` heads: a class colour, or one of evenly spaced hues if there are more than six. */
export function headColour(head, count) {
  if (count <= 6) return classColour(head);
  const light = parts(styleOf("--figure-paper"))[0] > 128 ? 0.42 : 0.66;
  const hue = (head / count) * 12;
  const channel = (n) => {
    const k = (n + hue) % 12;
    return Math.round(255 * (light - 0.68 * Math.min(light, 1 - light) * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return `#${[0, 8, 4].map((n) => channel(n).toString(16).padStart(2, "0")).join("")}`;
}

/** A named colour: ink, muted, rule, grid, paper. */
export const named = (name) => styleOf(`--figure-${name}`);

/** RGBA of each of 256 levels, for canvases. */
export function palette() {
  const table = new Uint8ClampedArray(256 * 4);
  for (let level = 0; level < 256; level++) table.set([...parts(shade(level / 255)), 255], level * 4);
  return table;
}

/** Levels as a picture, on a canvas of their own or on the one given. */
export function paint(levels, width, height, table = palette(), canvas = document.createElement("canvas")) {
  [canvas.width, canvas.height] = [Math.max(1, width), Math.max(1, height)];
  // A canvas with a layer of its own takes longer to show than to draw, and there may be hundreds.
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const image = context.createImageData(canvas.width, canvas.height);
  const [pixels, colours] = [new Uint32Array(image.data.buffer), new Uint32Array(table.buffer)];
  for (let i = 0; i < width * height; i++) pixels[i] = colours[levels[i]];
  context.putImageData(image, 0, 0);
  return canvas;
}
