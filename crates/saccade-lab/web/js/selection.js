// One selection, shared by all views and kept in the address bar.

const usual = {
  model: "", text: "", second: "", view: "heads", group: "", layer: 0, head: 0, query: -1, key: -1, scale: "raw",
  merge: false, hide: false, sort: "place", lines: "", temperature: 1, k: 0, p: 1, rotated: true,
};

/** What is selected now. Change it with `select`. */
export const chosen = { ...usual };

const listeners = [];

/** Calls a function after every change, with the names of what has changed. */
export function whenSelected(listener) {
  listeners.push(listener);
}

/** Changes some of the selection. */
export function select(part) {
  const changed = Object.keys(part).filter((name) => chosen[name] !== part[name]);
  if (changed.length === 0) return;
  Object.assign(chosen, part);
  history.replaceState(null, "", linkOf());
  for (const listener of listeners) listener(changed);
}

/** The address of what is seen. */
export function linkOf() {
  const hash = new URLSearchParams();
  for (const [name, value] of Object.entries(chosen)) {
    if (value !== usual[name]) hash.set(name, value === true ? "1" : String(value));
  }
  return `${location.pathname}${location.search}#${hash}`;
}

/** Takes the selection from the address bar. */
export function selectFromAddress() {
  const hash = new URLSearchParams(location.hash.slice(1));
  const part = {};
  for (const [name, value] of Object.entries(usual)) {
    const text = hash.get(name);
    if (text === null) part[name] = value;
    else if (typeof value === "boolean") part[name] = text === "1";
    else if (typeof value === "number") part[name] = Number.isFinite(Number(text)) ? Number(text) : value;
    else part[name] = text;
  }
  Object.assign(chosen, part);
}
