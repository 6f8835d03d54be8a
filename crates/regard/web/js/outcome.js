// The prediction before and after changes inside the model, side by side.

import { make } from "./dom.js";
import { softmax, largest } from "./maths.js";
import { exactly, percent, signed } from "./numbers.js";
import { shortened, spelled } from "./words.js";

const listedOutcomes = 8;

/** The position of the mask token in a masked model's text; −1 if there is none. */
export const maskOf = (page) => page.predicting().findIndex((token) => token.special && /mask/i.test(token.text));

/** The position of the prediction: the last one or, in masked models, the mask token or else the chosen token. */
export function predictedAt(page) {
  const tokens = page.predicting();
  if (page.reading.answer !== "masked") return tokens.length - 1;
  const mask = maskOf(page);
  return mask >= 0 ? mask : Math.min(page.query(), tokens.length - 1);
}

/** Labels, scores and probabilities of a reading's prediction. */
async function predicted(page, reading, signal) {
  if (reading.answer === "class") {
    const { labels, scores, probabilities } = await page.source.classes(reading, signal);
    return { labels: new Map(labels.map((label, i) => [i, label])), scores, probabilities };
  }
  const position = reading.answer === "masked" ? predictedAt(page) : undefined;
  const { best, scores } = await page.source.next(reading, { position }, signal);
  return { labels: new Map(best.map(({ id, text }) => [id, spelled(text)])), scores, probabilities: softmax(scores) };
}

/** A table of the predictions before and after, with the differences. */
export async function outcome(page, signal) {
  if (!["next", "class", "masked"].includes(page.reading.answer)) {
    return make("p", { class: "muted" }, "This model has no output head: only its attention maps change.");
  }
  const [before, after] = await Promise.all([page.base, page.reading].map((reading) => predicted(page, reading, signal)));
  const top = [before, after].flatMap(({ probabilities }) => largest(probabilities, listedOutcomes / 2 + 1));
  const order = [...new Set(top)].sort((a, b) => Math.max(before.probabilities[b], after.probabilities[b]) - Math.max(before.probabilities[a], after.probabilities[a])).slice(0, listedOutcomes);
  const name = (id) => before.labels.get(id) ?? after.labels.get(id) ?? `#${id}`;
  const most = Math.max(1e-12, ...order.flatMap((id) => [before.probabilities[id], after.probabilities[id]]));
  const meter = (value, kind) => make("span", { class: `meter ${kind}`, style: `width: ${(value / most) * 100}%` });
  const row = (id) => {
    const [p, q] = [before.probabilities[id], after.probabilities[id]];
    const difference = after.scores[id] - before.scores[id];
    return make("tr", { "data-token": id, "data-before": exactly(p), "data-after": exactly(q), "data-difference": exactly(difference) },
      make("td", { title: name(id) }, shortened(name(id), 18)),
      make("td", { class: "bar-cell" }, meter(p, "before"), meter(q, "after")),
      make("td", {}, percent(p)), make("td", {}, percent(q)), make("td", { class: q > p ? "up" : "down" }, `${signed((q - p) * 100)} pp`), make("td", {}, signed(difference)));
  };
  const [first, last] = [before, after].map(({ probabilities }) => largest(probabilities, 1)[0]);
  const what = { next: "next word", class: "class", masked: "masked word" }[page.reading.answer];
  const summary = first === last
    ? ["still ", make("b", {}, `“${name(first)}”`), `, ${percent(before.probabilities[first])} before, ${percent(after.probabilities[first])} after.`]
    : [make("b", {}, `“${name(first)}”`), ` ${percent(before.probabilities[first])} becomes `, make("b", {}, `“${name(last)}”`), ` ${percent(after.probabilities[last])}.`];
  return make("div", { class: "outcome", id: "outcome" },
    make("p", {}, `The ${what}: `, summary),
    make("div", { class: "scroll" }, make("table", {},
      make("thead", {}, make("tr", {}, [what, "", "before", "after", "change", "logit"].map((title) => make("th", { scope: "col" }, title)))),
      make("tbody", {}, order.map(row)))));
}
