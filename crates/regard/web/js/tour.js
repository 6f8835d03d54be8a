// A guided tour from text to next word, made of the page's own views: each step is a selection, a sentence or two, a highlight.

import { at, make } from "./dom.js";
import { chosen, select } from "./selection.js";

const steps = [
  { view: "heads", spot: "#tokens", text: "A model reads tokens, not words: a dot marks a token that begins with a space. Click a token to make it the query, the token whose attention is shown." },
  { view: "heads", spot: "#view .heads", text: "Every small map is one attention head. Rows are queries, columns are keys, and a strong colour is a large weight. The upper half is empty: a token cannot attend to later ones." },
  { view: "heads", spot: "#names", text: "Some heads have a function that can be tested, such as attending to the previous token. A head is named if a measure is far above that of the same model untrained." },
  { view: "head", spot: "#view .map", text: "One head, enlarged. Each row sums to 1: it shows how the head divides its attention. The table lists the exact weights of the chosen query." },
  { view: "why", spot: "#view svg", text: "Where a weight comes from: the query is compared with every key, dimension by dimension. The products are added up, scaled, and turned into weights by a softmax." },
  { view: "why", spot: "#split-score, #score-parts", text: "One level deeper: the query and the key are sums of what earlier heads and layers wrote. The score is exactly a sum over pairs of these. Press the button to see the largest." },
  { view: "lines", spot: "#view svg", text: "The same weights as lines. Point at a word on the left to see what it attends to, or click it to keep its lines." },
  { view: "flow", spot: "#view svg", text: "Attention through all layers: rollout multiplies the weights, so that each row shows which words have contributed to the chosen one so far." },
  { view: "lens", spot: "#lens", text: "The logit lens: what every layer would predict if it were the last one. Read a column from the bottom: the prediction forms layer by layer." },
  { view: "next", spot: "#view svg", text: "The last layer's scores become probabilities. Temperature, top-k and top-p shape them before one token is sampled. Click a bar to continue with it." },
  { view: "heads", spot: "#changes", text: "Does a head matter? Switch it off (key x) and compare the next word before and after. Undo with u. The link in the address bar keeps everything you did." },
];

/** How many steps there are. */
export const tourLength = steps.length;

/** Shows the step that the selection names, or nothing. */
export function showTour(page) {
  const root = at("tour");
  const number = Math.min(chosen.tour, steps.length);
  root.hidden = number < 1 || !page.reading;
  if (root.hidden) {
    root.replaceChildren();
    return spotTour();
  }
  const { text } = steps[number - 1];
  const go = (to) => make("button", { type: "button", id: to > number ? "tour-next" : "tour-back", class: to > number ? "strong" : "", disabled: to < 1, click: () => startTour(to, page) }, to > number ? (to > steps.length ? "Finish" : "Next") : "Back");
  root.replaceChildren(
    make("p", {}, make("b", {}, `${number} of ${steps.length} `), text),
    make("div", { class: "exports" }, go(number - 1), go(number + 1), make("button", { type: "button", id: "tour-end", "aria-label": "End the tour", click: () => select({ tour: 0 }) }, "×")));
  spotTour();
}

/** Highlights the element of the step once it exists; called again when a view is redrawn. */
export function spotTour(tries = 40) {
  for (const old of document.querySelectorAll(".spot")) old.classList.remove("spot");
  const step = steps[chosen.tour - 1];
  if (!step) return;
  const found = document.querySelector(step.spot);
  if (!found) {
    if (tries > 0) setTimeout(spotTour, 150, tries - 1);
    return;
  }
  found.classList.add("spot");
  const box = found.getBoundingClientRect();
  if (box.top < 0 || box.top > innerHeight * 0.55) scrollTo({ top: scrollY + box.top - 90, behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
}

/** Goes to a step; skips views that do not apply to this model. */
export function startTour(number, page) {
  const forward = number >= chosen.tour;
  let to = number;
  while (to >= 1 && to <= steps.length && !page.fitsView(steps[to - 1].view)) to += forward ? 1 : -1;
  if (to < 1 || to > steps.length) return select({ tour: 0 });
  select({ tour: to, view: steps[to - 1].view });
}
