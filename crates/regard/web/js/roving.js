// A list in which Tab stops once and arrows move: hundreds of words must not be hundreds of stops.

/** Makes elements such a list. Tab stops at the one given, arrows up and down, Home and End move the focus. */
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

/** The same in two dimensions: Tab stops once, arrows move by cells and rows of so many columns. */
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

/** How many elements stand beside the first one. */
export function columnsOf(elements) {
  const top = elements[0]?.getBoundingClientRect().top;
  const below = elements.findIndex((element) => element.getBoundingClientRect().top > top + 4);
  return below < 0 ? elements.length : below;
}

/** The attributes of something drawn that can be chosen like a button. */
export function pickable(id, name, act) {
  const key = (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    act();
  };
  return { id, class: "pick", role: "button", tabindex: -1, "aria-label": name, click: act, keydown: key };
}

/** Does what replaces elements, and gives the focus to the one with the same id again. */
export async function keepingFocus(root, replace) {
  const held = root.contains(document.activeElement) ? document.activeElement.id : "";
  const result = await replace();
  const lost = !document.activeElement || document.activeElement === document.body;
  if (held && lost) document.getElementById(held)?.focus({ preventScroll: true });
  return result;
}
