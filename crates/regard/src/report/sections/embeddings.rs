//! Indices become vectors, and vectors learn to mean something.

use crate::report::article::Article;
use crate::report::{diagrams, listing};
use anyhow::Result;

pub fn write(article: &mut Article) -> Result<()> {
    article.section("embeddings", "Embeddings: a vector for each word");
    article.text(
        "An id says which word it is, but nothing about the word: 3 is not more than 2. So each word gets a *vector*, a list of numbers that \
         training may change. The vectors of all words are the rows of one table, and an id picks its row. A word's vector is called its \
         *embedding*.",
    );
    article.diagram(
        &diagrams::embedding()?,
        "The words of our example have the vectors (1, 0), (0, 1) and (1, 1). From here on, x is the table on the right: one row a word.",
    );
    article.heading("The formula");
    article.formula(
        "x_i = E_{w_i}",
        &[
            ("x_i", "the vector of token *i*: row *i* of the table *x*, which has *n* rows and *d* columns"),
            ("E", "the table of embeddings, with *N* rows and *d* columns; $E_w$ is its row *w*"),
            ("d", "the number of values in a vector, also called the *width* of the model"),
        ],
    );
    article.heading("In code");
    article.code(&listing::EMBED)?;
    article.heading("What training does to the vectors");
    article.text(
        "At first the rows are random, and nothing distinguishes *superb* from *dreadful*. Training moves them. For the figure, a classifier \
         learned to tell positive from negative reviews; it sees only the mean of a text's vectors. It can succeed only if words of praise \
         come to lie on one side and words of blame on the other. The figure shows the two directions in which the vectors differ most (the \
         *principal components*).",
    );
    article.figure("word-vectors", "word_map")?;
    article.text(
        "There is one main direction for a simple reason: two classes leave one number to get right, so that every gradient moves a word's \
         vector along the same line, one way or the other.",
    );
    article.look_inside(
        "Look inside: which words the language model expects, by comparing with these vectors (section 8)",
        "next",
        None,
    );
    article.exercise(
        "A vocabulary has 10,000 words and vectors of 64 numbers. How many numbers does the table hold? How many of them does one training \
         step on a text of 20 different words change?",
        "10,000 × 64 = 640,000. Only the rows of the words in the text get a gradient: 20 × 64 = 1,280 numbers.",
    );
    article.try_it(
        "Train 16-dimensional vectors yourself, then classify a text.",
        "regard train bag\nregard predict runs/bag \"a dull film with a superb ending\"",
    );
    article.claims(&["A2"]);
    Ok(())
}
