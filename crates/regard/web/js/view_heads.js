// All heads: layers × heads as small maps, in their places or sorted by a measure.

import { paint, palette } from "./colours.js";
import { draw, make } from "./dom.js";
import { brief, exactly, several } from "./numbers.js";
import { chosen, select } from "./selection.js";
import { label, picture } from "./svg.js";

const smallSide = 64;

export const headsView = {
  name: "heads",
  title: "All heads",
  fits: (reading) => reading.sites.length > 0,
  lacks: "This model has no attention heads.",
  controls: ["group", "sort", "scale", "shown"],
  redraw: ["group", "scale", "merge", "hide", "sort"],

  async show(root, page) {
    const sites = page.sites();
    const heads = sites.flatMap((site) => Array.from({ length: site.heads }, (_, head) => ({ site, head })));
    const list = make("div", { class: "heads" });
    const told = make("p", { class: "muted" });
    root.append(this.about(sites), list, told);
    for (const one of heads) this.button(one);
    this.place(list, heads, sites, page);
    const table = palette();
    const question = { side: smallSide, scale: chosen.scale, merge: chosen.merge, hide: chosen.hide };
    // Layer by layer, so that the first are seen while the others are computed.
    for (const site of sites) {
      const small = await page.source.thumbnails(page.reading, { ...question, site: site.name }, page.signal);
      const size = small.width * small.height;
      heads.filter((one) => one.site === site).forEach((one, i) => {
        if (!small.levels || small.tops[i] === null) return;
        one.levels = small.levels.subarray(i * size, (i + 1) * size);
        [one.width, one.height] = [small.width, small.height];
        one.canvas.width = small.width;
        one.canvas.height = small.height;
        one.canvas.getContext("2d").drawImage(paint(one.levels, small.width, small.height, table), 0, 0);
      });
    }
    for (const site of sites) {
      const { names, descriptions, heads: values } = await page.source.measures(page.reading, site.name, page.signal);
      page.measures = { names, descriptions };
      heads.filter((one) => one.site === site).forEach((one, i) => {
        one.values = Object.fromEntries(names.map((name, at) => [name, values[i][at]]));
      });
    }
    page.offerMeasures();
    this.place(list, heads, sites, page);
    const measure = this.measure(page);
    told.textContent = `The number and the line below each map: ${measure}. ${page.measures.descriptions[page.measures.names.indexOf(measure)] ?? ""}`;
    return {
      svg: () => this.svg(heads, sites, page),
      csv: () => [
        ["layer", "head", ...page.measures.names],
        ...heads.map((one) => [one.site.layer, one.head, ...page.measures.names.map((name) => one.values[name] ?? "")]),
      ],
    };
  },

  about(sites) {
    const count = sites.reduce((sum, site) => sum + site.heads, 0);
    return make("p", { class: "muted" }, `${several(count, "head")} in ${several(sites.length, "layer")}. Rows ask, columns are looked at; each map has a colour scale of its own, the darkest colour standing for its strongest 1 %. Choose one to look closer.`);
  },

  button(one) {
    one.canvas = make("canvas", { width: 1, height: 1, "aria-hidden": "true" });
    one.caption = make("span", {});
    one.number = make("span", {});
    one.meter = make("i", { style: "width: 0" });
    const open = () => select({ layer: one.site.layer, head: one.head, view: "head" });
    one.button = make("button", { type: "button", click: open, "data-head": `${one.site.layer}.${one.head}`, id: `head-${one.site.layer}-${one.head}` }, one.canvas, one.meter, make("small", {}, one.caption, one.number));
  },

  /** Whether heads stand in their places: if that is chosen, or what is chosen is no measure of these. */
  inPlace: (page) => chosen.sort === "place" || (page.measures !== null && !page.measures.names.includes(chosen.sort.replace(/^-/, ""))),

  /** What heads are measured by. */
  measure(page) {
    return this.inPlace(page) ? "relative-entropy" : chosen.sort.replace(/^-/, "");
  },

  /** Puts the heads in their places or in order, with what they are measured by. */
  place(list, heads, sites, page) {
    const focus = list.contains(document.activeElement) ? document.activeElement : null;
    const [measure, inPlace] = [this.measure(page), this.inPlace(page)];
    const value = (one) => one.values?.[measure];
    const most = Math.max(1e-9, ...heads.map((one) => value(one) ?? 0));
    for (const one of heads) {
      const known = value(one) ?? null;
      one.caption.textContent = `${one.site.layer}.${one.head}`;
      one.number.textContent = known === null ? "" : brief(known);
      one.meter.style.width = known === null ? "0" : `${Math.max(0, (known / most) * 100)}%`;
      one.button.title = `layer ${one.site.layer}, head ${one.head}${known === null ? "" : `: ${measure} ${exactly(known)}`}`;
      one.button.setAttribute("aria-label", one.button.title);
      one.button.setAttribute("aria-current", String(one.site === page.site() && one.head === page.head()));
    }
    list.replaceChildren();
    list.classList.toggle("sorted", !inPlace);
    if (inPlace) {
      const columns = Math.max(...sites.map((site) => site.heads));
      list.style.setProperty("--columns", columns);
      list.style.setProperty("--widest", `${columns <= 6 ? 190 : 118}px`);
      for (const site of sites) {
        const own = heads.filter((one) => one.site === site).map((one) => one.button);
        list.append(make("div", { class: "row" }, make("span", {}, String(site.layer)), own));
      }
    } else {
      const sign = chosen.sort.startsWith("-") ? 1 : -1;
      const order = [...heads].sort((a, b) => sign * ((value(a) ?? -Infinity) - (value(b) ?? -Infinity)));
      list.append(...order.map((one) => one.button));
    }
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
