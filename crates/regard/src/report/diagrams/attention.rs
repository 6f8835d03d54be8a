//! One head step by step, masks, several heads, the soft dictionary.

use super::{MIDDLE, chain, digits, rows, titled};
use crate::figure::{Anchor, Diagram, Look, NumberTable, Picture, Rect};
use crate::report::worked;
use anyhow::Result;
use regard_nn::attention::Pattern;

/// From the words' vectors to the output of one head, with all numbers.
pub fn flow() -> Result<Picture> {
    let x = worked::vectors()?;
    let head = worked::one_head(&x, None)?;
    let mut diagram = Diagram::new(
        786.0,
        330.0,
        "The vectors x become queries, keys and values; queries and keys become scores; scores become weights; weights and values \
         become the output.",
    );
    let table = |name: &str, values, decimals, class| {
        NumberTable::new(name, rows(values, decimals)).cell(32.0, 24.0).look(class)
    };
    let input = diagram.matrix((46.0, 136.0), &table("x", &x, 0, Look::Plain).words(worked::WORDS));
    let mut made = Vec::new();
    for (index, (name, map, values)) in
        [("Q", "W_Q", &head.query), ("K", "W_K", &head.key), ("V", "W_V", &head.value)]
            .into_iter()
            .enumerate()
    {
        let top = 24.0 + 112.0 * index as f64;
        let cells = diagram.matrix((182.0, top), &table(name, values, 0, Look::Tinted(index)));
        let from = (input.right() + 6.0, input.centre().1);
        diagram.coloured_arrow(&[from, (cells.x - 6.0, cells.centre().1)], index);
        diagram.coloured(map, (150.0, [44.0, 138.0, 260.0][index]), MIDDLE, index);
        made.push(cells);
    }
    let scores = NumberTable::new("scores over √2", rows(&head.scaled, 2)).cell(42.0, 24.0);
    let scores = diagram.matrix((320.0, 80.0), &scores);
    let weights =
        NumberTable::new("weights", rows(&head.weights, 2)).cell(42.0, 24.0).shares(&head.weights.to_vec());
    let weights = diagram.matrix((506.0, 80.0), &weights);
    let output = NumberTable::new("output", rows(&head.output, 2)).cell(44.0, 24.0).look(Look::Tinted(2));
    let output = diagram.matrix((690.0, 136.0), &output);
    let middle = scores.centre().1;
    diagram
        .coloured_arrow(&[(made[0].right() + 6.0, made[0].centre().1), (scores.x - 6.0, middle - 12.0)], 0);
    diagram
        .coloured_arrow(&[(made[1].right() + 6.0, made[1].centre().1), (scores.x - 6.0, middle + 12.0)], 1);
    diagram.arrow(&[(scores.right() + 6.0, middle), (weights.x - 6.0, middle)]);
    diagram.note("softmax", (f64::midpoint(scores.right(), weights.x), middle - 12.0), MIDDLE);
    diagram.arrow(&[(weights.right() + 6.0, middle), (output.x - 6.0, output.centre().1 - 10.0)]);
    let values = made[2];
    diagram.coloured_arrow(
        &[
            (values.right() + 6.0, values.centre().1),
            (660.0, values.centre().1),
            (output.x - 6.0, output.centre().1 + 12.0),
        ],
        2,
    );
    diagram.note("rows: queries, columns: keys", (413.0, 172.0), MIDDLE);
    diagram.note("each row sums to 1", (569.0, 172.0), MIDDLE);
    diagram.note("weights·V", (734.0, 228.0), MIDDLE);
    Ok(titled("One head, from three vectors to three outputs", diagram))
}

/// A query, three entries of a dictionary, and how much of each is read.
pub fn lookup() -> Result<Picture> {
    let mut diagram = Diagram::new(
        560.0,
        222.0,
        "A query for what comes after cat is compared with three keys; most weight is on the value sat.",
    );
    diagram.heading("query", (74.0, 12.0), MIDDLE);
    diagram.heading("keys", (250.0, 12.0), MIDDLE);
    diagram.heading("values", (350.0, 12.0), MIDDLE);
    diagram.heading("weights", (476.0, 12.0), MIDDLE);
    let query = diagram.node(Rect::new(4.0, 78.0, 140.0, 44.0), "What comes\nafter “cat”?", Look::Tinted(0));
    let soft = worked::lookup(1.0)?;
    let sharp = worked::lookup(4.0)?;
    diagram.note("short query", (440.0, 32.0), MIDDLE);
    diagram.note("long query", (516.0, 32.0), MIDDLE);
    for (index, (key, value)) in [("The", "cat"), ("cat", "sat"), ("sat", "on")].into_iter().enumerate() {
        let y = 46.0 + 40.0 * index as f64;
        let key = diagram.node(Rect::new(212.0, y, 76.0, 28.0), key, Look::Tinted(1));
        let value = diagram.node(Rect::new(312.0, y, 76.0, 28.0), value, Look::Tinted(2));
        diagram.arrow(&[(key.right() + 2.0, key.centre().1), (value.x - 3.0, key.centre().1)]);
        diagram.coloured_arrow(&[(query.right() + 3.0, query.centre().1), (key.x - 4.0, key.centre().1)], 0);
        for (x, weights) in [(440.0, &soft), (516.0, &sharp)] {
            let table = NumberTable::new("", [vec![digits(weights[index], 2)]])
                .cell(52.0, 28.0)
                .shares(&weights[index..=index]);
            diagram.matrix((x - 26.0, y), &table);
        }
    }
    diagram.note(
        "The longer the query, the nearer the weights are to a plain lookup: 0, 1, 0.",
        (280.0, 196.0),
        MIDDLE,
    );
    Ok(titled("Attention as a soft dictionary", diagram))
}

/// Who may attend to whom, as the library's patterns have it.
pub fn masks() -> Result<Picture> {
    const N: usize = 6;
    let mut diagram = Diagram::new(
        700.0,
        196.0,
        "Four masks of six words: full, causal, a window of two words back, and padding of the last two words.",
    );
    let window = Pattern::Window { before: 2, after: 0 };
    let patterns = [
        ("full", Pattern::Full),
        ("causal", Pattern::Causal),
        ("window of 2", window),
        ("padding", Pattern::Full),
    ];
    for (index, (name, pattern)) in patterns.into_iter().enumerate() {
        let allowed = pattern.mask(N, N)?;
        let padding = name == "padding";
        let shown: Vec<bool> = allowed
            .values()
            .iter()
            .enumerate()
            .map(|(at, &allowed)| allowed && !(padding && at % N >= N - 2))
            .collect();
        let text = |allowed: bool| if allowed { "" } else { "0" }.to_owned();
        let cells = shown.chunks(N).map(|row| row.iter().map(|&allowed| text(allowed)).collect());
        let shares: Vec<f32> = shown.iter().map(|&allowed| if allowed { 0.55 } else { 0.0 }).collect();
        let x = 34.0 + 172.0 * index as f64;
        let cells = diagram.matrix((x, 44.0), &NumberTable::new("", cells).cell(21.0, 21.0).shares(&shares));
        diagram.heading(name, (cells.centre().0, 10.0), MIDDLE);
        diagram.note("keys →", (cells.centre().0, 32.0), MIDDLE);
    }
    diagram.note("queries ↓", (28.0, 186.0), Anchor::Start);
    diagram.note("A cell with 0 is masked: its weight is exactly zero.", (691.0, 186.0), Anchor::End);
    Ok(titled("Which keys a query may attend to", diagram))
}

/// The same vectors through several heads.
pub fn heads() -> Picture {
    let mut diagram = Diagram::new(
        690.0,
        262.0,
        "The vectors x go into every head, each with projections and weights of its own; the outputs are joined and mixed by W_O.",
    );
    let input = diagram.node(Rect::new(4.0, 96.0, 72.0, 52.0), "x\nn × d", Look::Plain);
    let joined = diagram.node(Rect::new(470.0, 36.0, 66.0, 172.0), "joined\nn × d", Look::Plain);
    for (index, name) in ["head 0", "head 1", "head h−1"].into_iter().enumerate() {
        let y = [36.0, 96.0, 176.0][index];
        diagram.coloured_arrow(&[(input.right() + 3.0, input.centre().1), (128.0, y + 16.0)], index);
        let boxes = chain(
            &mut diagram,
            (132.0, y),
            (22.0, 32.0),
            &[
                ("Q, K, V", 70.0, Look::Tinted(index)),
                ("weights", 70.0, Look::Tinted(index)),
                ("n × d/h", 70.0, Look::Tinted(index)),
            ],
        );
        if let (Some(first), Some(last)) = (boxes.first(), boxes.last()) {
            diagram.note(name, (first.x, first.y - 10.0), Anchor::Start);
            diagram.coloured_arrow(&[(last.right() + 2.0, y + 16.0), (joined.x - 3.0, y + 16.0)], index);
        }
    }
    diagram.label("…", (167.0, 150.0), MIDDLE);
    let mixed = diagram.node(Rect::new(564.0, 96.0, 46.0, 52.0), "W_O", Look::Plain);
    diagram.arrow(&[(joined.right() + 2.0, 122.0), (mixed.x - 3.0, 122.0)]);
    diagram.arrow(&[(mixed.right() + 2.0, 122.0), (640.0, 122.0)]);
    diagram.label("output", (664.0, 108.0), MIDDLE);
    diagram.note("n × d", (664.0, 136.0), MIDDLE);
    diagram.note("n words, d numbers a word, h heads of d/h numbers each. Every head has a table of weights of its own.", (4.0, 246.0), Anchor::Start);
    titled("Several heads read the same vectors", diagram)
}
