//! The block: residuals, norms, feed-forward.

use super::{listed, matrix};
use crate::report::article::Article;
use crate::report::{diagrams, listing, worked};
use anyhow::Result;
use regard_nn::tensor::Tensor;

pub fn write(article: &mut Article) -> Result<()> {
    article.section("block", "The block: residuals, norms, feed-forward");
    article.text(
        "A transformer is a stack of equal *blocks*. The words' vectors run through all of them as the *residual stream*. Each block reads the \
         stream twice and *adds* to it: first attention, which moves information between words, then a *feed-forward layer*, which works on each \
         word alone. Adding has two advantages: what was in the stream stays there unless it is cancelled, and gradients have a straight way \
         back to the first layer.",
    );
    article.diagram(
        &diagrams::block(),
        "Pre-norm is what GPT-2 and most models since then use; post-norm is the original of 2017.",
    );
    article.formula(
        "x ← x + \\text{MultiHead}(\\text{norm}(x)),   x ← x + \\text{FFN}(\\text{norm}(x))",
        &[("x", "the residual stream: one row a word, as in section 2")],
    );
    norm(article)?;
    feed_forward(article)?;
    article.heading("In code");
    article.text("The whole block of the example. The library's own has more variants, but the same two lines in its middle.");
    article.code(&listing::BLOCK)?;
    article.example("By hand", |article| {
        article.text(
            "With the head of section 3, the causal mask of section 4, and a feed-forward layer with $W_1 = \\matrix{1 & −1 & 0 & 0 \\\\ 0 & 0 & 1 & −1}$, \
             $W_2 = \\matrix{1 & 0 \\\\ 0 & 1 \\\\ 1 & 0 \\\\ 0 & 1}$ and no biases, the three words change like this:",
        );
        article.calculation(&format!(
            "{} → {}",
            matrix(&worked::vectors()?, 0),
            matrix(&worked::block_example()?, 2)
        ));
        Ok(())
    })?;
    article.heading("What the trained models show");
    article.text(
        "Where the norm stands matters most in deep models. After the sum (*post-norm*), a gradient on its way to the first layer passes two norms \
         in every block. Such models need *warm-up*, small steps at the beginning (Xiong et al., 2020). For the figure it was left out on purpose.",
    );
    article.figure("norm-placement", "loss_by_depth_and_placement")?;
    article.look_inside(
        "Look inside: how the words' information flows through the layers of the trained model",
        "flow",
        None,
    );
    article.exercise(
        "Compute the layer norm of (1, 0) and of (5, 3), with *g* = 1 and *b* = 0. What do you notice?",
        "Both are (1, −1), up to *ε*: the mean of (1, 0) is ½ and its deviation is ½; the mean of (5, 3) is 4 and its deviation is 1. Of two numbers \
         a layer norm keeps only which is larger. With hundreds of numbers it keeps nearly everything: it removes two of them, mean and size.",
    );
    article.try_it(
        "Train a deep post-norm model and watch the loss.",
        "regard train words-gpt --set model.norm=post --set model.n_layers=12 --out runs/post",
    );
    article.claims(&["E5", "E14", "E6", "E12"]);
    Ok(())
}

fn norm(article: &mut Article) -> Result<()> {
    article.heading("The norm");
    article.text(
        "Every block adds to the stream, so its numbers would grow. A *layer norm* brings each vector to a standard size before it is read: it \
         subtracts the mean of the vector's numbers and divides by their standard deviation.",
    );
    article.formula(
        "\\text{norm}(x) = g·\\frac{x − μ}{\\sqrt{σ^2 + ε}} + b,   μ = \\frac{1}{d} ∑_i x_i,   σ^2 = \\frac{1}{d} ∑_i (x_i − μ)^2",
        &[
            ("x", "here the vector of one word, with the numbers $x_i$"),
            ("μ", "the mean of its numbers"),
            ("σ^2", "their variance"),
            ("ε", "a small number, such as 0.00001, so that nothing is divided by 0"),
            ("g, b", "a factor and a summand for each number, which are learned; 1 and 0 at first"),
        ],
    );
    let numbers = [2.0, 4.0, 6.0, 8.0];
    let normed = worked::norm(&Tensor::new(&numbers, [1, 4])?)?;
    article.example("By hand", |article| {
        article.text(format!(
            "The vector (2, 4, 6, 8) has the mean 5 and the variance (9 + 1 + 1 + 9)/4 = 5. Subtract 5 and divide by √5 = 2.24: ({}).",
            listed(&normed.to_vec(), 2)
        ));
        Ok(())
    })
}

fn feed_forward(article: &mut Article) -> Result<()> {
    article.heading("The feed-forward layer");
    article.text(
        "Two matrices with a non-linear function between them: the first makes the vector wider (usually four times), the second brings it back. \
         Without the function between them the two matrices would be one. The usual function is *GELU*. It multiplies a number by the probability \
         that a standard normal variable is smaller: large numbers pass, very negative ones are stopped, and numbers near zero pass in part. \
         The older *ReLU* simply cuts off at zero.",
    );
    article.formula(
        "\\text{FFN}(x) = \\text{GELU}(x W_1 + b_1) W_2 + b_2,   \\text{GELU}(z) = z·Φ(z) = \\frac{z}{2} (1 + \\text{erf}(\\frac{z}{\\sqrt{2}}))",
        &[
            ("W_1, W_2", "matrices of *d* × 4*d* and 4*d* × *d* numbers; $b_1$ and $b_2$ are added to each row"),
            ("z", "a number between the two matrices"),
            ("Φ(z)", "the probability that a standard normal variable is smaller than *z*; *erf* is the error function, which computes it"),
        ],
    );
    article.text("GPT-2, and the GPTs of this page, compute GELU by a formula that is cheaper and differs in the fourth digit:");
    article.formula(
        "\\text{GELU}(z) ≈ \\frac{z}{2} (1 + \\text{tanh}(\\sqrt{\\frac{2}{π}} (z + 0.044715 z^3)))",
        &[("π", "3.14159…")],
    );
    let at = [-2.0, -1.0, 0.0, 1.0, 2.0];
    let (gelu, relu) = worked::activations(&at)?;
    article.example("By hand", |article| {
        let row = |name: &str, values: &[f32], decimals: usize| {
            let values = values.iter().map(|value| crate::report::diagrams::digits(*value, decimals));
            [name.to_owned()].into_iter().chain(values).collect::<Vec<String>>()
        };
        let header = row("z", &at, 0);
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        article.table(&header, &[row("GELU", &gelu, 3), row("ReLU", &relu, 0)]);
        article.text("At −1, ReLU gives 0 and has the slope 0: such a unit learns nothing. GELU still has a slope there.");
        Ok(())
    })
}
