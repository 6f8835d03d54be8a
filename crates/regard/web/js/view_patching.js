// Patching: a clean and a corrupted prompt, and how much of the clean prediction each layer and position, or each head, restores.

import { inkOnSigned, signedShade } from "./colours.js";
import { make } from "./dom.js";
import { strong } from "./explain.js";
import { largest } from "./maths.js";
import { brief, exactly, percent } from "./numbers.js";
import { grid } from "./roving.js";
import { chosen, select } from "./selection.js";
import { box, label, picture } from "./svg.js";
import { shortened, spelled } from "./words.js";

export const patchingView = {
  name: "patching",
  title: "Patching",
  fits: (reading) => ["next", "class"].includes(reading.answer) && !reading.patches && !reading.target.length && reading.residual,
  lacks: "Patching is for transformers that continue or classify one text.",
  controls: [],
  redraw: ["corrupted", "answer", "against"],

  async show(root, page) {
    const field = make("textarea", { id: "corrupted", rows: 1, spellcheck: "false", "aria-label": "corrupted prompt" });
    field.value = chosen.corrupted;
    const run = () => select({ corrupted: field.value.trim(), answer: -1, against: -1 });
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey) return;
      event.preventDefault();
      run();
    });
    const form = make("div", { class: "ask patch-form" }, make("label", { class: "field grow" }, "Corrupted prompt: the text above with the fact changed and the same number of tokens", field),
      make("button", { type: "button", id: "patch", disabled: !page.source.live, click: run }, "Patch"));
    const results = make("div", {});
    root.append(make("p", {}, "The text above is the clean prompt. The corrupted one is run with one activation of the clean run patched in at a time; each cell shows how much of the clean prediction that restores, in per cent."), form, results);
    if (!page.source.live) results.append(make("p", { class: "muted" }, "A saved page holds no model: it cannot patch."));
    else if (chosen.corrupted) return this.run(results, page);
    return {};
  },

  async run(root, page) {
    const request = { model: page.reading.model, clean: page.known.text, corrupted: chosen.corrupted };
    if (chosen.answer >= 0) request.answer = chosen.answer;
    if (chosen.against >= 0) request.against = chosen.against;
    let both;
    try {
      both = await page.source.patch(request, page.signal);
    } catch (problem) {
      if (problem.name === "AbortError") throw problem;
      root.replaceChildren(make("p", { class: "problem", id: "no-patching" }, problem.message));
      return {};
    }
    Object.assign(request, { answer: both.answer, against: both.against });
    const names = await this.candidates(page, both);
    const name = (id) => names.get(id) ?? `#${id}`;
    const pick = (what, value) => {
      const list = make("select", { id: `patch-${what}`, change: () => select({ [what]: Number(list.value) }) }, [...names].map(([id, text]) => make("option", { value: id, selected: id === value }, text)));
      return make("label", { class: "field" }, what === "answer" ? "answer" : "alternative", list);
    };
    const inspector = make("p", { id: "patched-cell", "aria-live": "polite" }, "Choose a cell to inspect it.");
    const tables = [make("table", { class: "lens patch", id: "patch-residual" }), make("table", { class: "lens patch", id: "patch-heads" })];
    root.replaceChildren(
      make("div", { class: "patch-answers" }, pick("answer", both.answer), pick("against", both.against),
        make("p", {}, `logit of ${name(both.answer)} − ${name(both.against)}: `, make("b", {}, brief(both.clean_logit)), " clean, ", make("b", {}, brief(both.corrupted_logit)), " corrupted")),
      make("h2", {}, "Residual stream: layer × position"), make("div", { class: "scroll" }, tables[0]), inspector,
      make("h2", {}, "Heads: layer × head"), make("div", { class: "scroll" }, tables[1]));
    const columns = [both.clean.map((token, i) => (token.id === both.corrupted[i].id ? spelled(token.text) : `${spelled(token.text)} / ${spelled(both.corrupted[i].text)}`)), Array.from({ length: Math.max(...both.heads) }, (_, head) => `head ${head}`)];
    const rows = [[], []];
    for (const heads of [false, true]) {
      const [table, labels, values] = [tables[Number(heads)], columns[Number(heads)], rows[Number(heads)]];
      const body = make("tbody", {});
      table.append(make("thead", {}, make("tr", {}, make("th", {}), labels.map((text, i) => make("th", { scope: "col", title: `${i}`, class: !heads && both.clean[i].id !== both.corrupted[i].id ? "differs" : "" }, shortened(text, 16))))), body);
      const buttons = [];
      for (let layer = 0; layer < both.layers; layer++) {
        const { restored } = await page.source.patch({ ...request, layer, heads }, page.signal);
        values.push(restored);
        body.prepend(make("tr", {}, make("th", { scope: "row" }, `layer ${layer}`), restored.map((value, i) => {
          const says = heads ? `head ${layer}.${i} restores ${percentOf(value)}` : `the residual stream before layer ${layer} at “${columns[0][i]}” (${i}) restores ${percentOf(value)}`;
          const open = () => {
            inspector.replaceChildren(`${says[0].toUpperCase()}${says.slice(1)} of the difference. `, make("button", { type: "button", click: () => select({ layer, ...(heads ? { head: i } : { query: i }), view: heads ? "head" : "heads" }) }, heads ? "open this head" : "see the heads"));
          };
          const button = make("button", { type: "button", title: says, "aria-label": says, "data-restored": value === null ? "" : exactly(value), id: `patch-${heads ? "head" : "at"}-${layer}-${i}`, style: `background: ${signedShade((value ?? 0) * 0.9)}; color: ${inkOnSigned((value ?? 0) * 0.9)}`, click: open }, inPercent(value));
          buttons.push(button);
          return make("td", {}, button);
        })));
      }
      grid([...body.querySelectorAll("button")], () => labels.length);
    }
    const best = (grids) => grids.flatMap((row, layer) => row.map((value, i) => ({ value: value ?? -Infinity, layer, i }))).reduce((a, b) => (b.value > a.value ? b : a));
    return {
      explain: () => {
        const [at, head] = [best(rows[0].slice(1)), best(rows[1])];
        return [rows[0].length > 1 ? [strong(`“${columns[0][at.i]}” before layer ${at.layer + 1}`), ` restores ${percentOf(at.value)}; `] : "", "of the heads, ", strong(`head ${head.layer}.${head.i}`), ` restores most: ${percentOf(head.value)}.`];
      },
      svg: () => this.svg(rows[0], columns[0], `${name(both.answer)} − ${name(both.against)}`),
      csv: () => [["what", "layer", "place", "restored"], ...rows.flatMap((grids, g) => grids.flatMap((row, layer) => row.map((value, i) => [g ? "head" : "residual", layer, columns[g][i], value === null ? "" : exactly(value)])))],
    };
  },

  /** The most likely tokens or classes of both prompts, by id. */
  async candidates(page, both) {
    const names = new Map();
    const other = await page.source.read({ model: page.reading.model, text: chosen.corrupted, second: "" }, page.signal);
    for (const reading of [page.base ?? page.reading, other]) {
      if (reading.answer === "class") {
        const { labels } = await page.source.classes(reading, page.signal);
        labels.forEach((text, i) => names.set(i, text));
        continue;
      }
      const { best, scores } = await page.source.next(reading, {}, page.signal);
      const spelt = new Map(best.map(({ id, text }) => [id, spelled(text)]));
      for (const id of largest(scores, 10)) names.set(id, spelt.get(id));
      for (const id of [both.answer, both.against]) if (!names.has(id) && spelt.has(id)) names.set(id, spelt.get(id));
    }
    return names;
  },

  svg(rows, columns, title) {
    const [wide, high, left, top] = [46, 24, 70, 92];
    const all = picture(left + columns.length * wide, top + rows.length * high, `Patching, ${title}`, label(`Share of ${title} restored, in per cent`, 0, 10, { size: 13, weight: 600 }));
    columns.forEach((text, i) => all.append(label(shortened(text, 16), left + (i + 0.4) * wide, top - 8, { size: 11, turned: -45 })));
    rows.forEach((row, layer) => {
      const y = top + (rows.length - 1 - layer) * high;
      all.append(label(`layer ${layer}`, left - 8, y + high / 2, { anchor: "end", size: 11 }));
      row.forEach((value, i) => all.append(box(left + i * wide, y, wide - 1, high - 1, signedShade((value ?? 0) * 0.9), exactly(value ?? 0)), label(inPercent(value), left + (i + 0.5) * wide, y + high / 2, { anchor: "middle", size: 11, colour: inkOnSigned((value ?? 0) * 0.9) })));
    });
    return all;
  },
};

/** A share as a whole number of per cent, with a minus sign. */
const inPercent = (value) => (value === null ? "–" : String(Math.round(value * 100)).replace("-", "−"));

/** A share that may be negative or above 1. */
const percentOf = (value) => (value === null ? "nothing" : value < 0 ? `−${percent(-value)}` : percent(value));
