// Without a word: strike a word out and see the prediction without it; blank-out scores beside attention.

import { changesNow, toggleChange } from "./changes.js";
import { inkOnSigned, signedShade } from "./colours.js";
import { make } from "./dom.js";
import { strong } from "./explain.js";
import { predictedAt } from "./outcome.js";
import { exactly, percent, signed } from "./numbers.js";
import { box, label, picture, widthOf } from "./svg.js";
import { spelled } from "./words.js";

export const withoutView = {
  name: "without",
  title: "Without a word",
  fits: (reading) => ["next", "class", "masked"].includes(reading.answer) && !reading.patches && !reading.target.length,
  lacks: "This view is for models that continue, classify or fill in one text.",
  controls: [],
  redraw: [],

  async show(root, page) {
    // The whole text; with words struck out, `page.reading` is the rest.
    const whole = page.base ?? page.reading;
    const tokens = whole.source;
    const struck = (i) => changesNow().includes(`strike:${i}`);
    const position = whole.answer === "masked" ? predictedAt({ ...page, reading: whole, predicting: () => whole.source }) : undefined;
    const found = await page.source.blankOut(whole, position, page.signal);
    const most = Math.max(1e-12, ...found.changes.map((change) => Math.abs(change ?? 0)));
    const button = (token, i) => {
      const share = (found.changes[i] ?? 0) / most;
      const says = found.changes[i] === null ? `${spelled(token.text)}: not struck out, ${token.special ? "because it is a special token" : "because the prediction is made at it"}` : `${spelled(token.text)}: without it ${signed(-found.changes[i] * 100)} percentage points`;
      return make("button", {
        type: "button", id: `strike-${i}`, title: says, "aria-label": says, "aria-pressed": String(struck(i)), disabled: !page.source.live || found.changes[i] === null, class: struck(i) ? "struck" : "",
        style: `background: ${signedShade(share * 0.8)}; color: ${inkOnSigned(share * 0.8)}`, click: () => toggleChange(`strike:${i}`), "data-change": found.changes[i] === null ? "" : exactly(found.changes[i]),
      }, spelled(token.text));
    };
    const order = Array.from(tokens.keys()).filter((i) => found.changes[i] !== null).sort((a, b) => Math.abs(found.changes[b]) - Math.abs(found.changes[a])).slice(0, 14);
    const names = { attention: "attention, last layer", rollout: "rollout", "gradient-attention": "gradient × attention" };
    const tops = found.methods.map(({ values }) => Math.max(1e-12, ...values.map(Math.abs)));
    const row = (i) => make("tr", {}, make("td", {}, spelled(tokens[i].text)), make("td", {}, String(i)), make("td", {}, `${signed(found.changes[i] * 100)} pp`),
      found.methods.map(({ values }, m) => make("td", { class: "bar-cell", title: exactly(values[i]) }, make("span", { class: "meter", style: `width: ${(Math.abs(values[i]) / tops[m]) * 100}%` }))));
    root.append(
      make("p", {}, "The prediction for the whole text is ", make("b", { id: "whole-answer" }, `“${spelled(found.answer)}”`), ". Click a word to read the text without it; the colour shows how much of the probability its removal takes away. ", this.kept(tokens, found)),
      make("div", { class: "strike", id: "strike" }, tokens.map(button)),
      make("h2", {}, "Blank-out beside attention"),
      make("p", { class: "muted" }, "Trust is the rank correlation with blank-out over the words of this text: 1 is the same order, 0 no correlation."),
      make("div", { class: "scroll" }, make("table", { id: "blank-out" },
        make("thead", {}, make("tr", {}, ["word", "position", "blank-out"].map((name) => make("th", { scope: "col" }, name)), found.methods.map(({ name }) => make("th", { scope: "col", class: "trust" }, names[name] ?? name))),
          found.methods.length ? make("tr", {}, make("th", { scope: "row" }, "trust"), make("th", {}), make("th", {}), found.methods.map(({ agreement }) => make("th", { class: "trust" }, agreement === null ? "–" : agreement.toFixed(2).replace("-", "−")))) : null),
        make("tbody", {}, order.map(row)))));
    const trusted = found.methods.filter(({ agreement }) => agreement !== null).sort((a, b) => b.agreement - a.agreement)[0];
    return {
      explain: () => order.length && [strong(`“${spelled(tokens[order[0]].text)}” matters most`), `: without it “${spelled(found.answer)}” ${found.changes[order[0]] < 0 ? "gains" : "loses"} ${Math.abs(found.changes[order[0]] * 100).toFixed(1)} percentage points.`, trusted ? ` Of the other methods, ${names[trusted.name] ?? trusted.name} agrees best with that over all words: ${trusted.agreement.toFixed(2).replace("-", "−")}.` : ""],
      svg: () => this.svg(tokens, found, most),
      csv: () => [["position", "token", "blank-out", ...found.methods.map(({ name }) => name)], ...tokens.map((token, i) => [i, token.text, found.changes[i] === null ? "" : exactly(found.changes[i]), ...found.methods.map(({ values }) => exactly(values[i]))])],
    };
  },

  /** Which words cannot be struck out. */
  kept(tokens, found) {
    const word = tokens.find((token, i) => found.changes[i] === null && !token.special);
    return word ? `The prediction is made at “${spelled(word.text)}”, which stays.` : "";
  },

  svg(tokens, found, most) {
    let [x, y] = [0, 34];
    const all = picture(680, 60, `Blank-out of each word for ${found.answer}`, label(`What each word's removal takes away from “${spelled(found.answer)}” (at most ${percent(most)})`, 0, 10, { size: 13, weight: 600 }));
    tokens.forEach((token, i) => {
      const wide = widthOf(spelled(token.text), 14) + 10;
      if (x > 0 && x + wide > 680) [x, y] = [0, y + 28];
      const share = ((found.changes[i] ?? 0) / most) * 0.8;
      all.append(box(x, y, wide, 23, signedShade(share), found.changes[i] === null ? "" : exactly(found.changes[i]), { rx: 3 }), label(spelled(token.text), x + 5, y + 12, { size: 14, colour: inkOnSigned(share) }));
      x += wide + 3;
    });
    all.setAttribute("height", y + 30);
    all.setAttribute("viewBox", `0 0 680 ${y + 30}`);
    return all;
  },
};
