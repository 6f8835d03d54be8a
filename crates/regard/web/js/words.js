// The axes of a map: tokens, or whole words; with or without special tokens.

/** The entries (places) of an axis: the tokens that each covers, and its label. The server makes the same ones. */
export function axisOf(tokens, { merge, hide }) {
  const places = [];
  tokens.forEach((token, i) => {
    if (hide && token.special) return;
    const last = places.at(-1);
    const goesOn = merge && last && last.end === i && !token.special && tokens[last.start].word === token.word;
    if (goesOn) {
      last.end = i + 1;
      if (last.end - last.start === 2) last.label = last.label.replace(/^##/, "");
      last.label += last.part_of && last.part_of === token.part_of ? "" : (token.part_of ?? token.text).replace(/^##/, "");
      last.part_of = token.part_of;
    } else {
      places.push({ start: i, end: i + 1, label: merge && token.part_of ? token.part_of : spelled(token.text), special: token.special, part_of: token.part_of });
    }
  });
  if (places.length === 0) return tokens.map((token, i) => ({ start: i, end: i + 1, label: spelled(token.text), special: token.special }));
  return places;
}

/** The tokens of the queries and those of the keys, in a group of attentions. */
export function sidesOf(reading, group) {
  const queries = group === "decoder" || group === "cross" ? reading.target : reading.source;
  return [queries, group === "decoder" ? reading.target : reading.source];
}

/** The index of the axis entry that a token belongs to, or of the nearest. */
export function placeOf(axis, token) {
  const found = axis.findIndex((place) => token < place.end);
  return found < 0 ? axis.length - 1 : found;
}

/** A token's text with its leading space, line breaks, tabs and other control characters visible. */
export const spelled = (text) => text.replace(/^ /, "·").replaceAll("\n", "⏎").replaceAll("\t", "⇥").replace(/[\u0000-\u001f]/g, (control) => String.fromCodePoint(0x2400 + control.codePointAt(0))) || "∅";

/** A label that is not too long. */
export function shortened(label, most = 16) {
  const letters = [...label];
  return letters.length <= most ? label : letters.slice(0, most - 1).join("") + "…";
}

/** The name of a group of attentions. */
export function groupName(group) {
  return { self: "self", encoder: "encoder (source → source)", decoder: "decoder (target → target)", cross: "cross (target → source)" }[group];
}
