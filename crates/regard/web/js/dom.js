// Builds an element in one line instead of five.

/** An element with attributes and children. Functions become listeners; false and null leave an attribute out. */
export function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same in SVG. */
export function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

/** The element with an id. */
export const at = (id) => document.getElementById(id);

/** Debounces a function: it is called once no call has come for so many milliseconds. */
export function settled(milliseconds, work) {
  let timer = 0;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...args), milliseconds);
  };
}

/** Resolves when a promise does, or after so many milliseconds. */
export const within = (milliseconds, promise) => Promise.race([promise, new Promise((done) => setTimeout(done, milliseconds))]);

/** Resolves after the next frame is drawn; a page in the background draws none. */
export const nextFrame = () => (document.hidden ? Promise.resolve() : new Promise((done) => requestAnimationFrame(() => setTimeout(done))));
