// Next word: the distribution, how it is shaped, a token drawn from it, and where each drawn token looked.

import { classColour } from "./colours.js";
import { draw, make } from "./dom.js";
import { mapPicture } from "./drawing.js";
import { distribution, entropyOf } from "./maths.js";
import { brief, exactly, percent, several } from "./numbers.js";
import { chosen, select } from "./selection.js";
import { pickable, roving } from "./roving.js";
import { box, choosable, label, picture, wide, widthOf } from "./svg.js";
import { shortened, sidesOf } from "./words.js";

const listedTokens = 18;
const mostSteps = 24;

export const nextView = {
  name: "next",
  title: "Next word",
  fits: (reading) => reading.answer === "next",
  lacks: "This model does not say what comes next. GPT-like models and T5 do.",
  controls: ["group", "head"],
  redraw: ["group", "layer", "head"],

  async show(root, page) {
    const { best, scores } = await page.source.next(page.reading, page.signal);
    const spelt = new Map(best.map(({ id, text }) => [id, text]));
    const chart = make("div", { class: "scroll" });
    const timeline = make("div", {});
    root.append(this.text(page), this.sliders(() => redraw(), page), chart, timeline);
    const redraw = () => {
      const shares = distribution(scores, { temperature: chosen.temperature, k: chosen.k, p: chosen.p });
      const drawn = this.bars(shares, spelt, page, chart.clientWidth);
      chart.replaceChildren(
        make("p", { class: "muted", id: "spread" }, `${several(shares.length, "token")} can be drawn; entropy ${brief(entropyOf(shares))} nats. ${page.source.live ? "Choose one to go on with it." : ""}`),
        drawn);
      this.seen = { svg: () => drawn, csv: () => [["token", "id", "probability"], ...shares.slice(0, 1000).map(({ token, probability }) => [spelt.get(token) ?? "", token, exactly(probability)])] };
    };
    redraw();
    await this.timeline(timeline, page);
    return { svg: () => this.seen.svg(), csv: () => this.seen.csv() };
  },

  /** The text as the tokenizer writes it, with what was drawn marked; tokens where there is no tokenizer. */
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
    const go = make("button", { type: "button", class: "strong", id: "generate", disabled: !page.source.live, click: () => page.step({}) }, "Generate a token");
    const back = make("button", { type: "button", id: "take-back", disabled: !page.drawn() || !page.source.live, click: () => page.stepBack() }, "Take back");
    return make("div", { class: "sliders" },
      slider("temperature", "temperature", 0, 3, 0.05, (value) => value.toFixed(2)),
      slider("k", "top-k", 0, 100, 1, (value) => (value ? String(value) : "all")),
      slider("p", "top-p", 0.05, 1, 0.01, (value) => value.toFixed(2)),
      make("span", { class: "exports" }, go, back, page.source.live ? null : make("span", { class: "muted" }, "A saved page holds no model: it cannot go on.")));
  },

  bars(shares, spelt, page, room) {
    const shown = shares.slice(0, listedTokens).map(({ token, probability }) => ({ token, probability, name: shortened((spelt.get(token) ?? `#${token}`).replaceAll("\n", "⏎"), 20) }));
    const left = Math.max(60, ...shown.map(({ name }) => widthOf(name, 13))) + 12;
    const longest = Math.min(330, Math.max(90, room - left - 70));
    const most = shown[0]?.probability || 1;
    const svg = wide(choosable(picture(left + longest + 70, shown.length * 23 + 4, `The most likely next token is ${shown[0]?.name} with ${percent(most)}`)));
    const bars = shown.map(({ token, probability, name }, i) => {
      const go = page.source.live ? pickable(`next-${token}`, `Go on with ${name}, ${percent(probability)}`, () => page.step({ token })) : {};
      return draw("g", go,
        label(name, left - 8, i * 23 + 12, { anchor: "end", size: 13 }),
        box(left, i * 23 + 3, Math.max(1, (probability / most) * longest), 17, classColour(0), `${name}: ${exactly(probability)}`, { rx: 3, "data-token": token, "data-probability": exactly(probability) }),
        label(percent(probability), left + (probability / most) * longest + 8, i * 23 + 12, { size: 12, colour: "muted" }));
    });
    if (page.source.live) roving(bars);
    svg.append(...bars);
    return svg;
  },

  /** Where the model looked when each of the last tokens was drawn, in the chosen head. */
  async timeline(root, page) {
    const tokens = page.reading.target.length ? page.reading.target : page.reading.source;
    const steps = Math.min(page.drawn(), mostSteps, tokens.length - 1);
    if (steps === 0 || page.group() === "encoder") return;
    const site = page.site();
    const [, keys] = sidesOf(page.reading, site.group);
    const first = tokens.length - steps - 1;
    const question = { site: site.name, head: page.head(), scale: "raw", merge: false, hide: false, top: first, bottom: first + steps, left: 0, right: keys.length };
    const { values } = await page.source.block(page.reading, question, page.signal);
    const rows = tokens.slice(-steps).map((token, i) => `${i + 1}. ${token.text}`);
    const top = values.reduce((most, value) => Math.max(most, value), 0);
    root.append(
      make("h2", {}, "Timeline: where the model looked when it drew each token"),
      make("p", { class: "muted" }, `Layer ${site.layer}, head ${page.head()}; the row of a token is that of the place from which it was predicted.`),
      make("div", { class: "scroll", id: "timeline" }, wide(mapPicture(values, rows, keys.map((token) => token.text), { title: "Timeline of drawn tokens", top, scale: "raw", side: Math.min(1050, keys.length * 40), most: 40 }))));
  },
};
