// Computations in the browser.

/** The probability of each token: temperature, top-k and top-p, in this order, as in the library. At temperature 0 the best token has probability 1. */
export function distribution(scores, { temperature, k, p }) {
  const order = Array.from(scores.keys()).sort((a, b) => scores[b] - scores[a] || a - b);
  if (temperature === 0) return order.slice(0, 1).map((token) => ({ token, probability: 1 }));
  if (k > 0) order.length = Math.min(k, order.length);
  const most = scores[order[0]] / temperature;
  const weight = (token) => Math.exp(scores[token] / temperature - most);
  let total = 0;
  for (const token of order) total += weight(token);
  if (p < 1) {
    let before = 0;
    let kept = 0;
    while (kept < order.length && before < p) before += weight(order[kept++]) / total;
    order.length = Math.max(1, kept);
    total = order.reduce((sum, token) => sum + weight(token), 0);
  }
  return order.map((token) => ({ token, probability: weight(token) / total }));
}

/** Scores as probabilities. */
export function softmax(scores) {
  const most = scores.reduce((best, score) => Math.max(best, score), -Infinity);
  const weights = Float64Array.from(scores, (score) => Math.exp(score - most));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight) => weight / total);
}

/** −Σ p ln p. */
export const entropyOf = (shares) => -shares.reduce((sum, { probability: p }) => sum + (p > 0 ? p * Math.log(p) : 0), 0);

/** A row of weights on another scale. */
export function reweigh(row, scale, norms) {
  const changed = Float32Array.from(row);
  if (scale === "norms") changed.forEach((weight, key) => (changed[key] = weight * norms[key]));
  else if (scale === "rest" && row.length > 1) changed[0] = 0;
  else return changed;
  const sum = changed.reduce((total, value) => total + value, 0);
  if (sum > 0) changed.forEach((value, key) => (changed[key] = value / sum));
  return changed;
}

/** Rows of token weights as a map of axis entries: summed over keys, averaged over queries. */
export function mergeRows(rows, rowPlaces, columnPlaces) {
  const values = new Float32Array(rowPlaces.length * columnPlaces.length);
  rowPlaces.forEach((place, r) => {
    columnPlaces.forEach((column, c) => {
      let sum = 0;
      for (let query = place.start; query < place.end; query++) {
        for (let key = column.start; key < column.end; key++) sum += rows[query][key];
      }
      values[r * columnPlaces.length + c] = sum / (place.end - place.start);
    });
  });
  return values;
}

/** The level (0 to 255) of a value in a map whose darkest colour is `top`. */
export function levelOf(value, top, scale) {
  if (!(value > 0 && top > 0)) return 0;
  const share = scale === "log" ? 1 + Math.log10(value / top) / 4 : value / top;
  return Math.round(Math.min(1, Math.max(0, share)) * 255);
}

/** Downsamples a map: each pixel shows the largest value that it covers. */
export function shrink(values, rows, columns, height, width, first = 0) {
  const small = new Float32Array(height * width);
  for (let r = first; r < rows; r++) {
    const start = Math.floor((r * height) / rows) * width;
    for (let c = 0; c < columns; c++) {
      const pixel = start + Math.floor((c * width) / columns);
      small[pixel] = Math.max(small[pixel], values[r * columns + c]);
    }
  }
  return small;
}

/** The value of a map's darkest colour, and its largest value. The former is the 99th percentile over the pixels of a small
 * picture of the map. The server does the same. */
export function topOf(values, rows, columns, first) {
  const small = shrink(values, rows, columns, Math.min(64, rows), Math.min(64, columns), first).filter((value) => value > 0);
  small.sort((a, b) => b - a);
  return { top: small[Math.floor(small.length * 0.01)] ?? 0, largest: small[0] ?? 0 };
}

/** The indices of the largest values, largest first. */
export function largest(values, count) {
  const order = Array.from(values.keys()).sort((a, b) => values[b] - values[a] || a - b);
  return order.slice(0, count);
}

/** Rollout of a position as ribbons, from the mean weights of each layer: shares and ribbons as the server sends them. */
export function rolloutRibbons(means, tokens, position) {
  let above = new Float64Array(tokens);
  above[position] = 1;
  const [shares, ribbons] = [[Array.from(above)], []];
  for (const mean of [...means].reverse()) {
    const [below, wide] = [new Float64Array(tokens), []];
    for (let i = 0; i < tokens; i++) {
      if (!above[i]) continue;
      let sum = 0;
      for (let j = 0; j < tokens; j++) sum += (mean[i * tokens + j] + (i === j ? 1 : 0)) / 2;
      for (let j = 0; j < tokens; j++) {
        const share = (above[i] * (mean[i * tokens + j] + (i === j ? 1 : 0))) / 2 / (sum || 1);
        below[j] += share;
        if (share >= 5e-4) wide.push([j, i, share]);
      }
    }
    ribbons.unshift(wide.sort((a, b) => b[2] - a[2]).slice(0, 400));
    shares.unshift(Array.from(below));
    above = below;
  }
  return { layers: means.length, tokens, shares, ribbons };
}

/** Σ a·b. */
export const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
