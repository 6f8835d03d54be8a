// One selection, shared by all views and kept in the address bar.

const defaults = {
  model: "", text: "", second: "", drawn: "", changes: "", view: "heads", group: "", layer: 0, head: 0, query: -1, key: -1, scale: "raw",
  merge: false, hide: false, sort: "place", lines: "", temperature: 1, k: 0, p: 1, rotated: true,
  depth: -1, token: -1, by: "top", named: "", corrupted: "", answer: -1, against: -1, other: "", beside: "", tour: 0, step: -1, method: "rollout", measure: "confidence",
};

const whole = (least) => (value) => Number.isInteger(value) && value >= least;
const between = (least, most) => (value) => value >= least && value <= most;
const oneOf = (...known) => (value) => known.includes(value);
const numbers = (text) => /^(\d{1,9}(,\d{1,9})*)?$/.test(text);

/** Which values a link may have. Links are written by hand and cut off by mail programs: invalid values are ignored. */
const validators = {
  view: (text) => /^[a-z]{1,20}$/.test(text), group: oneOf("", "self", "encoder", "decoder", "cross"),
  scale: oneOf("raw", "log", "rest", "norms"), sort: (text) => /^-?[a-z-]{1,40}$/.test(text), drawn: numbers, lines: numbers,
  changes: (text) => text.length <= 8000 && !/%(?![0-9a-f]{2})/i.test(text), depth: whole(-1), token: whole(-1), by: oneOf("top", "chosen", "rank"), named: (text) => /^[a-z -]{0,40}$/.test(text),
  method: oneOf("rollout", "flow", "gradient"), measure: (text) => /^-?[a-z-]{1,40}$/.test(text),
  answer: whole(-1), against: whole(-1), tour: whole(0), step: whole(-1),
  layer: whole(0), head: whole(0), query: whole(-1), key: whole(-1), temperature: between(0, 3), k: between(0, 100), p: between(0.05, 1),
};

/** The current selection. Change it with `select`. */
export const chosen = { ...defaults };

const listeners = [];

/** Calls a function after every change, with the names of the changed fields. */
export function whenSelected(listener) {
  listeners.push(listener);
}

// Browsers limit how often the address may change, and a slider or a held key would exceed the limit: the first changes
// are written at once, and of a burst only the last.
const mostWrites = 20;
const quietTime = 4000;
const writes = [];
let waiting = 0;

function write(asStep) {
  clearTimeout(waiting);
  waiting = 0;
  writes.push(Date.now());
  // A frame without an address, as in a notebook, has no link to update.
  if (location.protocol === "about:") return;
  history[asStep ? "pushState" : "replaceState"](null, "", linkOf());
}

function writeSoon() {
  while (writes.length && writes[0] < Date.now() - quietTime) writes.shift();
  if (writes.length < mostWrites) return write(false);
  clearTimeout(waiting);
  waiting = setTimeout(write, 200, false);
}

/**
 * Changes part of the selection. A new view or model adds a history entry, so that Back returns to the one before; changes
 * by the page itself (`step: false`) do not.
 */
export function select(part, { step = true } = {}) {
  const changed = Object.keys(part).filter((name) => chosen[name] !== part[name]);
  if (changed.length === 0) return;
  const asStep = step && changed.some((name) => name === "view" || name === "model");
  if (asStep && waiting) write(false);
  Object.assign(chosen, part);
  if (asStep) write(true);
  else writeSoon();
  for (const listener of listeners) listener(changed);
}

/** The link to the current selection. */
export function linkOf() {
  const hash = new URLSearchParams();
  for (const [name, value] of Object.entries(chosen)) {
    if (value !== defaults[name]) hash.set(name, value === true ? "1" : String(value));
  }
  return `${location.pathname}${location.search}#${hash}`;
}

/** Reads the selection from the address bar; invalid values count as absent. */
export function selectFromAddress() {
  const hash = new URLSearchParams(location.hash.slice(1));
  for (const [name, value] of Object.entries(defaults)) {
    const text = hash.getAll(name).at(-1) ?? null;
    const kinds = { boolean: () => text === "1", number: () => (text.trim() === "" ? NaN : Number(text)), string: () => text };
    const found = text === null ? value : kinds[typeof value]();
    chosen[name] = text === null || (validators[name]?.(found) ?? true) ? found : value;
  }
}
