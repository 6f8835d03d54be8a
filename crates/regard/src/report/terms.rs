//! Words that the article uses and a newcomer may not know.

/// A term and what it means here.
pub const TERMS: &[(&str, &str)] = &[
    (
        "AUC",
        "the probability that a positive example is ranked above a negative one: 0.5 is chance, 1 is perfect.",
    ),
    ("blank-out", "taking one word away (making it unknown) and seeing how the answer changes."),
    (
        "entropy",
        "how evenly weights are spread, in nats: 0 if one word has all, ln *n* if *n* words have the same. Often shown as a share of ln *n*.",
    ),
    ("head", "one set of queries, keys and values in a layer, with a table of weights of its own."),
    ("hidden word", "a word that is replaced by a mark, and is to be told from what stands around it."),
    (
        "interval",
        "where the mean over ever more seeds would lie, with 95 % confidence (Student's). It is as wide on both sides, so that it may end \
         beyond what is possible, a share of 1.03, say.",
    ),
    (
        "Jensen–Shannon divergence",
        "how different two sets of weights are, in bits: 0 if they are equal, 1 if no word has weight in both.",
    ),
    (
        "k-medoids, silhouette",
        "a way to put things into groups by their distances, and how much nearer each is to its own group than to the next: 1 is best, 0 is none.",
    ),
    ("logit", "the number that a model gives a class before the softmax makes a probability of it."),
    (
        "loss",
        "how surprised the model is by the right answer: −ln of the probability it gave it, in nats; the mean over answers.",
    ),
    ("nat, bit", "units of information: by the natural logarithm, and by that to base 2."),
    (
        "perplexity",
        "e to the power of the loss: among how many equally likely words the model seems to hesitate.",
    ),
    (
        "rank correlation",
        "whether two measures put things in the same order: 1 the same, 0 none, −1 the reverse (Spearman's).",
    ),
    (
        "seed",
        "the number from which initial weights and the order of the data are drawn. Everything else being equal, seeds show what is chance.",
    ),
    (
        "specialisation",
        "how much the place a head looks at tells about which head it is, in bits: 0 if all heads do the same.",
    ),
    ("words that judge", "words that praise or blame by themselves, such as *superb* and *dull*."),
];
