// All heads: layers × heads as small maps, by layer and head or sorted by a measure.

import { paint, palette } from "./colours.js";
import { changeOf } from "./changes.js";
import { draw, make } from "./dom.js";
import { strong } from "./explain.js";
import { measureInWords } from "./measures.js";
import { brief, exactly, percent, several } from "./numbers.js";
import { switchHead } from "./panel.js";
import { columnsOf, grid } from "./roving.js";
import { chosen, select } from "./selection.js";
import { label, picture } from "./svg.js";

const smallSide = 64;
/** Milliseconds between drawings of what has come. */
const drawingStep = 80;

/** Runs tasks in their order, two at a time: the server computes as many at once. */
async function twoAtATime(tasks) {
  const rest = tasks.values();
  const worker = async () => {
    for (const task of rest) await task();
  };
  await Promise.all([worker(), worker()]);
}

export const headsView = {
  name: "heads",
  title: "All heads",
  fits: (reading) => reading.sites.length > 0,
  lacks: "This model has no attention heads.",
  controls: ["group", "sort", "scale", "shown"],
  redraw: ["group", "scale", "merge", "hide", "sort", "named"],

  /** The head with the largest value of the measure, and the mean. */
  inWords(heads, measure) {
    const known = heads.filter((one) => Number.isFinite(one.values?.[measure]));
    if (!known.length) return null;
    const best = known.reduce((a, b) => (b.values[measure] > a.values[measure] ? b : a));
    const mean = known.reduce((sum, one) => sum + one.values[measure], 0) / known.length;
    return [`Of ${several(known.length, "head")}, `, strong(`head ${best.site.layer}.${best.head}`), ` has the largest ${measure}: ${brief(best.values[measure])}. The mean is ${brief(mean)}.`];
  },

  async show(root, page) {
    const sites = page.sites();
    const heads = sites.flatMap((site) => Array.from({ length: site.heads }, (_, head) => ({ site, head })));
    const list = make("div", { class: "heads" });
    const measureText = make("span", { id: "measure-in-words" });
    const names = make("div", { class: "names", id: "names" });
    const about = this.about(sites, measureText);
    root.append(about, names, list);
    for (const one of heads) this.button(one, page);
    this.place(list, heads, sites, page);
    const table = palette();
    const question = { side: smallSide, scale: chosen.scale, merge: chosen.merge, hide: chosen.hide };
    const own = sites.map((site) => heads.filter((one) => one.site === site));
    // A frame takes longer than a layer: maps that come within one step are drawn together.
    let [waiting, last] = [[], performance.now()];
    const drawWaiting = () => {
      for (const one of waiting) paint(one.levels, one.width, one.height, table, one.canvas);
      [waiting, last] = [[], performance.now()];
    };
    const readMaps = async (site, s) => {
      const { width, height, levels, tops } = await page.source.thumbnails(page.reading, { ...question, site: site.name }, page.signal);
      own[s].forEach((one, i) => {
        if (!levels || tops[i] === null) return;
        Object.assign(one, { width, height, levels: levels.subarray(i * width * height, (i + 1) * width * height) });
        waiting.push(one);
      });
      if (performance.now() - last > drawingStep || site === sites.at(-1)) drawWaiting();
    };
    const addMeasures = async (site, s) => {
      const { names, descriptions, heads: values } = await page.source.measures(page.reading, site.name, page.signal);
      page.measures = { names, descriptions };
      own[s].forEach((one, i) => {
        one.values = Object.fromEntries(names.map((name, at) => [name, values[i][at]]));
      });
    };
    // Layer by layer, so that the first are shown while the others are computed; first the maps, then their measures.
    await twoAtATime([readMaps, addMeasures].flatMap((work) => sites.map((site, s) => () => work(site, s))));
    drawWaiting();
    const { measures } = page;
    page.offerMeasures();
    this.place(list, heads, sites, page);
    const measure = this.measure(page);
    measureText.textContent = `The number and the bar below each map: ${measureInWords(measure, page.measures.descriptions[page.measures.names.indexOf(measure)])}`;
    page.painted();
    await this.showNames(names, list, heads, sites, page);
    return {
      explain: () => this.inWords(heads, measure),
      reopen: () => {
        page.measures = measures;
        page.offerMeasures();
      },
      svg: () => this.svg(heads, sites, page),
      csv: () => [
        ["layer", "head", "names", ...page.measures.names],
        ...heads.map((one) => [one.site.layer, one.head, (one.names ?? []).map(({ name }) => name).join("; "), ...page.measures.names.map((name) => one.values[name] ?? "")]),
      ],
    };
  },

  /** Names of heads by tested rules: at once for small models, else with a button. */
  async showNames(root, list, heads, sites, page) {
    if (!page.source.names || page.group() === "decoder" || page.group() === "cross" || page.reading.patches) return;
    const run = async () => {
      root.replaceChildren(make("span", { class: "muted busy-line" }, "Measuring what each head does, against the same model untrained…"));
      const found = await page.source.names(page.reading, page.signal);
      page.namesOf = page.reading.model;
      for (const one of heads) {
        one.names = found.names.filter(({ site, head }) => site === one.site.name && head === one.head);
        one.induction = found.induction.find(({ site, head }) => site === one.site.name && head === one.head)?.mean;
        one.badges.replaceChildren(...one.names.map((name) => make("span", { class: "badge", title: `${name.description} Mean ${brief(name.mean)} (at least ${name.at_least}); the strongest untrained head has ${brief(name.untrained)}; p ${name.p_value < 0.001 ? "< 0.001" : `= ${brief(name.p_value)}`}.` }, `${name.name} ${name.mean.toFixed(2)}`)));
      }
      this.chips(root, found, heads);
      this.place(list, heads, sites, page);
    };
    if (page.reading.small || page.namesOf === page.reading.model) return run();
    const failed = (problem) => (problem.name === "AbortError" ? offer() : root.replaceChildren(make("span", { class: "muted" }, problem.message)));
    const offer = () => root.replaceChildren(make("button", { type: "button", id: "name-heads", click: () => run().catch(failed) }, "Name the heads"),
      make("span", { class: "muted small" }, " reads sentences and repeated random tokens, and compares with the same model untrained"));
    offer();
  },

  /** One chip for each name; choosing one shows only its heads. */
  chips(root, found, heads) {
    const counts = new Map();
    for (const one of heads) for (const { name } of one.names) counts.set(name, (counts.get(name) ?? 0) + 1);
    const chip = ([name, count]) => make("button", { type: "button", id: `named-${name.replaceAll(" ", "-")}`, "aria-pressed": String(chosen.named === name), click: () => select({ named: chosen.named === name ? "" : name }) }, `${name} · ${count}`);
    const best = found.induction.reduce((most, one) => (one.mean > (most?.mean ?? 0) ? one : most), null);
    const where = best && heads.find((one) => one.site.name === best.site && one.head === best.head);
    root.replaceChildren(
      make("div", { class: "chips", role: "group", "aria-label": "Names of heads" }, counts.size ? [...counts].sort((a, b) => b[1] - a[1]).map(chip) : make("span", { class: "muted" }, "No head meets a rule for a name.")),
      make("p", { class: "muted small" }, `Names by rules, over ${several(found.sentences, "sentence")} against the same model untrained (Holm-corrected p < 0.05).`,
        where ? ` Repeated random tokens: head ${where.site.layer}.${where.head} gives ${percent(best.mean)} of its weight to the token that followed the earlier occurrence, the most of all heads (${several(found.repeated, "text")}).` : ""));
  },

  about(sites, measureText) {
    const count = sites.reduce((sum, site) => sum + site.heads, 0);
    return make("details", { class: "about-heads", open: innerWidth > 560 }, make("summary", {}, "What the maps show"), make("p", { class: "muted" }, `${several(count, "head")} in ${several(sites.length, "layer")}. Rows are queries, columns are keys. Each map has its own colour scale, which ends at its strongest 1\u00a0%. Choose a map to enlarge it. `, measureText));
  },

  button(one, page) {
    one.canvas = make("canvas", { width: 1, height: 1, "aria-hidden": "true" });
    one.caption = make("span", {});
    one.number = make("span", {});
    one.meter = make("i", { style: "width: 0" });
    const open = () => select({ layer: one.site.layer, head: one.head, view: "head" });
    one.button = make("button", { type: "button", class: "map-of", click: open, "data-head": `${one.site.layer}.${one.head}`, id: `head-${one.site.layer}-${one.head}` }, one.canvas, one.meter, make("small", {}, one.caption, one.number));
    const state = changeOf(one.site, one.head);
    const does = state ? "switch on again" : "switch off";
    one.switch = make("button", { type: "button", class: "switch", tabindex: -1, id: `switch-${one.site.layer}-${one.head}`, "aria-pressed": String(Boolean(state)), title: `${does} (x)`, "aria-label": `${does}: head ${one.site.layer}.${one.head}`, click: () => switchHead(page, [one.site, one.head]) }, state === "mean" ? "mean" : state ? "on" : "off");
    one.badges = make("div", { class: "badges" });
    one.cell = make("div", { class: state ? "cell off" : "cell" }, one.button, page.source.live ? one.switch : null, one.badges);
  },

  /** Whether heads are ordered by layer and head: if chosen, or if the chosen measure does not exist for them. */
  inPlace: (page) => chosen.sort === "place" || (page.measures !== null && !page.measures.names.includes(chosen.sort.replace(/^-/, ""))),

  /** The measure that is shown. */
  measure(page) {
    return this.inPlace(page) ? "relative-entropy" : chosen.sort.replace(/^-/, "");
  },

  /** Arranges the heads by layer and head or by the measure, and shows its values. */
  place(list, heads, sites, page) {
    const focus = list.contains(document.activeElement) ? document.activeElement : null;
    const [measure, inPlace] = [this.measure(page), this.inPlace(page)];
    const value = (one) => one.values?.[measure];
    const most = Math.max(1e-9, ...heads.map((one) => value(one) ?? 0));
    const [site, head] = [page.site(), page.head()];
    for (const one of heads) {
      const known = value(one) ?? null;
      one.caption.textContent = `${one.site.layer}.${one.head}`;
      one.number.textContent = known === null ? "" : brief(known);
      one.meter.style.width = known === null ? "0" : `${Math.max(0, (known / most) * 100)}%`;
      one.button.title = `layer ${one.site.layer}, head ${one.head}${known === null ? "" : `: ${measure} ${exactly(known)}`}`;
      one.button.setAttribute("aria-label", one.button.title);
      one.button.setAttribute("aria-current", String(one.site === site && one.head === head));
    }
    const fits = (one) => !chosen.named || !one.names || one.names.some(({ name }) => name === chosen.named);
    const named = Boolean(chosen.named && heads.some((one) => one.names));
    const sign = chosen.sort.startsWith("-") ? 1 : -1;
    const order = inPlace ? heads : [...heads].sort((a, b) => sign * ((value(a) ?? -Infinity) - (value(b) ?? -Infinity)));
    const [cells, rows] = [order.filter(fits).map((one) => one.cell), inPlace && !named];
    if (list.rows === rows && list.cells.length === cells.length && list.cells.every((cell, i) => cell === cells[i])) return;
    Object.assign(list, { rows, cells });
    list.replaceChildren();
    const columns = Math.max(...sites.map((site) => site.heads));
    list.classList.toggle("sorted", !rows);
    list.classList.toggle("few", rows && columns <= 6);
    if (rows) {
      list.style.setProperty("--columns", columns);
      list.style.setProperty("--widest", `${columns <= 6 ? 190 : 118}px`);
      for (const site of sites) list.append(make("div", { class: "row" }, make("span", {}, String(site.layer)), heads.filter((one) => one.site === site).map((one) => one.cell)));
    } else {
      list.append(...cells);
    }
    const shown = [...list.querySelectorAll("[data-head]")];
    grid(shown, () => columnsOf(shown), shown.findIndex((one) => one.getAttribute("aria-current") === "true"));
    focus?.focus({ preventScroll: true });
  },

  svg(heads, sites, page) {
    const [size, gap, left, top] = [84, 12, 34, 44];
    const columns = Math.max(...sites.map((site) => site.heads));
    const all = picture(left + columns * (size + gap), top + sites.length * (size + gap), `All heads of ${page.reading.model}`);
    all.append(label(`${page.reading.model}: attention of all heads`, 0, 10, { size: 14, weight: 600 }));
    for (let head = 0; head < columns; head++) all.append(label(String(head), left + head * (size + gap) + size / 2, 34, { anchor: "middle", colour: "muted" }));
    for (const one of heads) {
      if (!one.levels) continue;
      const [x, y] = [left + one.head * (size + gap), top + one.site.layer * (size + gap)];
      const href = paint(one.levels, one.width, one.height).toDataURL("image/png");
      all.append(draw("image", { x, y, width: size, height: size, href, preserveAspectRatio: "none", style: "image-rendering: pixelated" }));
      if (one.head === 0) all.append(label(String(one.site.layer), left - 8, y + size / 2, { anchor: "end", colour: "muted" }));
    }
    return all;
  },
};
