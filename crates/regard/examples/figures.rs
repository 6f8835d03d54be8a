//! Draws every kind of figure from formulas, light and dark, and a page that shows them all.
//!
//! ```sh
//! cargo run --release --example figures -- outputs/figures
//! ```

use anyhow::Result;
use regard::figure::{
    Axis, Bar, Bars, Chart, ColourScale, Gallery, Groups, HeatMap, Histogram, IntervalRow, Intervals, Matrix,
    Numbers, Passage, Picture, Point, Scatter, Series, Theme, VerdictStyle, Words, font_face, stylesheet,
};
use regard_nn::tensor::random::Key;
use std::path::PathBuf;

fn main() -> Result<()> {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "outputs/figures".into()));
    std::fs::create_dir_all(&folder)?;
    let mut page = format!(
        "<!doctype html><meta charset=utf-8><title>Figures</title><style>{}{}\
         body{{background:var(--figure-paper);max-width:60rem;margin:auto}}</style>\n",
        stylesheet(),
        font_face()
    );
    for (name, picture) in all() {
        picture.write(&folder.join(format!("{name}.svg")))?;
        picture.write(&folder.join(format!("{name}.png")))?;
        picture.theme(Theme::DARK).write(&folder.join(format!("{name}-dark.png")))?;
    }
    for (_, picture) in all() {
        page += &picture.to_svg(Theme::Page);
    }
    Ok(std::fs::write(folder.join("index.html"), page)?)
}

/// Every picture with its name.
pub fn all() -> Vec<(&'static str, Picture)> {
    vec![
        ("attention", attention()),
        ("attention-small", attention_small()),
        ("attention-large", attention_large()),
        ("gallery-heads", gallery_heads()),
        ("gallery-layers", gallery_layers()),
        ("attention_heatmap_gallery", gallery_scaled()),
        ("positions", positions()),
        ("head-measure", head_measure()),
        ("confusion", confusion()),
        ("losses", losses()),
        ("gradient_norms_vs_dk", gradient_norms()),
        ("cost", cost()),
        ("scaling", scaling()),
        ("extrapolation", extrapolation()),
        ("roc", roc()),
        ("words-pca", words_pca()),
        ("heads-map", heads_map()),
        ("bars", bars()),
        ("bars-lying", bars_lying()),
        ("verdicts", verdicts()),
        ("draws", draws()),
        ("groups", groups()),
        ("words", words()),
        ("words-signed", words_signed()),
        ("two-panels", two_panels()),
    ]
}

fn split(sentence: &str) -> Vec<String> {
    sentence.split(' ').map(str::to_owned).collect()
}

fn normal(site: &str, index: u64) -> f64 {
    let key = Key::new(1).site(site);
    let (u, v) = (f64::from(key.uniform(index, 0)).max(1e-7), f64::from(key.uniform(index, 1)));
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// Softmax of scores that favour the previous word and a word a few places back.
fn weights(n: usize, sharpness: f32, back: usize, causal: bool) -> Matrix {
    let score = |row: usize, column: usize| {
        if causal && column > row {
            return f32::NEG_INFINITY;
        }
        let distance = row.abs_diff(column);
        let near = if distance == back { 2.0 } else { 1.0 / (1.0 + distance as f32) };
        sharpness * (near + 0.4 * ((row * 7 + column * 13) as f32).sin())
    };
    let sums: Vec<f32> = (0..n).map(|row| (0..n).map(|column| score(row, column).exp()).sum()).collect();
    Matrix::from_fn(n, n, |row, column| score(row, column).exp() / sums[row])
}

const SENTENCE: &str = "the film was not as good as the critics had promised but its ending stayed with me";

fn attention() -> Picture {
    let words = split(SENTENCE);
    let map =
        HeatMap::new(weights(words.len(), 2.0, 1, true), ColourScale::sequential("weight").range(0.0, 0.8))
            .words(words.clone(), words)
            .names("attends", "attended to")
            .mask(|row, column| column > row)
            .highlight(5, 3);
    Picture::new("The head looks at the word before")
        .subtitle("Layer 2, head 3, after 2,000 steps; “good” looks at “not”")
        .note("Hatched: masked, a word cannot see those after it.")
        .panel(map)
}

fn attention_small() -> Picture {
    let words = split("[CLS] the cat sat on internationalisation [SEP]");
    let matrix = weights(7, 1.5, 2, false);
    let with_gap = Matrix::from_fn(7, 7, |r, c| if (r, c) == (3, 4) { f32::NAN } else { matrix.at(r, c) });
    let map = HeatMap::new(with_gap, ColourScale::sequential("weight")).words(words.clone(), words);
    Picture::new("Before training, attention is spread").panel(map)
}

fn attention_large() -> Picture {
    let n = 512;
    let matrix = Matrix::from_fn(n, n, |row, column| {
        let distance = (row as f32 - column as f32).abs();
        let band = (-distance / 24.0).exp();
        let sink = if column == 0 { 0.9 } else { 0.0 };
        let stripe = if row >= 128 && column + 128 == row { 1.0 } else { 0.0 };
        f32::max(band * 0.6, f32::max(sink, stripe))
    });
    let map = HeatMap::new(matrix, ColourScale::sequential("weight"))
        .names("query position", "key position")
        .mask(|row, column| column > row);
    Picture::new("512 tokens: a sink, a local band and an induction stripe").panel(map)
}

fn gallery_heads() -> Picture {
    let words = split("not as good as promised");
    let n = words.len();
    let gallery =
        (0..8).fold(Gallery::new(4, ColourScale::sequential("weight").range(0.0, 1.0)), |gallery, head| {
            gallery.map(format!("head {}", head + 1), weights(n, 0.6 + 0.5 * head as f32, head % n, false))
        });
    Picture::new("All heads of layer 1").panel(gallery.words(words.clone(), words))
}

fn gallery_layers() -> Picture {
    let gallery = (0..144).fold(
        Gallery::new(12, ColourScale::sequential("weight").range(0.0, 0.5)),
        |gallery, index| {
            let (layer, head) = (index / 12, index % 12);
            gallery
                .masked_map("", weights(24, 0.5 + 0.3 * layer as f32, head, true), |row, column| column > row)
        },
    );
    let gallery = gallery
        .row_titles((1..=12).map(|layer| format!("layer {layer}")).collect())
        .column_titles((1..=12).map(|head| head.to_string()).collect());
    Picture::new("Twelve layers of twelve heads").subtitle("Columns are heads").panel(gallery)
}

fn gallery_scaled() -> Picture {
    let sizes = [4_usize, 16, 64, 256];
    let mut gallery = Gallery::new(4, ColourScale::sequential("weight").range(0.0, 1.0));
    for scaled in [false, true] {
        for size in sizes {
            let sharpness = if scaled { 1.5 } else { 1.5 * (size as f32).sqrt() };
            gallery = gallery.map("", weights(8, sharpness / 2.0, 2, false));
        }
    }
    let gallery = gallery
        .row_titles(vec!["unscaled".into(), "scaled by 1/√d".into()])
        .column_titles(sizes.iter().map(|size| format!("d = {size}")).collect());
    Picture::new("Without the scale, attention sharpens as keys grow").panel(gallery)
}

fn positions() -> Picture {
    let (count, width) = (100, 128);
    let matrix = Matrix::from_fn(count, width, |position, column| {
        let rate = 10_000_f32.powf(-((column / 2 * 2) as f32) / width as f32);
        let angle = position as f32 * rate;
        if column % 2 == 0 { angle.sin() } else { angle.cos() }
    });
    let map = HeatMap::new(matrix, ColourScale::diverging("value"))
        .names("position", "dimension")
        .area(520.0, 300.0);
    Picture::new("Sinusoidal position encodings").panel(map)
}

fn head_measure() -> Picture {
    let matrix =
        Matrix::from_fn(6, 8, |layer, head| (0.5 + 0.5 * ((layer * 5 + head * 3) as f32).sin()).powi(2));
    let map = HeatMap::new(matrix, ColourScale::sequential("share").range(0.0, 0.8))
        .row_numbers(1.0, 1.0)
        .column_numbers(1.0, 1.0)
        .names("layer", "head");
    Picture::new("Attention to the previous token").panel(map)
}

fn confusion() -> Picture {
    let classes: Vec<String> = ["content", "function", "other"].map(Into::into).into();
    let counts = Matrix::from_fn(3, 3, |row, column| {
        if row == column { 1240.0 - 300.0 * row as f32 } else { 60.0 + 31.0 * (row + 2 * column) as f32 }
    });
    Picture::new("Function words are found most often").panel(HeatMap::confusion(&classes, counts))
}

fn losses() -> Picture {
    let series = |name: &str, end: f64, rate: f64, site: &'static str| {
        let step = move |step: u64| {
            let x = step as f64 * 20.0;
            let y = end + (0.69 - end) * (-x / rate).exp() + 0.012 * normal(site, step);
            let spread = 0.02 + 0.02 * (-x / 500.0).exp();
            (x, y, y - spread, y + spread)
        };
        Series::new(name).intervals((0..=100).map(step)).band()
    };
    let chart = Chart::new(Axis::linear("step"), Axis::linear("validation loss"))
        .series(series("BiLSTM, max pool", 0.38, 420.0, "a"))
        .series(series("+ additive attention", 0.335, 380.0, "b"))
        .series(series("+ self-attention, 4 heads", 0.32, 350.0, "c"))
        .upright(600.0, "learning rate halved")
        .level(0.693, "chance, ln 2");
    Picture::new("Attention lowers the loss").subtitle("Mean of 5 seeds; band: ± 1 sd").panel(chart)
}

fn gradient_norms() -> Picture {
    let sizes = [4.0, 16.0, 64.0, 256.0];
    let series = |name: &str, value: fn(f64) -> f64| {
        Series::new(name)
            .intervals(sizes.iter().map(move |&d| (d, value(d), value(d) * 0.72, value(d) * 1.3)))
    };
    let chart = Chart::new(Axis::log("dₖ").ticks(sizes), Axis::log("gradient norm of Q"))
        .series(series("scaled by 1/√dₖ", |d| 0.9 / d.powf(0.05)))
        .series(series("unscaled", |d| 1.1 * (-d / 70.0).exp() + 0.004));
    Picture::new("Unscaled gradients vanish").note("Mean ± sd over 20 seeds.").panel(chart)
}

fn cost() -> Picture {
    let lengths: Vec<f64> = (7..=14).map(|power| 2_f64.powi(power)).collect();
    let series = |name: &str, cost: fn(f64) -> f64| {
        Series::new(name).points(lengths.clone().into_iter().map(move |n| (n, cost(n))))
    };
    let fit = Series::new("slope 2").points([(1024.0, 0.6), (16384.0, 0.6 * 256.0)]).fit().class(5);
    let chart = Chart::new(Axis::log("length"), Axis::log("milliseconds"))
        .series(series("full", |n| 1e-2 + 2e-6 * n * n))
        .series(series("tiled", |n| 1e-2 + 1.1e-6 * n * n))
        .series(series("window of 256", |n| 2e-2 + 4e-4 * n))
        .series(series("linear", |n| 5e-2 + 1.1e-4 * n))
        .series(fit);
    Picture::new("Cost against length").panel(chart)
}

fn scaling() -> Picture {
    let sizes: Vec<f64> = (0..7).map(|i| 1e5 * 10_f64.powf(f64::from(i) / 3.0)).collect();
    let loss = |n: f64| 4.2 * (n / 1e5).powf(-0.11);
    let points = sizes.iter().enumerate().map(|(i, &n)| {
        let y = loss(n) * (1.0 + 0.015 * normal("scaling", i as u64));
        (n, y, y * 0.98, y * 1.02)
    });
    let chart = Chart::new(Axis::log("parameters"), Axis::log("loss"))
        .series(Series::new("measured").intervals(points).without_line())
        .series(
            Series::new("fit: loss ∝ N^−0.11").points(sizes.iter().map(|&n| (n, loss(n)))).fit().class(0),
        );
    Picture::new("Larger models, lower loss").panel(chart)
}

fn extrapolation() -> Picture {
    let series = |name: &str, growth: f64| {
        Series::new(name)
            .points([1.0, 1.5, 2.0, 4.0].map(|ratio| (ratio * 128.0, 44.0 * (1.0 + growth * (ratio - 1.0)))))
    };
    let names = [
        ("sinusoidal", 0.157),
        ("learned", 0.78),
        ("rotary", 0.104),
        ("ALiBi", 0.01),
        ("T5 bias", 0.03),
        ("none", 0.3),
    ];
    let empty = Chart::new(Axis::linear("length of the text"), Axis::linear("perplexity"));
    let chart = names.into_iter().fold(empty, |chart, (name, growth)| chart.series(series(name, growth)));
    Picture::new("Beyond the trained length").panel(chart.upright(128.0, "trained length"))
}

fn roc() -> Picture {
    let curve = |name: &str, power: f64| {
        Series::new(name)
            .points((0..=100).map(move |i| (f64::from(i) / 100.0, (f64::from(i) / 100.0).powf(power))))
    };
    let chart = Chart::roc([
        curve("max pool, AUC 0.88", 0.14),
        curve("additive attention, AUC 0.91", 0.10),
        curve("self-attention, AUC 0.93", 0.07),
    ]);
    Picture::new("Receiver operating characteristics").panel(chart)
}

fn words_pca() -> Picture {
    let positive = "good great wonderful excellent superb moving charming brilliant delight perfect funny warm clever fine touching";
    let negative =
        "bad awful terrible boring dull poor worst waste mess weak stupid lame horrible annoying flat";
    let neutral = "the a of film movie actor scene and it was director plot music camera";
    let class = |words: &'static str, class: usize, centre: f64| {
        words.split(' ').enumerate().map(move |(index, word)| {
            let site = ["p", "n", "z"][class];
            let (dx, dy) = (normal(site, index as u64), normal(site, 100 + index as u64));
            Point::new(centre + 0.35 * dx, 0.22 * dy).label(word).class(class)
        })
    };
    let scatter = Scatter::new(Axis::linear("PC1 (41 % of variance)"), Axis::linear("PC2 (9 %)"))
        .classes(["positive", "negative", "neutral"])
        .points(class(positive, 0, 1.0))
        .points(class(negative, 1, -1.0))
        .points(class(neutral, 2, 0.0));
    Picture::new("Sentiment lies along one axis").panel(scatter)
}

fn heads_map() -> Picture {
    let points = (0..48_u64).map(|index| {
        let class = index as usize % 4;
        let turn = class as f64 * 1.6;
        let (x, y) = (turn.cos() + 0.3 * normal("map", index), turn.sin() + 0.3 * normal("map", 100 + index));
        Point::new(x, y).label(format!("{}.{}", index / 8 + 1, index % 8 + 1)).class(class)
    });
    let scatter = Scatter::new(Axis::linear(""), Axis::linear(""))
        .classes(["local", "previous token", "delimiter", "broad"])
        .points(points)
        .equal_units();
    Picture::new("Heads by Jensen–Shannon distance").subtitle("Labels are layer.head").panel(scatter)
}

fn bars() -> Picture {
    let groups = ["accuracy", "F1", "precision", "recall", "ROC-AUC"].map(Into::into).to_vec();
    let series = |shift: f64| {
        (0..5)
            .map(|i| {
                let value = 0.84 + shift + 0.01 * f64::from(i);
                Bar::new(value).interval(value - 0.012, value + 0.012)
            })
            .collect()
    };
    let bars = Bars::upright(groups, Axis::linear("score on the test split"))
        .series("max pool", series(0.0))
        .series("additive attention", series(0.02))
        .series("self-attention", series(0.035));
    Picture::new("Three models, five scores").panel(bars)
}

fn bars_lying() -> Picture {
    let names = [
        "previous token",
        "delimiters and special tokens",
        "first token",
        "subject → verb",
        "modifier → noun",
        "long range",
        "not measured",
    ];
    let value = |i: usize| if i == 6 { f64::NAN } else { 0.3 * (i as f64 * 1.3).cos() };
    let bars = (0..7).map(|i| Bar::new(value(i)).interval(value(i) - 0.06, value(i) + 0.06)).collect();
    let bars =
        Bars::lying(names.map(Into::into).to_vec(), Axis::linear("change against the untrained model"))
            .series("", bars);
    Picture::new("What training changed").panel(bars)
}

fn verdicts() -> Picture {
    let line =
        |label: &str, value: f64, half: f64| IntervalRow::new(label, value, value - half, value + half);
    let plot = Intervals::new(Axis::linear("difference in accuracy, percentage points"))
        .reference(0.0)
        .line(
            line("C1 self-attention against max pool", 3.4, 1.1).published(4.0).verdict(VerdictStyle::Holds),
        )
        .line(
            line("C1 additive attention against max pool", 1.9, 1.0)
                .published(2.2)
                .verdict(VerdictStyle::Holds),
        )
        .line(line("C6 widened BiLSTM against max pool", 0.3, 0.9).verdict(VerdictStyle::Undecided))
        .line(line("A7 four heads against one", -0.8, 0.6).published(1.0).verdict(VerdictStyle::Fails))
        .line(
            IntervalRow::new("A6 pre-trained vectors", f64::NAN, f64::NAN, f64::NAN)
                .verdict(VerdictStyle::Undecided),
        );
    Picture::new("Claims and what was measured").note("95 % intervals over 5 seeds, paired.").panel(plot)
}

fn draws() -> Picture {
    let sample = |centre: f64, spread: f64, site: &'static str| -> Vec<f64> {
        (0..1000).map(|i| (centre + spread * normal(site, i)).clamp(0.0, 1.0)).collect()
    };
    let plot = Histogram::new(Axis::linear("mean max weight").range(0.0, 1.0))
        .sample("unscaled", &sample(0.939, 0.03, "u"))
        .mark(0.9942, "published: 0.9942")
        .sample("scaled", &sample(0.362, 0.03, "s"))
        .mark(0.368, "published: 0.3680");
    Picture::new("Where the published draw lies").subtitle("dₖ = 256, 8 tokens").panel(plot)
}

fn groups() -> Picture {
    let sample = |centre: f64, site: &'static str, n: u64| -> Vec<f64> {
        (0..n).map(|i| centre + 0.22 * normal(site, i)).collect()
    };
    let plot = Groups::new(Axis::linear("entropy of attention, nats"))
        .group_of_class("content words", &sample(1.6, "content", 90), 0)
        .group_of_class("function words", &sample(2.0, "function", 120), 1)
        .group_of_class("punctuation", &sample(2.3, "punctuation", 2000), 2);
    Picture::new("Function words attend more widely").panel(plot)
}

fn words() -> Picture {
    let passage = |text: &str, site: &'static str, strong: &[&str]| {
        let weight = |index: usize, word: &str| {
            let base = 0.02 + 0.03 * normal(site, index as u64).abs();
            (if strong.contains(&word) { 0.5 + base * 3.0 } else { base }) as f32
        };
        Passage::new(
            text.split(' ')
                .enumerate()
                .map(|(i, word)| (word.to_owned(), weight(i, word)))
                .collect::<Vec<_>>(),
        )
    };
    let words = Words::new(ColourScale::sequential("weight"))
        .passage(
            passage("a warm and funny film , with a script that never talks down to its audience and a lead who is wonderful in every scene", "w1", &["funny", "wonderful", "warm"])
                .heading("predicted positive (0.97), truly positive")
                .right(true),
        )
        .passage(
            passage("i expected to be moved ; it is not good , not even close , and the last hour could be cut without anyone noticing", "w2", &["good", "moved"])
                .heading("predicted positive (0.61), truly negative")
                .right(false),
        );
    Picture::new("What the additive attention looks at").panel(words)
}

fn words_signed() -> Picture {
    let text = "it is not good , but the music is lovely and the ending works better than <script>alert(1)</script> or 🙂 would suggest";
    let weights =
        [0.0, 0.0, -0.9, 0.35, 0.0, -0.2, 0.0, 0.1, 0.0, 0.8, 0.0, 0.0, 0.2, 0.45, 0.3, -0.05, 0.02];
    let words = text
        .split(' ')
        .enumerate()
        .map(|(i, word)| (word.to_owned(), weights.get(i).copied().unwrap_or(f32::NAN)));
    let words = Words::new(ColourScale::diverging("contribution to “positive”")).passage(Passage::new(words));
    Picture::new("Gradient × attention").panel(words)
}

fn two_panels() -> Picture {
    let map = |sharpness: f32| {
        let words = split("not as good as promised");
        HeatMap::new(weights(5, sharpness, 2, false), ColourScale::sequential("weight").range(0.0, 1.0))
            .words(words.clone(), words)
            .numbers(Numbers::Hide)
    };
    Picture::new("Before and after")
        .columns(2)
        .titled_panel("before training", map(0.3))
        .titled_panel("after 2,000 steps", map(2.4))
}
