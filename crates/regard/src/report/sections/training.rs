//! The loss, gradients, Adam, and what training changes in attention.

use super::listed;
use crate::report::article::Article;
use crate::report::{diagrams, listing, worked};
use anyhow::Result;

pub fn write(article: &mut Article) -> Result<()> {
    article.section("training", "Training, and what it changes in attention");
    article.text(
        "All matrices start as random numbers. Training is one loop: let the model guess, measure how wrong it is (the *loss*), compute for every \
         number in the model how the loss would change with it (the *gradient*), and move each number a little in the direction that lowers the \
         loss. Nothing says what attention should look at. It comes to look at whatever lowers the loss.",
    );
    article.diagram(
        &diagrams::training(),
        "The gradient is computed backwards through the same steps: the chain rule, one operation at a time.",
    );
    article.heading("The loss");
    article.text(
        "The loss is the *cross-entropy*: how surprised the model is by the right answer. It is 0 if the model was certain of it, and grows \
         without limit as its probability goes to 0. *Perplexity* is the same on another scale: among how many equally likely words the model \
         seems to hesitate.",
    );
    article.formula(
        "L = −\\frac{1}{N} ∑_t \\text{ ln }P(w_t),   \\text{perplexity} = e^L",
        &[
            ("L", "the loss, in nats"),
            ("N", "the number of guesses"),
            ("w_t", "the right word at position *t*, and $P(w_t)$ the probability that the model gave it"),
        ],
    );
    let step = worked::one_step([2.0, 1.0, 0.0], 1, 1.0)?;
    article.example("By hand", |article| {
        article.text(format!(
            "After *time* a model gives the words *time*, *flies* and *fast* the logits 2, 1 and 0. The softmax makes probabilities of them: {}. The \
             right word is *flies*, so the loss is −ln {:.3} = {:.3}.",
            listed(&step.probabilities, 3),
            step.probabilities[1],
            step.loss
        ));
        article.text(format!(
            "The gradient of the loss for each logit is the probability, less 1 for the right word: {}. Take it off the logits (a step of size 1): they \
             become {}, and the loss falls to {:.3}.",
            listed(&step.gradient, 3),
            listed(&step.logits_after, 2),
            step.loss_after
        ));
        Ok(())
    })?;
    article.code(&listing::ONE_STEP)?;
    adam(article)?;
    changes(article)?;
    article.exercise(
        "A model gives every word of a vocabulary of 1,000 words the same probability. What are its loss and its perplexity?",
        "The probability is 1/1000, so the loss is ln 1000 = 6.91 nats, and the perplexity is 1,000. A new model begins near this; anything below has \
         been learned.",
    );
    article.try_it(
        "Train the classifier of words on a treebank of your own.",
        "regard train tagger --data en_ewt-ud-train.conllu",
    );
    article.claims(&["B1", "B2", "B3", "B4", "B6", "B7"]);
    Ok(())
}

fn adam(article: &mut Article) -> Result<()> {
    article.heading("The step: Adam");
    article.text(
        "Plain gradient descent moves each number by its gradient times a small *learning rate*. Gradients of different numbers differ by orders of \
         magnitude, so one rate does not fit all. *Adam* divides each step by the usual size of that number's gradient.",
    );
    article.formula(
        "g = \\frac{∂L}{∂θ},   m ← β_1 m + (1 − β_1) g,   v ← β_2 v + (1 − β_2) g^2,   θ ← θ − η·\\frac{\\hat{m}}{\\sqrt{\\hat{v}} + ε}",
        &[
            ("θ", "a number of the model (a *parameter*)"),
            ("g", "its gradient; ∂ says that all other numbers stay as they are"),
            ("m", "a running mean of its gradients"),
            ("v", "a running mean of their squares"),
            ("β_1, β_2", "how slowly the running means follow, usually 0.9 and 0.999"),
            ("\\hat{m}, \\hat{v}", "*m* and *v*, divided by 1 − $β_1^t$ and 1 − $β_2^t$ after *t* steps, because both began at 0"),
            ("η", "the learning rate, such as 0.001"),
        ],
    );
    let moved = worked::adam((10.0, 0.001), 0.1)?;
    article.example("By hand", |article| {
        article.text(format!(
            "Two numbers have the gradients 10 and 0.001. In the first step $\\hat{{m}}$ is the gradient and $\\hat{{v}}$ its square, so both numbers move \
             by *η*·10/10 and *η*·0.001/0.001. With *η* = 0.1 the library moves them by {}: equally far, though one gradient is 10,000 times the other.",
            listed(&moved, 3)
        ));
        Ok(())
    })?;
    article.text("A step of training in the library; clipping, which shortens gradients that are too long, follows after these lines:");
    article.code(&listing::UPDATE)
}

fn changes(article: &mut Article) -> Result<()> {
    article.heading("What training changes in attention");
    article.text(
        "To see attention learn, take a task that is small enough to understand. One head in one layer reads a sentence in which one word is hidden, \
         and decides whether the hidden word is a *content word* (noun, verb, adjective, adverb) or a *function word* (article, preposition, \
         auxiliary). The figure shows the same head on the same sentence before and after training.",
    );
    article.figure("training-smooths", "before_and_after")?;
    article.text(
        "Does attention come to link words that belong together? The built-in corpus knows the grammar of each sentence, so the weight on a word's \
         true partner can be counted, and compared with a rule as simple as *always the previous word*.",
    );
    article.figure("word-links", "linked_words")?;
    article.look_inside(
        "Look inside: the heads of the language model, trained on the same texts",
        "heads",
        None,
    );
    Ok(())
}
