// Search: the texts of a corpus on which the chosen head has the largest or smallest value of a measure.

import { make } from "./dom.js";
import { strong } from "./explain.js";
import { measureInWords } from "./measures.js";
import { brief, exactly, several } from "./numbers.js";
import { chosen, select } from "./selection.js";
import { label, picture } from "./svg.js";
import { shortened, spelled } from "./words.js";

const kept = { texts: "" };

/** Where each token is in the text that it comes from; null where it is not there as it is written, such as `[CLS]`. */
function placesOf(tokens, text) {
  const lower = text.toLowerCase();
  let at = 0;
  return tokens.map((token) => {
    const piece = token.toLowerCase().replace(/^##/, "").replaceAll("␣", " ").replaceAll("⏎", "\n").replaceAll("⇥", "\t");
    const start = lower.length === text.length && piece ? lower.indexOf(piece, at) : -1;
    if (start < 0) return null;
    at = start + piece.length;
    return [start, at];
  });
}

export const searchView = {
  name: "search",
  title: "Search",
  fits: (reading) => reading.sites.some((site) => site.group === "self") && !reading.patches,
  lacks: "Search is for models with attention heads that read one text.",
  controls: ["head"],
  redraw: ["layer", "head", "measure"],

  async show(root, page) {
    if (!page.source.live) {
      root.append(make("p", { class: "muted" }, "A saved page holds no model: it cannot search."));
      return {};
    }
    const site = page.site();
    const { names, descriptions } = await page.source.measures(page.reading, site.name, page.signal);
    const measure = names.includes(chosen.measure.replace(/^-/, "")) ? chosen.measure : "confidence";
    const options = names.flatMap((name) => [[name, `most ${name}`], [`-${name}`, `least ${name}`]]);
    const list = make("select", { id: "search-measure", "aria-label": "measure of the head", change: () => select({ measure: list.value }) }, options.map(([value, text]) => make("option", { value, selected: value === measure }, text)));
    const field = make("textarea", { id: "search-texts", rows: 2, spellcheck: "false", placeholder: "your own texts, one a line; empty: sentences of the built-in corpus", "aria-label": "texts to search" });
    field.value = kept.texts;
    field.addEventListener("input", () => { kept.texts = field.value; });
    const run = make("button", { type: "button", id: "search", click: () => page.again() }, "Search");
    const results = make("div", { id: "found", "aria-live": "polite" }, make("p", { class: "muted" }, "reading texts…"));
    root.append(
      make("p", {}, `The texts on which head ${site.layer}.${page.head()} has the largest or smallest value of a measure: ${measureInWords(measure.replace(/^-/, ""), descriptions[names.indexOf(measure.replace(/^-/, ""))])}`),
      make("div", { class: "ask patch-form" }, make("label", { class: "field" }, "measure", list), make("label", { class: "field grow" }, "texts", field), run), results);
    const texts = kept.texts.split("\n").map((text) => text.trim()).filter(Boolean);
    const found = await page.source.search(page.reading, { site: site.name, head: page.head(), measure: measure.replace(/^-/, ""), least: measure.startsWith("-"), texts }, page.signal);
    results.replaceChildren(found.texts.length ? this.table(found, page) : make("p", { class: "muted" }, "None of the texts has a value of this measure."));
    const best = found.texts[0];
    return {
      explain: () => best && [`Of ${several(found.read, "text")}, `, strong(`“${shortened(best.text, 60)}”`), ` has the ${measure.startsWith("-") ? "smallest" : "largest"} ${found.measure}: ${brief(best.value)}; the mean is ${brief(found.mean)}.`],
      svg: () => this.svg(found, site, page.head()),
      csv: () => [["text", found.measure, "query", "key", "weight"], ...found.texts.map((one) => [one.text, exactly(one.value), one.pair ? one.tokens[one.pair[0]] : "", one.pair ? one.tokens[one.pair[1]] : "", exactly(one.weight)])],
    };
  },

  table(found, page) {
    const most = Math.max(1e-12, ...found.texts.map(({ value }) => Math.abs(value)));
    const open = (one) => {
      document.getElementById("text").value = one.text;
      select({ view: "head", ...(one.pair ? { query: one.pair[0], key: one.pair[1] } : {}) });
      document.getElementById("ask").requestSubmit();
    };
    const marked = ({ text, tokens, pair }) => {
      const found = placesOf(tokens, text);
      const parts = (pair ?? []).map((token, i) => ({ place: found[token], role: i ? "key" : "query" })).filter(({ place }) => place).sort((a, b) => a.place[0] - b.place[0]);
      let done = 0;
      const pieces = parts.flatMap(({ place: [start, end], role }) => {
        const piece = [text.slice(done, start), make("mark", { class: role, title: role }, text.slice(start, end))];
        done = end;
        return piece;
      });
      return [...pieces, text.slice(done)];
    };
    return make("div", { class: "scroll" }, make("table", { id: "search-found" },
      make("thead", {}, make("tr", {}, ["text; its strongest pair is marked", found.measure, "", "strongest pair"].map((name) => make("th", { scope: "col" }, name)))),
      make("tbody", {}, found.texts.map((one, i) => make("tr", { "data-value": exactly(one.value) },
        make("td", { class: "found-text" }, make("button", { type: "button", class: "word", id: `found-${i}`, title: "read this text", click: () => open(one) }, marked(one))),
        make("td", {}, brief(one.value)), make("td", { class: "bar-cell" }, make("span", { class: "meter", style: `width: ${(Math.abs(one.value) / most) * 100}%` })),
        make("td", {}, one.pair ? `${shortened(spelled(one.tokens[one.pair[0]]), 12)} → ${shortened(spelled(one.tokens[one.pair[1]]), 12)} ${brief(one.weight)}` : "–"))))));
  },

  svg(found, site, head) {
    return picture(900, 30 + found.texts.length * 24, `Texts with most ${found.measure}`, label(`Texts with the most extreme ${found.measure}, head ${site.layer}.${head}`, 0, 10, { size: 13, weight: 600 }),
      found.texts.map((one, i) => [label(brief(one.value), 60, 36 + i * 24, { anchor: "end" }), label(shortened(one.text, 120), 74, 36 + i * 24)]));
  },
};
