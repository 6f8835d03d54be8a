// The row of controls above a view, and the strip of tokens.

import { at, make } from "./dom.js";
import { chosen, select } from "./selection.js";
import { groupName, shortened } from "./words.js";

const scales = { raw: "raw", log: "logarithmic", rest: "without first token", norms: "by value norms" };
const mostChips = 400;

function choice(name, options, value, change) {
  const list = make("select", { "aria-label": name, change: () => change(list.value) }, options.map(([key, text]) => make("option", { value: key, selected: key === value }, text)));
  return make("label", {}, name, list);
}

function stepper(name, value, count, change) {
  const step = (by) => change((value + by + count) % count);
  return make("span", { class: "steps", role: "group", "aria-label": name },
    make("button", { type: "button", click: () => step(-1), "aria-label": `previous ${name}` }, "‹"),
    make("output", { id: `at-${name}` }, `${name} ${value}`),
    make("button", { type: "button", click: () => step(1), "aria-label": `next ${name}` }, "›"));
}

function toggle(text, name) {
  return make("button", { type: "button", id: `toggle-${name}`, "aria-pressed": String(chosen[name]), click: () => select({ [name]: !chosen[name] }) }, text);
}

/** The controls that a view wants. */
export function showControls(view, page) {
  const root = at("bar");
  root.replaceChildren();
  if (!page.reading || !view.fits(page.reading)) return;
  const wants = (name) => view.controls.includes(name);
  const { groups } = page.reading;
  if (wants("group") && groups.length > 1) {
    root.append(choice("attention", groups.map((group) => [group, groupName(group)]), page.group(), (group) => select({ group, layer: 0, head: 0, query: -1, key: -1 })));
  }
  if (wants("head")) {
    const sites = page.sites();
    root.append(
      stepper("layer", page.site().layer, sites.length, (layer) => select({ layer, head: Math.min(chosen.head, sites[layer].heads - 1) })),
      stepper("head", chosen.head, page.site().heads, (head) => select({ head, lines: "" })));
  }
  if (wants("sort")) {
    const measures = page.measures?.names ?? [];
    const options = [["place", "by layer and head"], ...measures.flatMap((name) => [[name, `${name}, most first`], [`-${name}`, `${name}, least first`]])];
    root.append(choice("order", options, chosen.sort, (sort) => select({ sort })));
  }
  if (wants("scale")) root.append(choice("scale", Object.entries(scales), chosen.scale, (scale) => select({ scale })));
  if (wants("rotated") && page.site().rotary) root.append(choice("rotation", [["1", "after"], ["", "before"]], chosen.rotated ? "1" : "", (rotated) => select({ rotated: rotated === "1" })));
  if (wants("shown")) {
    const tokens = [...page.reading.source, ...page.reading.target];
    const pieces = page.reading.source.some((token, i, all) => i > 0 && token.word === all[i - 1].word);
    if (pieces) root.append(toggle("whole words", "merge"));
    if (tokens.some((token) => token.special)) root.append(toggle("hide special tokens", "hide"));
  }
}

/** The tokens, of which one asks. */
export function showTokens(page) {
  const root = at("tokens");
  const tokens = page.reading ? page.asking() : [];
  root.replaceChildren(...tokens.slice(0, mostChips).map((token, i) =>
    make("button", { type: "button", role: "option", class: token.special ? "special" : "", "data-token": i, title: `token ${i}, id ${token.id}`, click: () => select({ query: i }) }, shortened(token.text, 24) || "␠")));
  if (tokens.length > mostChips) root.append(make("span", { class: "more" }, `and ${tokens.length - mostChips} more: choose them in the map`));
  markToken(page);
}

/** Marks the token that asks. */
export function markToken(page) {
  const query = page.reading ? page.query() : -1;
  at("tokens").querySelectorAll("button").forEach((chip, i) => chip.setAttribute("aria-selected", String(i === query)));
}

/** The tokens of what is being typed, before it is read. */
export async function previewTokens(page, input) {
  const known = () => !input.text.trim() || input.text === page.known?.text;
  if (!page.source.live || known()) return;
  const { source } = await page.source.tokens(input);
  if (known()) return;
  at("tokens").replaceChildren(...source.slice(0, mostChips).map((token) => make("span", { class: token.special ? "chip special" : "chip" }, shortened(token.text, 24) || "␠")));
}
