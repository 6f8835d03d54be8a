// Next word or masked word: the distribution at any position, how it is shaped, sampled tokens, and what each of them attended to.

import { classColour, named } from "./colours.js";
import { draw, make } from "./dom.js";
import { mapPicture } from "./drawing.js";
import { strong } from "./explain.js";
import { distribution, entropyOf } from "./maths.js";
import { brief, exactly, percent, several } from "./numbers.js";
import { chosen, select } from "./selection.js";
import { pickable, roving } from "./roving.js";
import { box, choosable, label, picture, wide, widthOf } from "./svg.js";
import { shortened, sidesOf, spelled } from "./words.js";

const listedTokens = 18;
const mostSteps = 24;

export const nextView = {
  name: "next",
  title: "Next word",
  titleFor: (reading) => (reading.answer === "masked" ? "Masked word" : "Next word"),
  fits: (reading) => reading.answer === "next" || reading.answer === "masked",
  lacks: "This model does not predict tokens. GPT-like models, T5 and masked language models do.",
  controls: ["group", "head"],
  redraw: ["group", "layer", "head", "query"],

  async show(root, page) {
    const masked = page.reading.answer === "masked";
    const tokens = page.predicting();
    const position = page.position();
    const atEnd = !masked && position === tokens.length - 1;
    const { best, scores } = await page.source.next(page.reading, masked || !atEnd ? { position } : {}, page.signal);
    // The token in the text, unless the prediction is for its end.
    const actual = atEnd ? -1 : tokens[masked ? position : position + 1]?.id ?? -1;
    page.goesOn = page.source.live && atEnd;
    const spelt = new Map(best.map(({ id, text }) => [id, text]));
    const chart = make("div", { class: "scroll" });
    const timeline = make("div", {});
    const heading = atEnd ? "" : make("p", { id: "predicted-at" },
      masked ? "At " : "After ", make("b", {}, `“${spelled(tokens[position].text)}”`), ` (position ${position}); the token in the text is outlined. `,
      masked ? "Choose another token above, or write the mask token into the text." : make("button", { type: "button", id: "to-end", click: () => select({ query: -1 }) }, "to the end of the text"));
    root.append(masked ? "" : this.text(page), heading, this.sliders(() => redraw(), page), chart, timeline);
    const redraw = () => {
      const shares = distribution(scores, { temperature: chosen.temperature, k: chosen.k, p: chosen.p });
      const drawn = this.bars(shares, spelt, page, chart.clientWidth, actual);
      chart.replaceChildren(
        make("p", { class: "muted", id: "spread" }, `${several(shares.length, "token")} can be sampled; entropy ${brief(entropyOf(shares))} nats. ${page.goesOn ? "Choose one to continue with it." : ""}`),
        drawn);
      this.shown = { svg: () => drawn, csv: () => [["token", "id", "probability"], ...shares.slice(0, 1000).map(({ token, probability }) => [spelt.get(token) ?? "", token, exactly(probability)])] };
    };
    redraw();
    if (atEnd) await this.timeline(timeline, page);
    return { explain: () => this.inWords(scores, spelt, page), selected: () => null, svg: () => this.shown.svg(), csv: () => this.shown.csv() };
  },

  /** The lead of the best token, and the perplexity of the distribution. */
  inWords(scores, spelt) {
    const shares = distribution(scores, { temperature: chosen.temperature, k: chosen.k, p: chosen.p });
    const [first, second] = shares;
    const name = ({ token }) => `“${spelled(spelt.get(token) ?? `#${token}`)}”`;
    const entropy = entropyOf(shares);
    return [strong(`${name(first)} leads with ${percent(first.probability)}`), second ? (first.probability < 1.05 * second.probability ? `, just ahead of ${name(second)}` : `, ${brief(Number((first.probability / second.probability).toPrecision(2)))} times ${name(second)}`) : "", `. The choice is as uncertain as one among ${brief(Number(Math.exp(entropy).toPrecision(2)))} equally likely tokens.`];
  },

  /** The text as the tokenizer decodes it, with sampled tokens marked; without a tokenizer, the tokens. */
  text(page) {
    const { said, source, target } = page.reading;
    const tokens = (target.length ? target : source).filter((token) => !token.special).map((token) => token.text);
    const { given, drawn } = said ?? { given: tokens.slice(0, tokens.length - page.drawn()).join(" "), drawn: tokens.slice(tokens.length - page.drawn()).map((text) => ` ${text}`) };
    return make("p", { class: "prose", id: "prose" }, given, drawn.map((text) => make("mark", {}, text)));
  },

  sliders(redraw, page) {
    const slider = (name, title, least, most, step, shown) => {
      const value = make("output", {}, shown(chosen[name]));
      const input = make("input", {
        type: "range", min: least, max: most, step, value: chosen[name], "aria-label": title, id: `slider-${name}`,
        input: () => {
          select({ [name]: Number(input.value) });
          value.textContent = shown(chosen[name]);
          redraw();
        },
      });
      return make("label", {}, title, value, input);
    };
    const masked = page.reading.answer === "masked";
    const go = masked ? null : make("button", { type: "button", class: "strong", id: "generate", disabled: !page.source.live, click: () => page.step({}) }, "Generate a token");
    const back = masked ? null : make("button", { type: "button", id: "take-back", disabled: !page.drawn() || !page.source.live, click: () => page.stepBack() }, "Take back");
    const many = masked ? null : make("button", { type: "button", id: "generate-many", disabled: !page.source.live, click: () => page.stepMany(20) }, page.generating ? "Stop" : "Generate 20");
    return make("div", { class: "sliders" },
      slider("temperature", "temperature", 0, 3, 0.05, (value) => value.toFixed(2)),
      slider("k", "top-k", 0, 100, 1, (value) => (value ? String(value) : "all")),
      slider("p", "top-p", 0.05, 1, 0.01, (value) => value.toFixed(2)),
      make("span", { class: "exports" }, go, many, back, page.source.live ? null : make("span", { class: "muted" }, "A saved page holds no model: it cannot continue.")));
  },

  bars(shares, spelt, page, room, actual) {
    const known = shares.slice(0, listedTokens);
    const also = shares.slice(listedTokens).find(({ token }) => token === actual);
    const shown = [...known, ...(also ? [also] : [])].map(({ token, probability }) => ({ token, probability, name: shortened(spelled(spelt.get(token) ?? (token === actual ? page.predicting().find(({ id }) => id === token).text : `#${token}`)), 20) }));
    const left = Math.max(60, ...shown.map(({ name }) => widthOf(name, 13))) + 12;
    const longest = Math.min(330, Math.max(90, room - left - 70));
    const most = shown[0]?.probability || 1;
    const svg = wide(choosable(picture(left + longest + 70, shown.length * 23 + 4, `The most likely next token is ${shown[0]?.name} with ${percent(most)}`)));
    const bars = shown.map(({ token, probability, name }, i) => {
      const go = page.goesOn ? pickable(`next-${token}`, `Continue with ${name}, ${percent(probability)}`, () => page.step({ token })) : {};
      const frame = token === actual ? { stroke: named("ink"), "stroke-width": 1.5 } : {};
      return draw("g", go,
        label(name, left - 8, i * 23 + 12, { anchor: "end", size: 13 }),
        box(left, i * 23 + 3, Math.max(1, (probability / most) * longest), 17, classColour(0), `${name}: ${exactly(probability)}`, { rx: 3, "data-token": token, "data-probability": exactly(probability), ...frame }),
        label(percent(probability), left + (probability / most) * longest + 8, i * 23 + 12, { size: 12, colour: "muted" }));
    });
    if (page.goesOn) roving(bars);
    svg.append(...bars);
    return svg;
  },

  /** What the model attended to when each of the last tokens was predicted, in the chosen head. */
  async timeline(root, page) {
    const tokens = page.reading.target.length ? page.reading.target : page.reading.source;
    const steps = Math.min(page.drawn(), mostSteps, tokens.length - 1);
    if (steps === 0) return;
    // An encoder has no timeline of generated tokens: the decoder's is shown.
    const own = page.group() === "encoder" ? page.reading.sites.filter(({ group }) => group === "decoder") : page.sites();
    const site = own[Math.min(page.site().layer, own.length - 1)];
    const [, keys] = sidesOf(page.reading, site.group);
    const first = tokens.length - steps - 1;
    const question = { site: site.name, head: Math.min(page.head(), site.heads - 1), scale: "raw", merge: false, hide: false, top: first, bottom: first + steps, left: 0, right: keys.length };
    const { values } = await page.source.block(page.reading, question, page.signal);
    const rows = tokens.slice(-steps).map((token, i) => `${i + 1}. ${spelled(token.text)}`);
    const top = values.reduce((most, value) => Math.max(most, value), 0);
    root.append(
      make("h2", {}, "Timeline: what the model attended to when it predicted each token"),
      make("p", { class: "muted" }, `Layer ${site.layer}, head ${page.head()}; the row of a token is that of the position from which it was predicted.`),
      make("div", { class: "scroll", id: "timeline" }, wide(mapPicture(values, rows, keys.map((token) => spelled(token.text)), { title: "Timeline of sampled tokens", top, scale: "raw", side: Math.min(1050, keys.length * 40), most: 40 }))));
  },
};
