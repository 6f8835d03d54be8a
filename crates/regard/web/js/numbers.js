// Numbers as text: rounded for reading, or exact.

/** Four significant digits. */
export function brief(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (size === 0) return "0";
  const text = size >= 1e5 || size < 1e-4 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
  return text.replace("-", "−");
}

/** The shortest text that is exactly this 32-bit number. */
export function exactly(value) {
  if (!Number.isFinite(value)) return String(value);
  for (let digits = 1; digits <= 9; digits++) {
    const text = value.toPrecision(digits);
    if (Math.fround(Number(text)) === Math.fround(value)) return String(Number(text));
  }
  return String(value);
}

/** A share in per cent: one decimal, two below 1 %, and a bound below that. No line ends before its sign. */
export function percent(value) {
  const hundred = value * 100;
  if (hundred > 0 && hundred < 0.01) return "<\u00a00.01\u00a0%";
  return `${hundred.toFixed(hundred < 1 && hundred > 0 ? 2 : 1)}\u00a0%`;
}

/** A difference with its sign, to two decimals. */
export function signed(value) {
  const text = Math.abs(value).toFixed(2);
  return text === "0.00" ? "±0.00" : `${value < 0 ? "−" : "+"}${text}`;
}

/** A count with commas. */
export const counted = (value) => value.toLocaleString("en");

/** A count with its noun, plural unless it is 1. */
export const several = (count, what) => `${counted(count)} ${what}${count === 1 ? "" : "s"}`;
