// The page: what was read, which view is open, and what happens when something is chosen.

import { forgetColours } from "./colours.js";
import { markToken, previewTokens, showControls, showTokens } from "./controls.js";
import { at, make, settled } from "./dom.js";
import { copyLink, saveCsv, savePng, saveSvg } from "./download.js";
import { embeddedSource } from "./embedded.js";
import { pressed } from "./keys.js";
import { counted } from "./numbers.js";
import { chosen, select, selectFromAddress, whenSelected } from "./selection.js";
import { serverSource } from "./server.js";
import { classesView } from "./view_classes.js";
import { flowView } from "./view_flow.js";
import { headView } from "./view_head.js";
import { headsView } from "./view_heads.js";
import { linesView } from "./view_lines.js";
import { nextView } from "./view_next.js";
import { whyView } from "./view_why.js";
import { sidesOf } from "./words.js";

const views = [headsView, headView, linesView, whyView, flowView, classesView, nextView];
const example = "The film was not good at all, but the cast was wonderful and the ending moved me.";

const held = document.getElementById("held");
const page = {
  source: held ? embeddedSource(JSON.parse(held.textContent)) : serverSource(),
  reading: null,
  measures: null,
  picture: null,
  generated: 0,
  history: [],
  group: () => (page.reading.groups.includes(chosen.group) ? chosen.group : page.reading.groups[0]),
  sites: () => page.reading.sites.filter((site) => site.group === page.group()),
  site: () => page.sites()[Math.min(chosen.layer, page.sites().length - 1)],
  asking: () => (page.reading.sites.length ? sidesOf(page.reading, page.group())[0] : page.reading.source),
  query: () => (chosen.query >= 0 && chosen.query < page.asking().length ? chosen.query : usualQuery()),
  offerMeasures: () => showControls(current(), page),
  step, stepBack,
};

/** Who asks unless someone is chosen: the token that gathers a picture's class, else the last word. */
function usualQuery() {
  const last = page.reading.patches ? 0 : page.asking().findLastIndex((token) => !token.special);
  return last < 0 ? Math.max(0, page.asking().length - 1) : last;
}

let open = null;
let stop = new AbortController();
const current = () => views.find((view) => view.name === chosen.view) ?? headsView;

function complain(problem) {
  if (problem?.name === "AbortError") return;
  at("problem").textContent = problem ? problem.message : "";
  at("problem").hidden = !problem;
}

/** Draws the open view anew. */
async function show() {
  stop.abort();
  stop = new AbortController();
  open?.close?.();
  open = null;
  page.signal = stop.signal;
  const [view, root] = [current(), at("view")];
  for (const tab of at("tabs").children) {
    tab.setAttribute("aria-selected", String(tab.dataset.view === view.name));
    tab.tabIndex = tab.dataset.view === view.name ? 0 : -1;
    tab.classList.toggle("dim", Boolean(page.reading) && !views.find(({ name }) => name === tab.dataset.view).fits(page.reading));
  }
  root.replaceChildren();
  root.setAttribute("aria-label", view.title);
  root.removeAttribute("data-shown");
  if (!page.reading) return showControls(view, page);
  showControls(view, page);
  if (!view.fits(page.reading)) return root.append(make("p", { class: "muted" }, view.lacks));
  const mine = stop.signal;
  const part = make("div", { class: "busy" });
  root.append(part);
  try {
    const shown = await view.show(part, page);
    if (mine.aborted) return shown?.close?.();
    open = shown;
    root.dataset.shown = view.name;
  } catch (problem) {
    if (mine.aborted) return;
    // The server let the reading go to make room: read again, and go on.
    if (problem.status === 410) return read(true);
    complain(problem);
  } finally {
    part.classList.remove("busy");
  }
}

/** What to read, as the form has it. */
function asked() {
  const input = { model: at("model").value, text: at("text").value, second: at("second-field").hidden ? "" : at("second").value };
  if (!at("picture-field").hidden) input.picture = (page.picture ?? "").replace(/^data:[^,]*,/, "");
  return input;
}

/** Reads what is in the form. */
async function read(again = false) {
  complain(null);
  const input = asked();
  const needsPicture = !at("picture-field").hidden;
  if (page.source.live && !(needsPicture ? input.picture : input.text.trim())) {
    return complain(new Error(needsPicture ? "Choose a picture (PNG) first." : "There is nothing to read: type a text first."));
  }
  at("read").disabled = true;
  at("said").textContent = "Reading.";
  try {
    page.reading = await page.source.read(input);
    page.measures = null;
    page.generated = 0;
    page.history = [];
    const part = { model: input.model, text: input.text, second: input.second };
    if (!again && page.known && (page.known.model !== input.model || page.known.text !== input.text)) Object.assign(part, { query: -1, key: -1 });
    page.known = part;
    select(part);
    refresh();
    at("said").textContent = `Read ${page.reading.source.length} tokens.`;
  } catch (problem) {
    complain(problem);
  } finally {
    at("read").disabled = false;
  }
}

/** Shows what is new after a reading. */
function refresh() {
  const { reading } = page;
  const heads = reading.sites.reduce((sum, site) => sum + site.heads, 0);
  const parts = [reading.kind, heads ? `${reading.sites.length} attentions` : "", heads ? `${counted(heads)} heads` : "", `${counted(reading.source.length)} tokens`];
  at("about").textContent = parts.filter(Boolean).join(" · ");
  if (page.sites().length && chosen.layer >= page.sites().length) select({ layer: 0 });
  if (page.site() && chosen.head >= page.site().heads) select({ head: 0 });
  // A model without heads has something else to show.
  if (current() === headsView && !headsView.fits(reading)) select({ view: views.find((view) => view.fits(reading))?.name ?? "heads" });
  showTokens(page);
  show();
}

/** Goes on by a token: the one given, or one drawn. */
async function step({ token }) {
  const sampling = { greedy: false, temperature: chosen.temperature, top_k: chosen.k, top_p: chosen.p, repetition_penalty: 1, seed: 0 };
  complain(null);
  try {
    const next = await page.source.step(page.reading, { token, sampling, step: page.generated });
    page.history.push(page.reading);
    page.reading = next;
    page.generated += 1;
    refresh();
  } catch (problem) {
    complain(problem);
  }
}

function stepBack() {
  if (!page.history.length) return;
  page.reading = page.history.pop();
  page.generated -= 1;
  refresh();
}

/** The fields that a kind of model reads. */
function showFields() {
  const kind = at("model").selectedOptions[0]?.dataset.kind ?? "";
  const [pictures, pairs, target] = [kind === "vit", /bert/.test(kind), /t5/.test(kind)];
  at("picture-field").hidden = !pictures || !page.source.live;
  at("text").parentElement.hidden = pictures;
  at("second-field").hidden = !(pairs || target);
  at("second-name").textContent = target ? "What the decoder has said (may be empty)" : "Second text (may be empty)";
  at("text-name").textContent = target ? "Source" : "Text";
}

async function loadModels() {
  let state;
  try {
    state = await page.source.state();
  } catch (problem) {
    complain(problem);
    return setTimeout(loadModels, 3000);
  }
  const { models, training } = state;
  at("progress").hidden = !training;
  if (training) {
    const { step: done, steps, loss, problem } = training;
    at("progress").replaceChildren(problem
      ? `The demonstration model could not be trained: ${problem}`
      : make("span", {}, "There is no model here yet, so a small one is being trained: ", make("progress", { value: done, max: steps }), ` step ${done} of ${steps}${loss ? `, loss ${loss.toFixed(3)}` : ""}. It takes less than a minute.`));
    return setTimeout(loadModels, 700);
  }
  complain(null);
  if (!models.length) return complain(new Error("There is no model here: start with `saccade serve MODEL`."));
  at("model").replaceChildren(...models.map(({ name, kind }) => make("option", { value: name, "data-kind": kind }, name.replace(/^runs\//, ""))));
  if (models.some(({ name }) => name === chosen.model)) at("model").value = chosen.model;
  showFields();
  at("text").value = page.source.text ?? (chosen.text || example);
  at("second").value = page.source.second ?? chosen.second;
  page.picture = page.source.picture ?? null;
  if (!page.source.live) {
    at("ask").hidden = true;
    if (!location.hash) select(page.source.start);
  }
  if (at("picture-field").hidden || page.picture) await read(true);
}

function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  forgetColours();
  open?.repaint ? open.repaint() : show();
}

function listen() {
  at("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    read();
  });
  at("text").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      read();
    }
  });
  // What cannot be read is said when it is to be read, not while it is typed.
  at("text").addEventListener("input", settled(150, () => previewTokens(page, asked()).catch(() => {})));
  at("model").addEventListener("change", () => {
    showFields();
    if (at("picture-field").hidden) read();
  });
  at("picture").addEventListener("change", () => {
    const reader = new FileReader();
    reader.onload = () => {
      page.picture = reader.result;
      read();
    };
    if (at("picture").files[0]) reader.readAsDataURL(at("picture").files[0]);
  });
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => setTheme(null));
  at("theme").addEventListener("click", () => {
    const now = document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light");
    setTheme(now === "dark" ? "light" : "dark");
  });
  window.addEventListener("hashchange", () => {
    const before = { ...chosen };
    selectFromAddress();
    const texts = ["model", "text", "second"].some((name) => before[name] !== chosen[name]);
    if (texts) loadModels();
    else refresh();
  });
  document.addEventListener("keydown", (event) => pressed(event, page, views));
}

function build() {
  at("tabs").append(...views.map((view) => make("button", { type: "button", role: "tab", id: `tab-${view.name}`, "data-view": view.name, "aria-controls": "view", click: () => select({ view: view.name }) }, view.title)));
  at("tabs").addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    const next = views[(views.indexOf(current()) + by + views.length) % views.length];
    select({ view: next.name });
    at(`tab-${next.name}`).focus();
    event.preventDefault();
    event.stopPropagation();
  });
  const save = (what, write) => async () => {
    try {
      if (!open?.[what]) throw new Error("There is nothing to save yet.");
      const name = `${page.reading.model}-${chosen.view}${chosen.view === "heads" ? "" : `-${chosen.layer}-${chosen.head}`}`.replace(/[^\w.-]+/g, "-");
      await write(await open[what](), name);
    } catch (problem) {
      complain(problem);
    }
  };
  at("exports").append("Save ",
    make("button", { type: "button", id: "save-svg", click: save("svg", saveSvg) }, "SVG"),
    make("button", { type: "button", id: "save-png", click: save("svg", savePng) }, "PNG"),
    make("button", { type: "button", id: "save-csv", click: save("csv", saveCsv) }, "CSV"),
    make("button", { type: "button", id: "copy-link", click: copyLink }, "link"));
}

const later = settled(10, show);
whenSelected((changed) => {
  if (!page.reading) return;
  if (changed.includes("group")) showTokens(page);
  if (changed.includes("query")) markToken(page);
  if (changed.includes("view") || changed.some((name) => current().redraw.includes(name))) later();
  else {
    showControls(current(), page);
    open?.selected?.(changed);
  }
});
selectFromAddress();
build();
listen();
loadModels();
