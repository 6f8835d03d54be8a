//! Text becomes numbers.

use crate::experiments::vocabulary::{CLASSES, SAMPLE};
use crate::report::article::Article;
use crate::report::{listing, worked};
use anyhow::Result;

pub fn write(article: &mut Article) -> Result<()> {
    let (results, inside) = (article.results(), article.inside());
    let (vocabulary, ids) = worked::tokens()?;
    article.section("tokens", "From text to tokens");
    article.text(
        "A model computes with numbers, so text must become numbers first. We give every word of a *vocabulary* a number, its *id*, and \
         write a text as the list of its ids. The pieces that get an id are called *tokens*. On this page tokens are whole words, because \
         words are easy to read; real models also cut rare words into pieces.",
    );
    article.text(
        "Two ids stand for no word. `<UNK>` (unknown) replaces every word that is not in the vocabulary. `<PAD>` (padding) fills up short \
         texts, so that several texts of different lengths fit into one table.",
    );
    article.example("By hand", |article| {
        let list: Vec<String> =
            vocabulary.iter().enumerate().map(|(id, word)| format!("{id} `{word}`")).collect();
        article.text(format!("Our vocabulary has {} entries: {}.", vocabulary.len(), list.join(", ")));
        let row = |text: &str, ids: &[u32]| {
            vec![format!("*{text}*"), ids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")]
        };
        article
            .table(&["text", "ids"], &[row("Time flies fast.", &ids[0]), row("Time flies slowly.", &ids[1])]);
        article.text(
            "*slowly* is not in the vocabulary: it becomes 1, and its meaning is lost. This small tokenizer makes capital letters small and drops \
             punctuation; the language model below keeps punctuation marks as tokens.",
        );
        Ok(())
    })?;
    article.heading("The formula");
    article.formula(
        "\\text{text} → (w_0, …, w_{n−1}),   0 ≤ w_i < N",
        &[
            ("n", "the number of tokens in the text"),
            ("w_i", "the id of token *i*"),
            ("i", "a position in the text, counted from 0"),
            ("N", "the size of the vocabulary"),
        ],
    );
    article.heading("In code");
    article.code(&listing::ENCODE)?;
    article.heading("What our data look like");
    article.text(format!(
        "The models of this page read film reviews. A grammar inside the program writes them: nothing has to be downloaded, and the program \
         knows the truth about every sentence, such as which words praise or blame, what is negated and which word depends on which. This \
         review is positive: *{}* And this one is negative: *{}*",
        results.words(SAMPLE.of(CLASSES[1]))?,
        results.words(SAMPLE.of(CLASSES[0]))?,
    ));
    article.text(format!(
        "The language model that was trained for this page has a vocabulary of {} tokens. It reads the sentence that we will follow through it as {} tokens:",
        inside.vocabulary,
        inside.words.len()
    ));
    let ids: Vec<String> = inside.ids.iter().map(u32::to_string).collect();
    let header: Vec<&str> = inside.words.iter().map(String::as_str).collect();
    article.table(&header, &[ids]);
    article.look_inside("Look inside: the sentence in the trained model, token by token", "heads", None);
    article.text(
        "A small vocabulary covers nearly all running text, because word frequencies fall steeply (Zipf's law). The figure shows which share \
         of unseen text the most frequent words cover.",
    );
    article.figure("vocabulary", "coverage")?;
    article.exercise(
        "With the vocabulary of the example, which ids has *Fast time flies, and flies*? What can the model no longer see?",
        "4, 2, 3, 1, 3. The word *and* has become `<UNK>`; capital letters and the comma are gone, too.",
    );
    article.try_it(
        "See how a sentence is cut into tokens, with the position of each in the text.",
        "regard train bag\nregard tokens runs/bag \"not as good as promised\"",
    );
    article.claims(&["A1"]);
    Ok(())
}
