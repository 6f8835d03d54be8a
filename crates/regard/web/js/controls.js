// The row of controls above a view, and the strip of tokens.

import { at, make } from "./dom.js";
import { keepingFocus } from "./roving.js";
import { chosen, select } from "./selection.js";
import { groupName, shortened, spelled } from "./words.js";

const scales = { raw: "raw", log: "logarithmic", rest: "without first token", norms: "by value norms" };
const mostChips = 400;

function choice(name, options, value, change) {
  const list = make("select", { id: `choose-${name}`, "aria-label": name, change: () => change(list.value) }, options.map(([key, text]) => make("option", { value: key, selected: key === value }, text)));
  return make("label", {}, name, list);
}

function stepper(name, value, count, change) {
  const step = (by) => change((value + by + count) % count);
  return make("span", { class: "steps", role: "group", "aria-label": name },
    make("button", { type: "button", id: `previous-${name}`, click: () => step(-1), "aria-label": `previous ${name}` }, "‹"),
    make("output", { id: `at-${name}` }, `${name} ${value}`),
    make("button", { type: "button", id: `next-${name}`, click: () => step(1), "aria-label": `next ${name}` }, "›"));
}

function toggle(text, name) {
  return make("button", { type: "button", id: `toggle-${name}`, "aria-pressed": String(chosen[name]), click: () => select({ [name]: !chosen[name] }) }, text);
}

/** Shows the controls of a view. */
export function showControls(view, page) {
  const root = at("bar");
  keepingFocus(root, () => root.replaceChildren(...(page.reading && view.fits(page.reading) ? controlsOf(view, page) : [])));
}

function controlsOf(view, page) {
  const controls = [];
  const wants = (name) => view.controls.includes(name);
  const groups = page.reading.groups.filter((group) => group !== "cross" || !wants("through"));
  if (wants("group") && groups.length > 1) {
    controls.push(choice("attention", groups.map((group) => [group, groupName(group)]), groups.includes(page.group()) ? page.group() : "decoder", (group) => select({ group, layer: 0, head: 0, query: -1, key: -1 })));
  }
  if (wants("head")) {
    const sites = page.sites();
    controls.push(
      stepper("layer", page.site().layer, sites.length, (layer) => select({ layer, head: Math.min(page.head(), sites[layer].heads - 1) })),
      stepper("head", page.head(), page.site().heads, (head) => select({ head, lines: "" })));
  }
  if (wants("sort")) {
    const measures = page.measures?.names ?? [];
    const options = [["place", "by layer and head"], ...measures.flatMap((name) => [[name, `${name}, most first`], [`-${name}`, `${name}, least first`]])];
    controls.push(choice("order", options, chosen.sort, (sort) => select({ sort })));
  }
  if (wants("scale")) controls.push(choice("scale", Object.entries(scales).filter(([scale]) => scale !== "norms" || page.site().projected), chosen.scale, (scale) => select({ scale })));
  if (wants("lens") && chosen.token >= 0) {
    const ways = [["top", "top token"], ["chosen", "probability of the followed token"], ["rank", "rank of the followed token"]];
    controls.push(choice("colour", ways, chosen.by, (by) => select({ by })));
  }
  if (wants("rotated") && page.site().rotary) controls.push(choice("rotation", [["1", "after"], ["", "before"]], chosen.rotated ? "1" : "", (rotated) => select({ rotated: rotated === "1" })));
  // Over a picture nothing is merged or hidden.
  if (wants("shown") && !(page.reading.patches && ["flow", "classes"].includes(view.name))) {
    const tokens = [...page.reading.source, ...page.reading.target];
    const pieces = tokens.some((token, i) => i > 0 && !token.special && token.word === tokens[i - 1].word);
    if (pieces) controls.push(toggle("whole words", "merge"));
    if (tokens.some((token) => token.special)) controls.push(toggle("hide special tokens", "hide"));
  }
  return controls;
}

/** Shows the tokens, one of which is the query. */
export function showTokens(page) {
  const root = at("tokens");
  const tokens = page.reading ? page.asking() : [];
  const chip = (token, i) => make("button", {
    type: "button", role: "option", id: `token-${i}`, class: classOf(token, tokens[i - 1]), "data-token": i, title: `token ${i}, id ${token.id}${token.unknown ? `: not in the vocabulary, the model reads ${token.unknown}` : ""}`, click: () => select({ query: i }),
  }, written(token));
  keepingFocus(root, () => {
    root.replaceChildren(...tokens.slice(0, mostChips).map(chip));
    if (tokens.length > mostChips) root.append(make("span", { class: "more" }, `and ${tokens.length - mostChips} more: choose them in the map`));
    markToken(page);
  });
}

/** Marks the query. It is the only Tab stop; arrows choose another token, and the focus follows. */
export function markToken(page) {
  const root = at("tokens");
  const query = page.reading ? page.query() : -1;
  const chips = [...root.querySelectorAll("[data-token]")];
  chips.forEach((chip, i) => {
    chip.setAttribute("aria-selected", String(i === query));
    chip.tabIndex = i === Math.min(query, chips.length - 1) ? 0 : -1;
  });
  const chip = chips[query];
  if (root.contains(document.activeElement)) chip?.focus({ preventScroll: true });
  // In a long text the strip scrolls to the query; the page does not scroll.
  if (chip && root.scrollWidth > root.clientWidth + 4) root.scrollLeft = chip.offsetLeft - root.clientWidth / 2;
  if (chip && (chip.offsetTop < root.scrollTop || chip.offsetTop + chip.offsetHeight > root.scrollTop + root.clientHeight)) root.scrollTop = chip.offsetTop - root.clientHeight / 2;
}

/** A leading space is shown as a dot; the bytes of one character are joined. */
const classOf = (token, before) => [token.special ? "special" : "", token.unknown ? "unknown" : "", token.part_of && before?.part_of && before.word === token.word ? "joined" : ""].filter(Boolean).join(" ");
const written = (token) => (token.text.startsWith(" ") ? [make("i", { class: "space" }, "·"), shortened(spelled(token.text.slice(1)), 24)] : shortened(spelled(token.text), 24));

let previews = 0;

/** Previews the tokens of the typed text before it is submitted; if it is the text read last, shows that one's tokens. */
export async function previewTokens(page, input) {
  if (!page.source.live) return;
  const mine = ++previews;
  const known = page.known?.text === input.text && page.known?.second === input.second && page.known?.model === input.model;
  if (known || !input.text.trim()) return showTokens(page);
  const { source, target } = await page.source.tokens(input);
  if (mine !== previews) return;
  const chip = (token) => make("span", { class: `chip ${classOf(token)}` }, written(token));
  const more = (tokens) => (tokens.length > mostChips ? make("span", { class: "more" }, `and ${tokens.length - mostChips} more`) : "");
  at("tokens").replaceChildren(...source.slice(0, mostChips).map(chip), more(source));
  if (target.length) at("tokens").append(make("span", { class: "more" }, "→"), ...target.slice(0, mostChips).map(chip), more(target));
}

/** Cancels pending previews: the typed text was submitted. */
export function endPreview() {
  previews += 1;
}
