// The page: the current reading, the open view, and the responses to user input.

import { forgetColours } from "./colours.js";
import { endPreview, markToken, previewTokens, showControls, showTokens } from "./controls.js";
import { at, make, nextFrame, settled, within } from "./dom.js";
import { copyLink, saveCsv, savePng, saveSvg } from "./download.js";
import { embeddedSource } from "./embedded.js";
import { explain } from "./explain.js";
import { examplePicture, exampleText } from "./example.js";
import { filmOf, runOf } from "./film.js";
import { drawnIds, goingOn } from "./going_on.js";
import { pressed } from "./keys.js";
import { maskOf, predictedAt } from "./outcome.js";
import { showOverview } from "./overview.js";
import { several } from "./numbers.js";
import { changesNow } from "./changes.js";
import { showPanel } from "./panel.js";
import { chosen, select, selectFromAddress, whenSelected } from "./selection.js";
import { serverSource } from "./server.js";
import { followTheme } from "./theme.js";
import { classesView } from "./view_classes.js";
import { flowView } from "./view_flow.js";
import { headView } from "./view_head.js";
import { lensView } from "./view_lens.js";
import { headsView } from "./view_heads.js";
import { linesView } from "./view_lines.js";
import { nextView } from "./view_next.js";
import { whyView } from "./view_why.js";
import { withoutView } from "./view_without.js";
import { patchingView } from "./view_patching.js";
import { compareView } from "./view_compare.js";
import { searchView } from "./view_search.js";
import { showTour, spotTour, startTour } from "./tour.js";
import { sidesOf } from "./words.js";

const views = [headsView, headView, linesView, whyView, flowView, lensView, classesView, nextView, withoutView, patchingView, compareView, searchView];

/** Milliseconds that a view waits for the changed prediction. */
const longestOutcome = 300;

const held = document.getElementById("held");
const page = {
  source: held ? embeddedSource(JSON.parse(held.textContent)) : serverSource(),
  reading: null,
  /** The same reading without interventions, if there are any. */
  base: null,
  measures: null,
  picture: null,
  history: [],
  // An encoder–decoder model opens on its decoder.
  group: () => (page.reading.groups.includes(chosen.group) ? chosen.group : page.reading.target.length > 1 ? "decoder" : page.reading.groups[0]),
  sites: () => page.reading.sites.filter((site) => site.group === page.group()),
  site: () => page.sites()[Math.min(chosen.layer, page.sites().length - 1)],
  head: () => Math.min(chosen.head, (page.site()?.heads ?? 1) - 1),
  asking: () => (page.reading.sites.length ? sidesOf(page.reading, page.group())[0] : page.reading.source),
  query: () => (chosen.query >= 0 && chosen.query < page.asking().length ? chosen.query : usualQuery()),
  /** The tokens at whose positions the model predicts, and the chosen position among them: by default the last, or the mask token. */
  predicting: () => (page.reading.target.length ? page.reading.target : page.reading.source),
  position: () => (chosen.query >= 0 && chosen.query < page.predicting().length && page.asking() === page.predicting() ? chosen.query : predictedAt(page)),
  again: () => {
    stale = true;
    later();
  },
  fitsView: (name) => views.find((view) => view.name === name)?.fits(page.reading) ?? false,
  drawn: () => drawnIds().length,
  offerMeasures: () => showControls(current(), page),
};
const { step, stepMany, stepBack, forget } = goingOn(page, { read, refresh, complain });
Object.assign(page, { step, stepMany, stepBack, painted: () => {}, painting: null });
page.film = filmOf(page, { complain, turn: async () => {
  await read({ again: true, keep: true });
  await page.painting;
} });

/** The default query: the class token of a picture, the mask token, or the last token that is not special. */
function usualQuery() {
  const mask = page.reading.answer === "masked" ? maskOf(page) : -1;
  if (mask >= 0) return mask;
  const last = page.reading.patches ? 0 : page.asking().findLastIndex((token) => !token.special);
  return last < 0 ? Math.max(0, page.asking().length - 1) : last;
}

let open = null;
let stop = new AbortController();
let reader = new AbortController();
let focused = "";
const current = () => views.find((view) => view.name === chosen.view) ?? headsView;

function complain(problem) {
  if (problem?.name === "AbortError") return;
  at("problem").textContent = problem ? problem.message : "";
  at("problem").hidden = !problem;
}

/** Marks the tab of the open view, and scrolls to it if the tabs are wider than the page. */
function showTabs(view) {
  for (const tab of at("tabs").children) {
    const mine = tab.dataset.view === view.name;
    tab.setAttribute("aria-selected", String(mine));
    const named = views.find(({ name }) => name === tab.dataset.view);
    if (page.reading && named.titleFor) tab.textContent = named.titleFor(page.reading);
    tab.tabIndex = mine ? 0 : -1;
    tab.classList.toggle("dim", Boolean(page.reading) && !views.find(({ name }) => name === tab.dataset.view).fits(page.reading));
    if (!mine) continue;
    requestAnimationFrame(() => {
      const [row, box] = [at("tabs").getBoundingClientRect(), tab.getBoundingClientRect()];
      at("tabs").scrollLeft += Math.max(0, box.right - row.right + 24) - Math.max(0, row.left - box.left + 24);
    });
  }
}

/** Finished drawings of views that were left, by what they show, the newest last. What the open one shows, once it is finished; whether it is out of date. */
const drawings = new Map();
const mostDrawings = 6;
let drawn = "";
let stale = false;

/** Everything that a drawing depends on. */
function drawingKey() {
  const { view, tour, ...rest } = chosen;
  const about = [page.reading?.id, page.base?.id, page.known, Boolean(page.generating), page.film.snapshots().length, innerWidth];
  return JSON.stringify([current().name, rest, about]);
}

/** Closes the open view. Its drawing is kept, if it can be used again. */
function leave(root) {
  const part = root.querySelector(":scope > .part");
  if (open && drawn && !stale && part && (!open.close || open.reopen)) {
    drawings.delete(drawn);
    drawings.set(drawn, { part, shown: open });
    if (drawings.size > mostDrawings) drawings.delete(drawings.keys().next().value);
  }
  open?.close?.();
  open = null;
  drawn = "";
  stale = false;
}

/** Shows a kept drawing. */
function reopen(root, view, { part, shown }) {
  root.replaceChildren(part);
  open = shown;
  open.reopen?.();
  Object.assign(page, { painting: Promise.resolve(), painted: () => {} });
  drawn = drawingKey();
  root.dataset.shown = view.name;
  spotTour();
}

/** Shows the open view. With `keep`, the old drawing stays until the new one is ready; with `again`, what has been drawn is used again. */
async function show({ keep = false, again = false } = {}) {
  stop.abort();
  stop = new AbortController();
  page.signal = stop.signal;
  const [view, root] = [current(), at("view")];
  leave(root);
  // If the replaced element has the focus, its successor gets it.
  if (root.contains(document.activeElement) && document.activeElement !== root) focused = document.activeElement.id;
  showTabs(view);
  showOverview(page);
  document.title = [page.reading && view.title, page.reading?.model, "Regard"].filter(Boolean).join(" · ");
  for (const unfinished of root.querySelectorAll(":scope > .next-part")) unfinished.remove();
  const kept = keep ? [...root.children] : [];
  if (!kept.length) root.replaceChildren();
  root.setAttribute("aria-label", view.title);
  root.removeAttribute("data-shown");
  showControls(view, page);
  if (!page.reading) return;
  if (!view.fits(page.reading)) return root.append(make("p", { class: "muted" }, view.lacks));
  const known = drawings.get(drawingKey());
  if (again && known) {
    reopen(root, view, known);
    return restoreFocus();
  }
  const mine = stop.signal;
  const part = make("div", { class: kept.length ? "part busy next-part" : "part busy" });
  // Prepended, so that ids refer to the new elements.
  root.prepend(part);
  page.painting = new Promise((done) => {
    page.painted = () => {
      if (!mine.aborted && part.isConnected) for (const old of kept) old.remove();
      part.classList.remove("next-part");
      done();
    };
    mine.addEventListener("abort", done, { once: true });
  });
  try {
    const shown = await view.show(part, page);
    if (mine.aborted) return shown?.close?.();
    open = shown;
    page.painted();
    await explain(shown, part);
    if (mine.aborted) return;
    drawn = drawingKey();
    root.dataset.shown = view.name;
    spotTour();
    restoreFocus();
  } catch (problem) {
    if (mine.aborted) return;
    // The server evicted the reading from its cache: read again, then continue.
    if (problem.status === 410) return read({ again: true });
    complain(problem);
  } finally {
    part.classList.remove("busy");
    page.painted();
  }
}

/** Gives the focus to the successor of the element that had it. */
function restoreFocus() {
  if (focused && document.activeElement === document.body) at(focused)?.focus({ preventScroll: true });
  focused = "";
}

/** The input in the form. */
function formInput() {
  const input = { model: page.film.nameOf(at("model").value), text: at("text").value, second: at("second-field").hidden ? "" : at("second").value };
  if (!at("picture-field").hidden) input.picture = (page.picture ?? "").replace(/^data:[^,]*,/, "");
  return input;
}

/** Why the input cannot be read; null if it can. */
function lacking(input) {
  if (!page.source.live) return null;
  if ("picture" in input) return input.picture ? null : "Choose a picture (PNG or JPEG) first.";
  return input.text.trim() ? null : "There is nothing to read: type a text first.";
}

/** Clears the last reading, which must not be shown under another model's name. */
function letGo() {
  page.reading = page.base = page.known = null;
  page.history = [];
  at("about").textContent = "";
  showTokens(page);
  show();
}

/**
 * Reads the input; with `again`, also the tokens sampled after it. With `keep`, the view stays until then; with `undoing`, a drawing
 * of the same reading is used again. Returns whether it was read.
 */
async function read({ again = false, keep = false, undoing = false } = {}) {
  reader.abort();
  reader = new AbortController();
  const mine = reader.signal;
  endPreview();
  complain(null);
  const input = formInput();
  if (page.reading && runOf(page.reading.model) !== runOf(input.model)) letGo();
  const problem = lacking(input);
  if (problem) {
    complain(new Error(problem));
    showTokens(page);
    return false;
  }
  at("read").disabled = true;
  if (!keep) at("said").textContent = "Computing.";
  try {
    const drawn = again ? drawnIds() : [];
    const wanted = drawn.length ? { ...input, drawn } : input;
    const plain = await page.source.read(wanted, mine);
    if (mine.aborted) return false;
    const { reading, base, wrong } = await changed(plain, wanted, mine);
    if (mine.aborted) return false;
    Object.assign(page, { reading, base, measures: null, history: [] });
    const part = { model: at("model").value, text: "picture" in input ? chosen.text : input.text, second: input.second, drawn: drawn.join(",") };
    if (!again) {
      forget();
      if (page.known && page.known.text !== input.text) Object.assign(part, { query: -1, key: -1 });
    }
    page.known = { ...part, model: input.model };
    quietly(part);
    await refresh({ keep, again: undoing });
    if (mine.aborted) return false;
    page.film.sample();
    if (wrong) complain(wrong);
    if (!keep) at("said").textContent = `Read ${several(page.reading.source.length, "token")}.`;
    return true;
  } catch (trouble) {
    if (mine.aborted) return false;
    // A film that is too fast for the server skips steps.
    if (!keep || trouble.status !== 503) complain(trouble);
    // The previous reading is still shown.
    showTokens(page);
    return false;
  } finally {
    if (!mine.aborted) at("read").disabled = false;
  }
}

/** The reading with the selected changes, or without any if one of them does not apply to this text or model. */
async function changed(plain, wanted, signal) {
  const changes = page.source.live ? changesNow() : [];
  if (!page.source.live) return { reading: plain, base: page.source.base ?? null };
  if (!changes.length) return { reading: plain, base: null };
  try {
    return { reading: await page.source.read({ ...wanted, changes }, signal), base: plain };
  } catch (wrong) {
    return { reading: plain, base: null, wrong };
  }
}

/** Changes the selection on the page's own behalf: no history entry, and nothing is drawn twice. */
let quiet = false;
function quietly(part) {
  quiet = true;
  select(part, { step: false });
  quiet = false;
}

/** Updates the page after a reading. */
async function refresh({ keep = false, again = false } = {}) {
  const { reading } = page;
  if (!reading) return;
  const heads = reading.sites.reduce((sum, site) => sum + site.heads, 0);
  const parts = [reading.kind, heads ? layersOf(reading) : "", heads ? several(heads, "head") : "", several(reading.source.length, "token")];
  at("about").textContent = parts.filter(Boolean).join(" · ");
  if (page.sites().length && chosen.layer >= page.sites().length) quietly({ layer: 0 });
  if (page.site() && chosen.head >= page.site().heads) quietly({ head: 0 });
  // If the view does not apply to this model, open the first one that does.
  if (!current().fits(reading)) quietly({ view: views.find((view) => view.fits(reading))?.name ?? "heads" });
  showTokens(page);
  const outcome = showPanel(page);
  showTour(page);
  if (page.base && !(again && drawings.has(drawingKey()))) {
    // Drawing the view takes long: the changed prediction comes first.
    at("view").removeAttribute("data-shown");
    await within(longestOutcome, outcome.then(nextFrame));
    if (page.reading !== reading) return;
  }
  show({ keep, again });
}

/** The number of layers; of each stack if there are two. */
function layersOf(reading) {
  const count = (group) => reading.sites.filter((site) => site.group === group).length;
  return reading.groups.includes("encoder") ? `${count("encoder")} + ${several(count("decoder"), "layer")}` : several(count("self"), "layer");
}

/** Shows the input fields of the chosen kind of model. */
function showFields() {
  const kind = at("model").selectedOptions[0]?.dataset.kind ?? "";
  const [pictures, pairs, target] = [/vit|deit|dinov2|vision/.test(kind), /bert|electra/.test(kind), /t5|bart|marian/.test(kind)];
  at("picture-field").hidden = !pictures || !page.source.live;
  at("text").parentElement.hidden = pictures;
  at("second-field").hidden = !(pairs || target);
  at("second-name").textContent = target ? "Decoder prefix (may be empty)" : "Second text (may be empty)";
  at("text-name").textContent = target ? "Source" : "Text";
  const grey = at("model").selectedOptions[0]?.dataset.grey === "true";
  if (pictures && page.source.live && (!page.picture || page.exampleFor !== undefined)) {
    page.picture = keptPicture() ?? examplePicture(grey);
    page.exampleFor = grey;
  }
}

/** A picture is too large for the link; the browser keeps it in session storage. */
function keptPicture(picture) {
  try {
    if (picture) sessionStorage.setItem("picture", picture);
    return sessionStorage.getItem("picture");
  } catch {
    return null;
  }
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
  at("progress").hidden = !training || models.length > 0;
  if (training && !models.length) {
    const { problem } = training;
    at("progress").replaceChildren(...(problem
      ? [`The model could not be trained: ${problem}`]
      : [make("span", {}, make("progress", {}), " A model is about to be trained: reading its data.")]));
    return setTimeout(loadModels, 300);
  }
  complain(null);
  if (!models.length) return complain(new Error("No model was found: start with `regard serve MODEL`."));
  at("model").replaceChildren(...models.map(({ name, kind, grey }) => make("option", { value: name, "data-kind": kind, "data-grey": String(Boolean(grey)) }, name)));
  const missing = page.source.live && chosen.model && !models.some(({ name }) => name === chosen.model) ? chosen.model : "";
  if (missing) quietly({ model: models[0].name, drawn: "", query: -1, key: -1 });
  at("model").value = chosen.model || models[0].name;
  page.picture = page.source.picture ?? page.picture;
  if (!page.source.live) {
    at("model").value = models[0].name;
    at("ask").hidden = true;
    if (!location.hash) quietly(page.source.start);
  }
  showFields();
  at("text").value = page.source.text ?? (chosen.text || exampleText);
  at("second").value = page.source.second ?? chosen.second;
  await page.film.load(at("model").value);
  const shown = await read({ again: true });
  if (missing && shown) complain(new Error(`The link names the model “${missing}”, which is not offered here: this is “${models[0].name}”.`));
}

/** Redraws after a change of theme. */
function recolour() {
  forgetColours();
  drawings.clear();
  page.film.update();
  open?.repaint ? open.repaint() : show();
}

function listen() {
  at("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    read();
  });
  // Invalid input is reported on submission, not while it is typed.
  const preview = settled(150, () => previewTokens(page, formInput()).catch(() => {}));
  for (const field of [at("text"), at("second")]) {
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      read();
    });
    field.addEventListener("input", preview);
  }
  at("model").addEventListener("change", async () => {
    showFields();
    letGo();
    select({ model: at("model").value, drawn: "", query: -1, key: -1, step: -1 });
    await page.film.load(at("model").value);
    read();
  });
  at("picture").addEventListener("change", () => {
    const loader = new FileReader();
    loader.onload = async () => {
      // If the file is not a picture, the previous one stays.
      const before = page.picture;
      page.picture = loader.result;
      if (await read()) {
        keptPicture(loader.result);
        page.exampleFor = undefined;
      } else if (page.picture === loader.result) {
        page.picture = before;
        at("picture").value = "";
      }
    };
    if (at("picture").files[0]) loader.readAsDataURL(at("picture").files[0]);
  });
  followTheme(at("theme"), recolour);
  at("start-tour").addEventListener("click", () => page.reading && startTour(1, page));
  // The fragment of the address holds the selection: the skip link must not replace it.
  at("skip").addEventListener("click", (event) => {
    event.preventDefault();
    at("view").focus();
    at("view").scrollIntoView();
  });
  window.addEventListener("hashchange", () => {
    const before = { ...chosen };
    selectFromAddress();
    const texts = ["model", "text", "second", "drawn", "changes", "step"].some((name) => before[name] !== chosen[name]);
    complain(null);
    if (texts) loadModels();
    else refresh({ again: true });
  });
  document.addEventListener("keydown", (event) => pressed(event, page, views));
}

function build() {
  at("overview").open = innerWidth > 700;
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
      const name = `${page.reading.model}-${chosen.view}${chosen.view === "heads" ? "" : `-${page.site()?.layer ?? 0}-${page.head()}`}`.replace(/[^\w.-]+/g, "-").replace(/^[-.]+/, "");
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

// Changes in one turn are drawn once.
const later = settled(0, show);
whenSelected((names) => {
  if (!page.reading || quiet) return;
  if (names.includes("group")) showTokens(page);
  if (names.includes("query")) markToken(page);
  if (names.includes("tour")) showTour(page);
  if (names.includes("changes")) return read({ again: true, undoing: true });
  if (names.some((name) => ["group", "layer", "head", "query", "key"].includes(name))) showPanel(page);
  if (names.includes("view") || names.some((name) => current().redraw.includes(name))) {
    complain(null);
    later({ again: true });
  } else {
    showControls(current(), page);
    showOverview(page);
    const [part, mine] = [at("view").firstElementChild, open];
    drawn = "";
    Promise.resolve(mine?.selected?.(names)).then(() => mine && explain(mine, part)).then(() => {
      if (mine && open === mine) drawn = drawingKey();
    });
  }
});
selectFromAddress();
build();
listen();
loadModels();
