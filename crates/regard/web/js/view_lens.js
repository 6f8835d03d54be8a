// Every layer's answer: the logit lens, position by layer, and the whole distribution of a chosen cell.

import { inkOn, shade } from "./colours.js";
import { make } from "./dom.js";
import { strong } from "./explain.js";
import { largest, softmax } from "./maths.js";
import { counted, exactly, percent } from "./numbers.js";
import { grid } from "./roving.js";
import { chosen, select } from "./selection.js";
import { label, box, picture } from "./svg.js";
import { shortened, spelled } from "./words.js";

const mostColumns = 24;
const listedCandidates = 12;

export const lensView = {
  name: "lens",
  title: "Every layer's answer",
  fits: (reading) => reading.lens > 0,
  lacks: "This model does not predict tokens, so there is no logit lens.",
  controls: ["lens"],
  redraw: ["group", "token", "by"],

  async show(root, page) {
    const tokens = page.predicting();
    const layers = page.reading.lens;
    const columns = Math.max(4, Math.min(mostColumns, tokens.length, Math.floor((root.clientWidth - (root.clientWidth > 900 ? 470 : 110)) / 74)));
    const middle = Math.min(page.position(), tokens.length - 1);
    const from = Math.max(0, Math.min(middle - Math.floor(columns * 0.7), tokens.length - columns));
    const to = Math.min(tokens.length, from + columns);
    const question = chosen.token >= 0 ? { from, to, token: chosen.token } : { from, to };
    const answers = await page.source.lens(page.reading, question, page.signal);
    const rows = Array.from({ length: layers }, (_, i) => layers - 1 - i);
    const name = (layer) => (layer === 0 ? "embeddings" : layer === layers - 1 ? `layer ${layer - 1}, output` : `layer ${layer - 1}`);
    const cell = (layer, column) => answers.cells[layer * (to - from) + column];
    const actual = (column) => tokens[page.reading.answer === "masked" ? from + column : from + column + 1]?.id;
    const inspector = make("div", { class: "inspector" });
    const table = make("table", { class: "lens", id: "lens" },
      make("thead", {}, make("tr", {}, make("th", { scope: "col" }, page.reading.answer === "masked" ? "at" : "after"),
        Array.from({ length: to - from }, (_, c) => make("th", { scope: "col", title: `position ${from + c}` }, shortened(spelled(tokens[from + c].text), 9))))));
    const buttons = [];
    const body = rows.map((layer) => make("tr", {}, make("th", { scope: "row" }, name(layer)),
      Array.from({ length: to - from }, (_, c) => {
        const one = cell(layer, c);
        const share = this.share(one);
        const right = one.id === actual(c);
        const says = `${name(layer)}, position ${from + c}: ${spelled(one.text)} ${percent(one.probability)}${one.rank === null ? "" : `; the chosen token has rank ${one.rank + 1}, ${percent(one.chosen)}`}`;
        const button = make("button", {
          type: "button", id: `lens-${layer}-${from + c}`, title: says, "aria-label": says, "data-probability": exactly(one.probability), "data-id": one.id,
          class: right ? "right" : "", style: `background: ${shade(share)}; color: ${inkOn(share)}`, click: () => select({ query: from + c, depth: layer }),
        }, chosen.by === "rank" && one.rank !== null ? counted(one.rank + 1) : shortened(spelled(one.text), 9));
        buttons.push(button);
        return make("td", {}, button);
      })));
    table.append(make("tbody", {}, body));
    grid(buttons, () => to - from);
    root.append(
      make("p", {}, `Each cell is the token that a layer would predict ${page.reading.answer === "masked" ? "at" : "after"} a position if it were the last layer. `, this.legend(answers)),
      make("div", { class: "two lens-two" }, make("div", { class: "scroll" }, table), inspector));
    if (to - from < tokens.length) root.append(make("p", { class: "muted" }, `Positions ${from} to ${to - 1} of ${tokens.length}: choose another token above to move.`));
    const depth = () => (chosen.depth >= 0 && chosen.depth < layers ? chosen.depth : layers - 1);
    const inspect = async () => {
      const [position, layer] = [Math.min(page.position(), tokens.length - 1), depth()];
      for (const button of buttons) button.setAttribute("aria-pressed", String(button.id === `lens-${layer}-${position}`));
      let found;
      try {
        found = await page.source.next(page.reading, { position, layer }, page.signal);
      } catch (problem) {
        // A standalone file holds the grid, but no distributions.
        if (page.source.live) throw problem;
        return inspector.replaceChildren(make("p", { class: "muted" }, problem.message));
      }
      if (position !== Math.min(page.position(), tokens.length - 1) || layer !== depth()) return;
      this.inspect(inspector, page, found, { position, layer, name: name(layer) });
    };
    await inspect();
    return {
      explain: () => this.inWords(page, layers, { from, to, name, cell }),
      selected: (changed) => {
        const out = page.position() < from || page.position() >= to;
        if (changed.includes("query") && out) return page.again();
        return changed.some((one) => one === "query" || one === "depth") ? inspect().catch(() => {}) : null;
      },
      svg: () => this.svg(page, rows, { from, to, name, cell }),
      csv: () => [["layer", "position", "token", "top token", "id", "probability", "probability of chosen", "rank of chosen"],
        ...rows.flatMap((layer) => Array.from({ length: to - from }, (_, c) => {
          const one = cell(layer, c);
          return [name(layer), from + c, tokens[from + c].text, one.text, one.id, exactly(one.probability), one.chosen === null ? "" : exactly(one.chosen), one.rank === null ? "" : one.rank + 1];
        }))],
    };
  },

  /** The layer from which on the last layer's prediction leads at the chosen position. */
  inWords(page, layers, { from, to, name, cell }) {
    const position = Math.min(page.position(), page.predicting().length - 1);
    if (position < from || position >= to) return null;
    const column = Array.from({ length: layers }, (_, layer) => cell(layer, position - from));
    const last = column.at(-1);
    let since = layers - 1;
    while (since > 0 && column[since - 1].id === last.id) since -= 1;
    const before = since > 0 ? `; before that “${spelled(column[since - 1].text)}” led` : "";
    const leads = since < layers - 1 ? ` leads from ${name(since)} on, ${percent(column[since].probability)} there and ${percent(last.probability)} at the end` : ` leads at the output only, with ${percent(last.probability)}`;
    return [`${page.reading.answer === "masked" ? "At" : "After"} “${spelled(page.predicting()[position].text)}” (${position}) the answer `, strong(`“${spelled(last.text)}”`), `${leads}${before}.`];
  },

  /** How dark a cell is. Ranks are coloured by their logarithm: 1 is darkest, 1,000 and beyond palest. */
  share(one) {
    if (one.rank === null || chosen.by === "top") return one.probability;
    return chosen.by === "rank" ? Math.max(0, 1 - Math.log10(one.rank + 1) / 3) : one.chosen;
  },

  legend(answers) {
    const followed = answers.cells.length > 0 && answers.cells[0].rank !== null;
    const by = followed ? { top: "its probability", chosen: "the probability of the chosen token", rank: "the rank of the chosen token (logarithmic)" }[chosen.by] : "its probability";
    return `Its colour is ${by}; a frame marks the token in the text.`;
  },

  /** The whole distribution of one cell. */
  inspect(root, page, { best, scores }, { position, name }) {
    const shares = softmax(scores);
    const order = largest(shares, listedCandidates);
    const spelt = new Map(best.map(({ id, text }) => [id, spelled(text)]));
    const most = shares[order[0]] || 1;
    const row = (id) => make("tr", { "data-id": id, "data-probability": exactly(shares[id]), "aria-selected": String(id === chosen.token) },
      make("td", {}, make("button", { type: "button", class: "word", id: `follow-${id}`, title: "follow this token through the layers", click: () => select({ token: id === chosen.token ? -1 : id, by: id === chosen.token ? "top" : chosen.by === "top" ? "chosen" : chosen.by }) }, spelt.get(id) ?? `#${id}`)),
      make("td", {}, percent(shares[id])), make("td", { class: "bar-cell" }, make("span", { class: "meter", style: `width: ${(shares[id] / most) * 100}%` })));
    root.replaceChildren(
      make("h2", {}, `${name}, ${page.reading.answer === "masked" ? "at" : "after"} “${spelled(page.predicting()[position].text)}” (${position})`),
      make("div", { class: "scroll" }, make("table", { id: "distribution" }, make("tbody", {}, order.map(row)))),
      make("p", { class: "muted" }, chosen.token >= 0 ? "Choose the marked token again to stop following it." : "Choose a token to follow its probability or rank through the layers."));
  },

  svg(page, rows, { from, to, name, cell }) {
    const [wide, high, left, top] = [66, 24, 110, 70];
    const tokens = page.predicting();
    const all = picture(left + (to - from) * wide, top + rows.length * high, `Every layer's answer, ${page.reading.model}`);
    for (let c = 0; c < to - from; c++) all.append(label(shortened(spelled(tokens[from + c].text), 12), left + (c + 0.5) * wide, top - 8, { size: 11, turned: -40 }));
    rows.forEach((layer, r) => {
      all.append(label(name(layer), left - 8, top + (r + 0.5) * high, { anchor: "end", size: 11 }));
      for (let c = 0; c < to - from; c++) {
        const one = cell(layer, c);
        const share = this.share(one);
        all.append(box(left + c * wide, top + r * high, wide - 1, high - 1, shade(share), `${spelled(one.text)}: ${exactly(one.probability)}`),
          label(shortened(spelled(one.text), 9), left + (c + 0.5) * wide, top + (r + 0.5) * high, { anchor: "middle", size: 11, colour: inkOn(share) }));
      }
    });
    return all;
  },
};
