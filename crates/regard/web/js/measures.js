// What the measures of heads mean, in words; their definitions come with their values.

const measureMeanings = {
  entropy: "how widely a query spreads its weights",
  "relative-entropy": "how evenly a query spreads its weights over the keys that it can see: 1 evenly, 0 all on one key",
  confidence: "the largest weight of a query",
  distance: "how many tokens away a query attends on average",
  far: "the weight on keys eight or more tokens away",
  previous: "the weight on the token before",
  next: "the weight on the token after",
  self: "the weight of a token on itself",
  first: "the weight on the first token",
  delimiters: "the weight on punctuation and other delimiters",
  special: "the weight on special tokens",
  sink: "the share of queries that give more than 0.3 to the first token",
  "sink-logit": "the share of the weight that no key gets",
  duplicate: "the weight on earlier occurrences of the same token",
  induction: "the weight on what followed earlier occurrences of the same token",
  "prefix-matching": "induction on repeated random tokens",
};

/** A measure in words, as a mean over the queries of a head, followed by its definition. */
export function measureInWords(measure, definition = "") {
  const meaning = measureMeanings[measure] ? `${measure}, ${measureMeanings[measure]} (mean over the queries)` : measure;
  return `${meaning}.${definition ? ` Definition: ${definition}` : ""}`;
}
