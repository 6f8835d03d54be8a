// Exports of the current view: SVG, PNG, CSV, a link.

import { named } from "./colours.js";
import { at, draw } from "./dom.js";
import { linkOf } from "./selection.js";

function offer(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** The SVG source of a picture, with a margin and a background. */
export function textOf(svg) {
  const copy = svg.cloneNode(true);
  const [, , width, height] = copy.getAttribute("viewBox").split(" ").map(Number);
  const margin = 16;
  copy.setAttribute("viewBox", `${-margin} ${-margin} ${width + 2 * margin} ${height + 2 * margin}`);
  copy.setAttribute("width", width + 2 * margin);
  copy.setAttribute("height", height + 2 * margin);
  copy.removeAttribute("class");
  // A saved picture is not interactive.
  copy.setAttribute("role", "img");
  for (const part of copy.querySelectorAll("[tabindex]")) for (const name of ["tabindex", "role", "id", "class", "aria-label"]) part.removeAttribute(name);
  const paper = draw("rect", { x: -margin, y: -margin, width: width + 2 * margin, height: height + 2 * margin, fill: named("paper") });
  copy.insertBefore(paper, copy.firstChild);
  // Tokens may hold characters that XML cannot.
  const source = new XMLSerializer().serializeToString(copy).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");
  return `<?xml version="1.0" encoding="UTF-8"?>\n${source}\n`;
}

/** Saves a picture as SVG. */
export function saveSvg(svg, name) {
  offer(new Blob([textOf(svg)], { type: "image/svg+xml" }), `${name}.svg`);
}

/** Saves a picture as PNG, at twice its size. */
export async function savePng(svg, name) {
  const text = textOf(svg);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = image.width * 2;
  canvas.height = image.height * 2;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
  if (!blob) throw new Error("The picture is too large for this browser to save as PNG; save it as SVG.");
  offer(blob, `${name}.png`);
}

/** Rows of cells as CSV. */
export function csvOf(rows) {
  const cell = (value) => {
    const text = String(value ?? "");
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

/** Saves rows of cells as CSV. */
export function saveCsv(rows, name) {
  offer(new Blob([csvOf(rows)], { type: "text/csv" }), `${name}.csv`);
}

/** Copies the link to the current view. */
export async function copyLink() {
  const link = new URL(linkOf(), location.href).href;
  try {
    await navigator.clipboard.writeText(link);
    at("said").textContent = "The link was copied.";
    at("copy-link").textContent = "link copied ✓";
    setTimeout(() => { at("copy-link").textContent = "link"; }, 2000);
  } catch {
    window.prompt("Link to this view:", link);
  }
}
