// The whole model: tokens → embeddings → blocks → output. The part that is shown is marked; a click on a part opens it.

import { changeOf, changesNow } from "./changes.js";
import { at, make } from "./dom.js";
import { several } from "./numbers.js";
import { chosen, select } from "./selection.js";

const ofHead = ["head", "why", "lines", "compare", "search"];
const ofAll = ["heads", "flow", "patching"];

/** The part that the open view shows: tokens, depth (0 is the embeddings), layer and head, or the output. */
function shownPart(page) {
  const view = chosen.view;
  if (view === "without") return { tokens: true };
  if (view === "next" || view === "classes") return { output: true };
  if (view === "lens") return { depth: chosen.depth >= 0 ? chosen.depth : page.sites().length };
  if (ofAll.includes(view)) return { all: true };
  return ofHead.includes(view) ? { layer: page.site().layer, head: page.head() } : {};
}

/** What is drawn, for which reading and changes; `marks` says of each part when it is the one that is shown. */
let outline = { reading: null, changes: "", marks: [], stops: [], row: null };

/** Draws the model, or nothing if it has no attention, and marks the part that is shown. */
export function showOverview(page) {
  const root = at("overview");
  const { reading } = page;
  root.hidden = !reading?.sites.length;
  if (root.hidden) return;
  const changes = changesNow().join();
  if (outline.reading !== reading || outline.changes !== changes) {
    const scrolled = outline.row?.scrollLeft ?? 0;
    const held = root.contains(document.activeElement) ? document.activeElement.id : "";
    outline = { reading, changes, ...outlineOf(page) };
    root.replaceChildren(make("summary", {}, "The whole model"), outline.row);
    outline.row.scrollLeft = scrolled;
    if (held) at(held)?.focus({ preventScroll: true });
  }
  markShown(page);
}

/** Marks the part that is shown, makes it the Tab stop, and scrolls to it. */
function markShown(page) {
  const [shown, group] = [shownPart(page), page.group()];
  for (const { element, on, here } of outline.marks) {
    const is = Boolean(on(shown, group));
    if (here) element.classList.toggle("here", is);
    else if (is) element.setAttribute("aria-current", "true");
    else element.removeAttribute("aria-current");
  }
  const { row, stops } = outline;
  const current = stops.find((one) => one.getAttribute("aria-current")) ?? stops[0];
  for (const one of stops) if (one.tabIndex !== (one === current ? 0 : -1)) one.tabIndex = one === current ? 0 : -1;
  // Positions are asked for when the page has been laid out anyway.
  requestAnimationFrame(() => {
    if (!current?.isConnected || row.scrollWidth <= row.clientWidth) return;
    const [box, frame] = [current.getBoundingClientRect(), row.getBoundingClientRect()];
    if (box.left < frame.left || box.right > frame.right) row.scrollLeft += box.left - frame.left - frame.width / 2;
  });
}

function outlineOf(page) {
  const { reading } = page;
  const marks = [];
  const goes = (name) => page.fitsView(name);
  const stage = (id, text, about, on, go) => {
    const element = make("button", { type: "button", id: `model-${id}`, class: "stage", title: about, "aria-label": about, disabled: !go, click: go }, text);
    marks.push({ element, on });
    return element;
  };
  const lens = (depth) => (goes("lens") ? () => select({ view: "lens", depth }) : null);
  const output = goes("classes") ? "classes" : goes("next") ? "next" : null;
  const parts = [stage("tokens", several(reading.source.length, "token"), "The tokens: how the prediction changes without each of them", (shown) => shown.tokens, goes("without") ? () => select({ view: "without" }) : () => select({ view: "lines" }))];
  const own = reading.groups.filter((group) => group !== "cross");
  for (const group of own) {
    const mine = (current) => group === current || (group === "decoder" && current === "cross");
    parts.push(arrow(), stage(`embeddings-${group}`, group === "self" ? "embeddings" : `${group} embeddings`, "The embeddings: the prediction from them alone", (shown, current) => mine(current) && shown.depth === 0, group === "encoder" ? null : lens(0)));
    const sites = reading.sites.filter((site) => site.group === group);
    for (const site of sites) {
      const cross = group === "decoder" ? reading.sites.find((other) => other.group === "cross" && other.layer === site.layer) : null;
      parts.push(arrow(), block(site, cross, marks, { mine, feeds: reading.residual, lens: group === "encoder" ? null : lens(site.layer + 1) }));
    }
  }
  parts.push(arrow(), stage("output", { classes: "classes", next: "logits" }[output] ?? "output", "The output: the prediction", (shown) => shown.output, output ? () => select({ view: output }) : null));
  const row = make("div", { class: "model-row", role: "group", "aria-label": "The whole model" }, parts);
  // One Tab stop; arrows move between stages, blocks and heads.
  const stops = [...row.querySelectorAll("button:not(:disabled)")];
  row.onkeydown = (event) => {
    const by = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
    const from = stops.indexOf(document.activeElement);
    if (!by || from < 0) return;
    stops[Math.min(stops.length - 1, Math.max(0, from + by))].focus();
    event.preventDefault();
    event.stopPropagation();
  };
  return { row, stops, marks };
}

const arrow = () => make("span", { class: "model-arrow", "aria-hidden": "true" }, "→");

/** How many dots are in a row, so that rows are full where that is possible. */
function dotsInRow(heads) {
  if (heads <= 4) return heads;
  const least = Math.ceil(Math.sqrt(heads));
  for (let row = least; row <= 2 * least; row++) if (heads % row === 0) return row;
  return Math.ceil(Math.sqrt(heads * 1.6));
}

/** One layer: a dot for every head, then the feed-forward layer. */
function block(site, cross, marks, { mine, feeds, lens }) {
  const name = site.name.replace(/\.[^.]+$/, "");
  const dots = (one, what) => make("span", { class: "model-heads", style: `--dots: ${dotsInRow(one.heads)}` }, Array.from({ length: one.heads }, (_, head) => {
    const off = changeOf(one, head);
    const says = `${what}head ${one.layer}.${head}${off ? ", switched off" : ""}`;
    const element = make("button", {
      type: "button", class: `dot${off ? " off" : ""}`, id: `model-${one.name}-${head}`, title: says, "aria-label": says, tabindex: -1,
      click: () => select({ group: one.group, layer: one.layer, head, view: ofHead.includes(chosen.view) ? chosen.view : "head" }),
    });
    marks.push({ element, on: (shown, current) => shown.head === head && shown.layer === one.layer && one.group === current });
    return element;
  }));
  const off = changesNow().includes(`off:${name}.ffn`);
  const ffn = make("button", { type: "button", class: `ffn${off ? " off" : ""}`, id: `model-${name}.ffn`, title: `The feed-forward layer: the prediction after layer ${site.layer}`, "aria-label": `after the feed-forward layer ${site.layer}`, disabled: !lens, click: lens }, "feed-forward");
  marks.push({ element: ffn, on: (shown, current) => shown.depth === site.layer + 1 && mine(current) });
  const element = make("div", { class: "model-block" }, make("span", { class: "model-name" }, `layer ${site.layer}`), dots(site, ""), cross ? dots(cross, "cross-attention ") : null, feeds ? ffn : null);
  marks.push({ element, here: true, on: (shown, current) => mine(current) && (shown.all || shown.layer === site.layer) });
  return element;
}
