//! Terms that the article uses and a newcomer may not know.

/// A term and its meaning.
pub const TERMS: &[(&str, &str)] = &[
    ("ablation", "setting the output of a part, such as a head, to zero to see what it was for."),
    (
        "AUC",
        "the probability that a positive example is ranked above a negative one: 0.5 is chance, 1 is perfect.",
    ),
    ("blank-out", "replacing one word by the unknown word to see how the prediction changes."),
    (
        "entropy",
        "how evenly weights are spread, in nats: 0 if one word has all weight, ln *n* if *n* words have equal weights. Often given as a share of ln *n*.",
    ),
    (
        "head",
        "one set of queries, keys and values in a layer, with its own table of weights. Counted from 0.",
    ),
    (
        "interval",
        "where the mean over ever more seeds would lie, with 95 % confidence (Student's). It is equally wide on both sides, so that it may end \
         beyond what is possible, such as a share of 1.03.",
    ),
    (
        "Jensen–Shannon divergence",
        "how different two sets of weights are, in bits: 0 if they are equal, 1 if no word has weight in both.",
    ),
    (
        "k-medoids, silhouette",
        "a way to form groups by distance, and how much nearer each member is to its own group than to the next: 1 is best, 0 means no groups.",
    ),
    ("key", "the vector by which a word is found; see section 3."),
    ("logit", "the score of a class or word before the softmax turns it into a probability."),
    ("loss", "−ln of the probability that the model gave the right answer, in nats; the mean over answers."),
    ("masked word", "a word that is hidden from the model, which predicts it from the words around it."),
    ("nat, bit", "units of information: by the natural logarithm, and by the logarithm to base 2."),
    (
        "perplexity",
        "e to the power of the loss: among how many equally likely words the model seems to hesitate.",
    ),
    ("query", "the vector by which a word looks for others; see section 3."),
    (
        "rank correlation",
        "whether two measures give the same order: 1 the same, 0 unrelated, −1 the reverse (Spearman's).",
    ),
    ("residual stream", "the words' vectors on their way through the blocks, each of which adds to them."),
    (
        "seed",
        "the number from which initial weights and the order of the data are drawn. With everything else equal, seeds show what is chance.",
    ),
    ("sentiment words", "words that praise or blame by themselves, such as *superb* and *dull*."),
    (
        "specialisation",
        "how much the position that a head attends to says about which head it is, in bits: 0 if all heads do the same.",
    ),
    ("value", "the vector that a word hands over when it is attended to; see section 3."),
];
