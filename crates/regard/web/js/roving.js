// Roving tab index: a list is one Tab stop and arrows move within it, so that hundreds of words are not hundreds of stops.

/** Makes elements such a list, with the Tab stop at `start`. Up, Down, Home and End move the focus. */
export function roving(elements, start = 0) {
  const stop = (at) => elements.forEach((element, i) => element.setAttribute("tabindex", i === at ? 0 : -1));
  stop(Math.min(Math.max(0, start), elements.length - 1));
  elements.forEach((element, i) => {
    element.addEventListener("focus", () => stop(i));
    element.addEventListener("keydown", (event) => {
      const last = elements.length - 1;
      const to = { ArrowUp: Math.max(0, i - 1), ArrowDown: Math.min(last, i + 1), Home: 0, End: last }[event.key];
      if (to === undefined) return;
      elements[to].focus();
      event.preventDefault();
      event.stopPropagation();
    });
  });
}

/** The same in two dimensions: one Tab stop; arrows move by cell, and by row of so many columns. */
export function grid(elements, columns, start = 0) {
  const stop = (at) => elements.forEach((element, i) => (element.tabIndex = i === at ? 0 : -1));
  const last = elements.length - 1;
  stop(Math.min(Math.max(0, start), last));
  elements.forEach((element, i) => {
    element.onfocus = () => stop(i);
    element.onkeydown = (event) => {
      const to = { ArrowLeft: i - 1, ArrowRight: i + 1, ArrowUp: i - columns(), ArrowDown: i + columns(), Home: 0, End: last }[event.key];
      if (to === undefined) return;
      if (to >= 0 && to <= last) elements[to].focus();
      event.preventDefault();
      event.stopPropagation();
    };
  });
}

/** The number of columns: how many elements are in the first row. */
export function columnsOf(elements) {
  const top = elements[0]?.getBoundingClientRect().top;
  const below = elements.findIndex((element) => element.getBoundingClientRect().top > top + 4);
  return below < 0 ? elements.length : below;
}

/** The attributes that make a drawn element act as a button. */
export function pickable(id, name, act) {
  const key = (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    act();
  };
  return { id, class: "pick", role: "button", tabindex: -1, "aria-label": name, click: act, keydown: key };
}

/** Calls a function that replaces elements, and restores the focus to the one with the same id. */
export async function keepingFocus(root, replace) {
  const held = root.contains(document.activeElement) ? document.activeElement.id : "";
  const result = await replace();
  const lost = !document.activeElement || document.activeElement === document.body;
  if (held && lost) document.getElementById(held)?.focus({ preventScroll: true });
  return result;
}
