// The panel of interventions: the changes in effect, those available, and their effect on the prediction.

import { changeInWords, changesNow, setChanges, toggleChange, undoChange } from "./changes.js";
import { at, make } from "./dom.js";
import { outcome } from "./outcome.js";
import { keepingFocus } from "./roving.js";
import { chosen } from "./selection.js";
import { shortened, sidesOf, spelled } from "./words.js";

let stopOutcome = new AbortController();
const typed = { factor: 0.5, text: "" };

/** Switches the chosen head, or the one given, off or on again. */
export function switchHead(page, which) {
  const [site, head] = which ?? [page.site(), page.head()];
  if (site && page.source.live) toggleChange(`zero:${site.name}:${head}`);
}

/** Blocks the chosen query from attending to the chosen key, or unblocks it. */
export function blockPair(page) {
  if (page.site() && chosen.key >= 0 && page.source.live) toggleChange(`block:${page.site().name}:${page.head()}:${page.query()}:${chosen.key}`);
}

/** Redraws the panel. Resolves when the changed prediction is drawn, if there is one. */
export async function showPanel(page) {
  const root = at("changes");
  const wanted = Boolean(page.reading) && (page.source.live ? page.reading.sites.length > 0 || changesNow().length > 0 : page.reading.changes.length > 0);
  root.hidden = !wanted;
  if (!wanted) return root.replaceChildren();
  const list = page.source.live ? changesNow() : page.reading.changes;
  const held = root.querySelector("details")?.open ?? false;
  keepingFocus(root, () => root.replaceChildren(
    list.length ? made(page, list) : "",
    page.source.live && page.site() ? tools(page, held) : ""));
  if (list.length && page.base) await showOutcome(page, root.querySelector("#outcome-place"));
}

async function showOutcome(page, root) {
  stopOutcome.abort();
  stopOutcome = new AbortController();
  const mine = stopOutcome.signal;
  try {
    const table = await outcome(page, mine);
    if (!mine.aborted) root.replaceChildren(table);
  } catch (problem) {
    if (!mine.aborted) root.replaceChildren(make("p", { class: "muted" }, problem.message));
  }
}

/** The changes in effect, each with an undo button. */
function made(page, list) {
  const live = page.source.live;
  const chip = (change, i) => make("span", { class: "change", "data-change": change },
    changeInWords(change, page),
    live ? make("button", { type: "button", id: `undo-${i}`, "aria-label": `Undo: ${changeInWords(change, page)}`, title: "undo", click: () => setChanges(list.filter((_, at) => at !== i)) }, "×") : null);
  return make("div", { class: "made" },
    make("div", { class: "list", role: "group", "aria-label": "Changes inside the model" },
      make("b", {}, "Changed:"), list.map(chip),
      live ? make("button", { type: "button", id: "undo", title: "key u", click: undoChange }, "Undo") : null,
      live && list.length > 1 ? make("button", { type: "button", id: "undo-all", click: () => setChanges([]) }, "Undo all") : null),
    make("div", { id: "outcome-place", class: "busy-line" }));
}

/** The changes that are available for the current selection. */
function tools(page, open) {
  const site = page.site();
  const [head, layer] = [page.head(), site.name.replace(/\.[^.]+$/, "")];
  const [queries, keys] = sidesOf(page.reading, site.group);
  const list = changesNow();
  const button = (change, text, more = {}) => make("button", { type: "button", id: `change-${change.split(":")[0]}-${more.which ?? ""}`, "aria-pressed": String(list.includes(change)), disabled: more.disabled, title: more.title, click: () => toggleChange(change) }, text);
  const key = chosen.key >= 0 && chosen.key < keys.length ? chosen.key : -1;
  const word = (tokens, i) => `“${shortened(spelled(tokens[i]?.text ?? ""), 12)}”`;
  const pair = key >= 0 ? `Block ${word(queries, page.query())} → ${word(keys, key)}` : "Block a pair: choose a key first";
  const residual = `${layer}.residual.after`;
  const factor = make("input", { type: "number", id: "change-factor", step: "0.1", min: -100, max: 100, value: typed.factor, "aria-label": "factor", input: () => { typed.factor = Number(factor.value) || 0; } });
  const text = make("input", { type: "text", id: "change-text", value: typed.text, placeholder: "another text", "aria-label": "text to steer toward", input: () => { typed.text = text.value; } });
  const steer = () => (text.value.trim() ? toggleChange(`steer:${residual}:*:${Number(factor.value) || 0}:${text.value.trim()}`) : text.focus());
  return make("details", { class: "tools", open: open || null },
    make("summary", {}, list.length ? "Change more" : "Interventions: switch heads off, block pairs, steer, and see what changes"),
    make("div", { class: "chips" },
      button(`zero:${site.name}:${head}`, `Head ${site.layer}.${head} off`, { title: "key x" }),
      button(`mean:${site.name}:${head}`, `Head ${site.layer}.${head} to its mean`, { title: "its mean over the text, instead of zero" }),
      button(`block:${site.name}:${head}:${page.query()}:${key}`, pair, { disabled: key < 0, title: "key b: the weight goes to the other keys" }),
      button(`off:${site.name}`, `Attention of layer ${site.layer} off`, { which: "attention" }),
      page.reading.residual ? button(`off:${layer}.ffn`, `Feed-forward of layer ${site.layer} off`, { which: "ffn" }) : ""),
    !page.reading.residual ? "" : make("div", { class: "chips fields" },
      make("span", {}, `Residual stream after layer ${site.layer}:`), make("label", {}, "factor", factor),
      make("button", { type: "button", id: "change-scale", click: () => toggleChange(`scale:${residual}:*:${Number(factor.value) || 0}`) }, "Scale"),
      page.reading.patches ? "" : [text, make("button", { type: "button", id: "change-steer", title: "adds factor × the difference between that text's residual stream and this one's, where each is continued", click: steer }, "Steer")]));
}
