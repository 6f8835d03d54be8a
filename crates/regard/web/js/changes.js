// Interventions on the model, in the format of links and of the server: a list of strings such as `zero:layers.5.self:1`.

import { brief } from "./numbers.js";
import { chosen, select } from "./selection.js";
import { shortened, sidesOf, spelled } from "./words.js";

/** The changes in effect. In the link they are joined by semicolons. */
export const changesNow = () => chosen.changes.split(";").filter(Boolean).map(decodeURIComponent);

/** Replaces all changes with these. */
export const setChanges = (list) => select({ changes: list.map((one) => one.replace(/[%;]/g, encodeURIComponent)).join(";") });

/** Makes a change, or undoes it if it is in effect. A head has one change at a time: a new one replaces the last. */
export function toggleChange(change) {
  const list = changesNow();
  if (list.includes(change)) return setChanges(list.filter((one) => one !== change));
  const [kind, site, head] = change.split(":");
  const sameHead = (one) => /^(zero|mean):/.test(one) && one.endsWith(`:${site}:${head}`);
  setChanges([...(kind === "zero" || kind === "mean" ? list.filter((one) => !sameHead(one)) : list), change]);
}

/** Undoes the last change. */
export const undoChange = () => setChanges(changesNow().slice(0, -1));

/** The change to a head: `zero`, `mean` or an empty string. */
export function changeOf(site, head) {
  const own = changesNow().find((one) => one === `zero:${site.name}:${head}` || one === `mean:${site.name}:${head}`);
  return own ? own.split(":")[0] : changesNow().includes(`off:${site.name}`) ? "zero" : "";
}

/** A change in words. */
export function changeInWords(change, { reading, base }) {
  // The target is a site; of `strike`, a position.
  const [kind, target, ...rest] = change.split(":");
  const site = reading?.sites.find(({ name }) => name === target);
  const layer = target.match(/layers\.(\d+)/)?.[1] ?? "?";
  const part = /^(encoder|decoder)/.exec(target)?.[0];
  const within = part ? ` of the ${part}` : "";
  const cross = target.endsWith(".cross") ? "cross-attention " : "";
  const head = (number) => `${cross}head ${layer}.${number}${within}`;
  const token = (tokens, at) => (tokens?.[at] ? `“${shortened(spelled(tokens[at].text), 14)}”` : `position ${at}`);
  const [queries, keys] = site ? sidesOf(reading, site.group) : [];
  const where = (position) => (position === "*" ? "" : ` at position ${position}`);
  switch (kind) {
    case "zero": return `${head(rest[0])} off`;
    case "mean": return `${head(rest[0])} set to its mean`;
    case "block": return `${token(queries, rest[1])} → ${token(keys, rest[2])} blocked in ${rest[0] === "*" ? `all heads of layer ${layer}${within}` : head(rest[0])}`;
    case "strike": return `without ${token((base ?? reading).source, target)} (${target})`;
    case "off": return `${target.endsWith(".ffn") ? "feed-forward" : `${cross || "attention "}`.trim()} of layer ${layer}${within} off`;
    case "scale": return `residual stream after layer ${layer}${within}${where(rest[0])} × ${brief(Number(rest[1]))}`;
    case "steer": return `residual stream after layer ${layer}${within}${where(rest[0])} moved ${brief(Number(rest[1]))} of the way to “${shortened(rest.slice(2).join(":"), 24)}”`;
    default: return change;
  }
}
