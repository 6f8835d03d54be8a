// A training run as a film: its loss curve, a slider over its snapshots, and controls while it trains.

import { classColour, named } from "./colours.js";
import { at, draw, make } from "./dom.js";
import { chosen, select } from "./selection.js";
import { label, picture, stroke } from "./svg.js";

const pollTime = 600;
const frameTime = 420;
const sampledTokens = 26;

/** The name of a run without the step of a snapshot. */
export const runOf = (name) => name.replace(/@\d+$/, "");

/** A model's name for a heading: a snapshot's step in words. */
export const inWords = (name) => name.replace(/^(.*)@(\d+)$/, "$1, step $2");

/** The film of the chosen model, if it is a run with snapshots. `turn` reads the text again without clearing the view. */
export function filmOf(page, { turn, complain }) {
  let [film, model, timer, playing, turning, wanted] = [null, "", 0, false, false, null];
  let sampler = new AbortController();
  const parts = skeleton();

  const newest = () => film.snapshots.at(-1);
  /** The step of the snapshot that is shown; undefined if it is the run's best model. */
  const shown = () => (!film ? undefined : film.snapshots.includes(chosen.step) ? chosen.step : film.live ? newest() : undefined);
  const nameOf = (base) => (base === model && shown() !== undefined ? `${base}@${shown()}` : base);
  /** The position of a step on the axis, from 0 to 1: snapshots are equally spaced, so that dense ones do not overlap. */
  const axisPosition = (step) => {
    const marks = film.planned;
    if (marks.length < 2) return step / Math.max(1, film.steps);
    const i = Math.max(0, Math.min(marks.length - 2, marks.findLastIndex((mark) => mark <= step)));
    return Math.max(0, Math.min(1, (i + (step - marks[i]) / (marks[i + 1] - marks[i])) / (marks.length - 1)));
  };

  function skeleton() {
    const play = make("button", { type: "button", id: "film-play", class: "play", click: () => start() });
    const step = make("b", { id: "film-step" });
    const about = make("span", { id: "film-about", class: "muted" });
    const badge = make("span", { id: "film-live", class: "live", hidden: true });
    const keep = make("button", { type: "button", id: "film-own", click: () => { playing = false; go(-1); } });
    const chart = make("div", { id: "film-curve", class: "curve" });
    const slider = make("input", { type: "range", id: "film-slider", min: 0, step: 1, "aria-label": "Step of the training", input: () => { playing = false; go(film.planned[slider.value] <= newest() ? film.planned[slider.value] : newest()); } });
    const text = make("p", { id: "film-text", class: "sampled" });
    const pause = make("button", { type: "button", id: "film-pause", click: () => control({ paused: !film.live.paused }) });
    const rate = make("input", { type: "range", id: "film-rate", min: -4, max: 4, step: 0.5, "aria-label": "Learning rate, times a power of two", change: () => control({ factor: 2 ** rate.value }), input: () => { rateText.textContent = rateInWords(2 ** rate.value); } });
    const rateText = make("output", { id: "film-rate-text" });
    const controls = make("div", { class: "controls" }, pause, make("label", {}, "learning rate", rate, rateText));
    const root = at("film");
    root.replaceChildren(
      make("div", { class: "where" }, play, make("span", { class: "status" }, badge, step, about), keep),
      make("div", { class: "track" }, chart, slider),
      make("div", { class: "says" }, controls, text));
    new ResizeObserver(() => film && curve()).observe(chart);
    return { root, play, step, about, badge, keep, chart, slider, text, pause, rate, rateText, controls };
  }

  const rateInWords = (factor) => {
    const now = film?.live?.rate ? (film.live.rate / film.live.factor) * factor : null;
    return `${now ? now.toExponential(1) : ""}${factor === 1 ? "" : ` (× ${factor >= 1 ? factor.toFixed(factor % 1 ? 1 : 0) : factor.toPrecision(2)})`}`;
  };

  /** Fetches the film of a model, and polls it while it trains. */
  async function load(name) {
    clearTimeout(timer);
    if (!page.source.film) return;
    const found = await page.source.film(name).catch(() => undefined);
    // If the server is busy, the last known state stays.
    if (found !== undefined) {
      film = found && (found.snapshots.length > 1 || (found.live && found.snapshots.length)) ? found : null;
      model = name;
    }
    update();
    if (film?.live && !film.live.problem) timer = setTimeout(poll, pollTime, name);
  }

  async function poll(name) {
    if (at("model").value !== name) return;
    await load(name);
    // Follow the newest snapshot and, at the end, show the run's best model.
    if (chosen.step < 0 && page.reading && runOf(page.reading.model) === name && page.reading.model !== nameOf(name)) go(-1);
  }

  /** Shows the model of a step; −1 is the newest, or the run's best. Of steps requested meanwhile, only the last is shown. */
  async function go(step) {
    wanted = step;
    if (turning) return;
    turning = true;
    while (wanted !== null) {
      const next = wanted;
      wanted = null;
      select({ step: next }, { step: false });
      update();
      await turn();
    }
    turning = false;
    update();
  }

  /** Plays the film from the current step, or from the first if at the end; stops it if it is playing. */
  async function start() {
    playing = !playing;
    const from = shown() ?? newest();
    const rest = from >= newest() ? film.snapshots : film.snapshots.filter((step) => step > from);
    for (const step of rest) {
      if (!playing || !film) break;
      const began = performance.now();
      await go(step);
      await new Promise((done) => setTimeout(done, Math.max(0, frameTime - (performance.now() - began))));
    }
    playing = false;
    update();
  }

  async function control(part) {
    try {
      film.live = await page.source.control({ model, ...part });
      update();
      load(model);
    } catch (problem) {
      complain(problem);
    }
  }

  /** Updates all elements in place: the user may be dragging one of them. */
  function update() {
    parts.root.hidden = !film;
    if (!film) return;
    const { live, best, steps, planned } = film;
    const step = shown();
    const at = step ?? best ?? newest();
    const lossAt = (points) => points.findLast(([when]) => when <= at) ?? points[0];
    const [training, heldOut] = [lossAt(film.curve), film.held_out.findLast(([when]) => when <= at)];
    parts.step.textContent = step === undefined ? "best model" : `step ${step}`;
    const after = at > 0 || !training ? "" : "before training";
    parts.about.textContent = [step === undefined ? `of step ${at}` : `of ${steps}`, after || (training ? `loss ${training[1].toFixed(2)}` : ""), heldOut && !after ? `held-out ${heldOut[1].toFixed(2)}` : ""].filter(Boolean).join(" · ");
    parts.badge.hidden = !live;
    parts.badge.textContent = live ? (live.problem ? "stopped" : live.paused ? "paused" : "live") : "";
    parts.badge.dataset.state = parts.badge.textContent;
    parts.badge.title = live?.problem ?? "";
    parts.play.textContent = playing ? "❚❚" : "▶";
    parts.play.setAttribute("aria-label", playing ? "Stop the film" : "Play the training as a film");
    parts.play.disabled = film.snapshots.length < 2;
    parts.keep.textContent = live ? "follow" : "best model";
    parts.keep.title = live ? "show the newest model as it trains" : "the model that the run keeps: the best on held-out data";
    parts.keep.setAttribute("aria-pressed", String(chosen.step < 0 || step === undefined));
    parts.slider.max = Math.max(1, planned.length - 1);
    const index = Math.max(0, planned.findLastIndex((mark) => mark <= at));
    if (Number(parts.slider.value) !== index) parts.slider.value = index;
    parts.slider.setAttribute("aria-valuetext", `step ${at} of ${steps}`);
    parts.controls.hidden = !live?.can_pause;
    if (live?.can_pause) {
      parts.pause.textContent = live.paused ? "Resume" : "Pause";
      parts.rate.parentElement.hidden = !live.can_change_rate;
      if (document.activeElement !== parts.rate) {
        parts.rate.value = Math.log2(live.factor);
        parts.rateText.textContent = rateInWords(live.factor);
      }
    }
    curve();
  }

  /** Draws the loss curve above the slider, with the current step marked. */
  function curve() {
    const [wide, high] = [Math.max(160, parts.chart.clientWidth), parts.chart.clientHeight || 74];
    const [left, right, top, bottom] = [8, 8, 8, high - 14];
    const points = [...film.curve, ...film.held_out];
    if (film.live?.loss && film.live.step > (film.curve.at(-1)?.[0] ?? -1)) points.push([film.live.step, film.live.loss]);
    const [least, most] = [Math.min(...points.map(([, loss]) => loss)), Math.max(...points.map(([, loss]) => loss))];
    const x = (step) => left + axisPosition(step) * (wide - left - right);
    const y = (loss) => bottom - ((loss - least) / Math.max(1e-9, most - least)) * (bottom - top);
    const line = (curve, colour, more = {}) => draw("polyline", { points: curve.map(([step, loss]) => `${x(step).toFixed(1)},${y(loss).toFixed(1)}`).join(" "), fill: "none", stroke: colour, "stroke-width": 2, "stroke-linejoin": "round", ...more });
    const at = shown() ?? film.best ?? newest();
    const running = film.live ? [...film.curve, ...points.slice(film.curve.length + film.held_out.length)] : film.curve;
    const end = running.at(-1);
    const ticks = film.planned.filter((_, i, all) => i === 0 || i === all.length - 1 || (i % Math.ceil(all.length / (wide / 64)) === 0 && i < all.length - Math.ceil(all.length / (wide / 64))));
    const svg = picture(wide, high, `Loss of the training: ${film.curve.length ? `${film.curve.at(-1)[1].toFixed(3)} at step ${film.curve.at(-1)[0]}` : "none yet"}`,
      film.planned.map((step) => stroke(x(step), bottom + 1, x(step), bottom + 4, named("rule"), { opacity: film.snapshots.includes(step) ? 1 : 0.35 })),
      ticks.map((step, i) => label(String(step), x(step), high - 4, { anchor: i === 0 ? "start" : step === film.planned.at(-1) ? "end" : "middle", size: 10, colour: "muted" })),
      points.length ? [
        line(running, classColour(0)), line(film.held_out, classColour(1), { "stroke-dasharray": "1 0" }),
        film.held_out.map(([step, loss]) => draw("circle", { cx: x(step), cy: y(loss), r: 2.4, fill: classColour(1) })),
        label("training loss", wide - right, top + 2, { anchor: "end", size: 11, colour: classColour(0) }), film.held_out.length ? label("held-out", wide - right, top + 16, { anchor: "end", size: 11, colour: classColour(1) }) : null,
      ].flat().filter(Boolean) : label("the curve begins with the first steps", wide / 2, high / 2 - 6, { anchor: "middle", colour: "muted" }),
      stroke(x(at), top - 6, x(at), bottom, named("ink"), { "stroke-width": 1.5 }),
      end && film.live ? draw("circle", { cx: x(end[0]), cy: y(end[1]), r: 4.5, fill: classColour(0), class: film.live.paused ? "" : "pulse" }) : null);
    parts.chart.replaceChildren(svg);
  }

  /** Samples a text from the model that is shown, with the same seed at every step, so that only the model differs. */
  async function sample() {
    sampler.abort();
    sampler = new AbortController();
    const [mine, reading] = [sampler.signal, page.reading];
    if (!film || reading?.answer !== "next" || page.base) return parts.text.replaceChildren();
    const prompt = page.predicting().map((token) => token.text).join("");
    const words = make("mark", {});
    const start = make("span", { class: "muted" }, (page.known?.text ?? prompt).slice(-60), " ");
    const sampling = { greedy: false, temperature: 0.7, top_k: 0, top_p: 1, repetition_penalty: 1, seed: 0 };
    try {
      await page.source.generate(reading, { count: sampledTokens, sampling, step: 0 }, ({ text }) => {
        words.append(text);
        if (!mine.aborted && !words.isConnected) parts.text.replaceChildren(start, words);
      }, mine);
    } catch { /* aborted or failed: the next step samples again */ }
  }

  return { load, nameOf, sample, update, snapshots: () => (film ? film.snapshots.map((step) => `${model}@${step}`) : []) };
}
