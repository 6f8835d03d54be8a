// Words in a class: a classifier's prediction and the contribution of each word to it.

import { classColour, inkOn, inkOnSigned, shade, signedShade } from "./colours.js";
import { make } from "./dom.js";
import { largest } from "./maths.js";
import { strong } from "./explain.js";
import { brief, exactly, percent } from "./numbers.js";
import { chosen } from "./selection.js";
import { box, label, picture, widthOf } from "./svg.js";
import { axisOf } from "./words.js";

export const classesView = {
  name: "classes",
  title: "Words in a class",
  titleFor: (reading) => (reading.patches ? "Class" : "Words in a class"),
  fits: (reading) => reading.answer === "class",
  lacks: "This model is not a classifier. Sentiment models and other classifiers have this view.",
  controls: ["shown"],
  redraw: ["merge", "hide"],

  async show(root, page) {
    const predicted = await page.source.classes(page.reading, page.signal);
    const places = axisOf(page.reading.source, chosen);
    const words = places.map((place) => place.label);
    // The contributions of a word's pieces are summed.
    const added = (place) => predicted.weights.slice(place.start, place.end).reduce((sum, weight) => sum + weight, 0);
    const found = { ...predicted, weights: predicted.weights.length ? places.map(added) : [] };
    const best = largest(found.probabilities, 1)[0];
    const bars = this.bars(found, best);
    const most = Math.max(1e-12, ...found.weights.map(Math.abs));
    root.append(make("h2", {}, `Predicted: ${found.labels[best]}, ${percent(found.probabilities[best])}`), bars);
    if (found.weights.length) {
      const paint = (weight) => {
        const share = weight / most;
        return found.signed ? `background: ${signedShade(share)}; color: ${inkOnSigned(share)}` : `background: ${shade(share)}; color: ${inkOn(share)}`;
      };
      const order = largest(found.weights.map(Math.abs), 12);
      root.append(
        make("h2", {}, `${found.what[0].toUpperCase()}${found.what.slice(1)}`),
        make("p", { class: "words" }, words.map((word, i) => [make("span", { style: paint(found.weights[i]), title: `${word}: ${exactly(found.weights[i])}` }, word), " "])),
        make("div", { class: "scroll" }, make("table", {},
          make("thead", {}, make("tr", {}, ["word", "position", "weight"].map((name) => make("th", { scope: "col" }, name)))),
          make("tbody", {}, order.map((at) => make("tr", {}, make("td", {}, words[at]), make("td", {}, String(places[at].start)), make("td", {}, exactly(found.weights[at]))))))));
    }
    const top = found.weights.length ? largest(found.weights.map(Math.abs), 1)[0] : -1;
    return {
      explain: () => [strong(`“${found.labels[best]}”`), ` has ${percent(found.probabilities[best])}`, top >= 0 ? `; of ${places.length} words, “${words[top]}” weighs most: ${brief(found.weights[top])}` : "", "."],
      svg: () => this.svg(found, words, best, most),
      csv: () => [["word", "position", "weight"], ...words.map((word, i) => [word, places[i].start, found.weights.length ? exactly(found.weights[i]) : ""])],
    };
  },

  bars(found, best, order = largest(found.probabilities, 10)) {
    const left = Math.max(...order.map((at) => widthOf(found.labels[at], 13))) + 14;
    return picture(left + 420, order.length * 26, `${found.labels[best]} with ${percent(found.probabilities[best])}`, order.map((at, i) => [
      label(found.labels[at], left - 8, i * 26 + 13, { anchor: "end", size: 13 }),
      box(left, i * 26 + 4, Math.max(1, found.probabilities[at] * 320), 18, classColour(at === best ? 0 : 4), exactly(found.probabilities[at]), { rx: 3 }),
      label(percent(found.probabilities[at]), left + found.probabilities[at] * 320 + 8, i * 26 + 13, { size: 12, colour: "muted" }),
    ]));
  },

  svg(found, words, best, most) {
    const bars = this.bars(found, best);
    const top = Number(bars.getAttribute("height")) + 26;
    const all = picture(680, top, `Predicted: ${found.labels[best]}`, [...bars.childNodes].slice(1));
    let [x, y] = [0, top];
    if (found.weights.length) {
      words.forEach((word, i) => {
        const wide = widthOf(word, 14) + 10;
        if (x > 0 && x + wide > 680) [x, y] = [0, y + 28];
        const share = found.weights[i] / most;
        all.append(box(x, y, wide, 23, found.signed ? signedShade(share) : shade(share), exactly(found.weights[i]), { rx: 3 }),
          label(word, x + 5, y + 12, { size: 14, colour: found.signed ? inkOnSigned(share) : inkOn(share) }));
        x += wide + 3;
      });
    }
    all.setAttribute("height", y + 30);
    all.setAttribute("viewBox", `0 0 680 ${y + 30}`);
    return all;
  },
};
