//! The block, the three ways to stack it, and the classifiers with and without attention.

use super::{Labelled, MIDDLE, chain, titled, tower};
use crate::figure::{Anchor, Diagram, Look, Picture, Rect};

/// Both places of the norms, as branches of the residual stream.
pub fn block() -> Picture {
    let mut diagram = Diagram::new(
        700.0,
        300.0,
        "The residual stream runs from left to right. Attention and the feed-forward layer each read it and add their output; norms stand \
         before them (pre-norm) or after the sums (post-norm).",
    );
    for (row, pre) in [true, false].into_iter().enumerate() {
        let y = 58.0 + 154.0 * row as f64;
        diagram.heading(
            if pre {
                "pre-norm: the stream itself is never normed"
            } else {
                "post-norm: a norm after each sum"
            },
            (4.0, y - 44.0),
            Anchor::Start,
        );
        diagram.label("x", (12.0, y), MIDDLE);
        let sums = if pre { [330.0, 620.0] } else { [250.0, 540.0] };
        let starts = if pre { [46.0, 352.0] } else { [46.0, 336.0] };
        let mut from = 22.0;
        for (part, name) in ["attention", "feed-forward"].into_iter().enumerate() {
            let (sum, start) = (sums[part], starts[part]);
            diagram.line(&[(from, y), (sum - 11.0, y)]);
            let lower = y + 54.0;
            let mut left = start + 22.0;
            let mut before = vec![(start, y), (start, lower)];
            let mut boxes: Vec<Labelled> = Vec::new();
            if pre {
                boxes.push(("norm", 58.0, Look::Tinted(0)));
            }
            boxes.push((name, 104.0, Look::Tinted(part + 1)));
            for (label, width, look) in boxes {
                let rect = diagram.node(Rect::new(left, lower - 17.0, width, 34.0), label, look);
                before.push((rect.x - 2.0, lower));
                diagram.arrow(&before);
                before = vec![(rect.right() + 1.0, lower)];
                left = rect.right() + 20.0;
            }
            before.extend([(sum, lower), (sum, y + 12.0)]);
            diagram.arrow(&before);
            diagram.sign("+", (sum, y));
            from = sum + 11.0;
            if !pre {
                let norm = diagram.node(Rect::new(sum + 24.0, y - 17.0, 58.0, 34.0), "norm", Look::Tinted(0));
                diagram.arrow(&[(from, y), (norm.x - 2.0, y)]);
                from = norm.right() + 1.0;
            }
        }
        diagram.arrow(&[(from, y), (692.0, y)]);
    }
    titled("The block: two branches of the residual stream", diagram)
}

/// GPT, BERT and T5 from the words at the bottom to what they predict.
pub fn whole_models() -> Picture {
    let mut diagram = Diagram::new(
        772.0,
        350.0,
        "GPT stacks causal attention and predicts the next word. BERT stacks full attention and predicts masked words. T5 has an encoder with \
         full attention and a decoder with causal attention and cross-attention to the encoder's output.",
    );
    let (bottom, gap) = (302.0, 16.0);
    let (causal, full, cross) = (Look::Tinted(1), Look::Tinted(0), Look::Tinted(3));
    let (plain, ffn) = (Look::Plain, Look::Tinted(2));
    let gpt = tower(
        &mut diagram,
        (14.0, bottom),
        (140.0, gap),
        &[
            ("embeddings", 30.0, plain),
            ("causal attention", 36.0, causal),
            ("feed-forward", 36.0, ffn),
            ("norm, scores", 30.0, plain),
        ],
    );
    let bert = tower(
        &mut diagram,
        (196.0, bottom),
        (140.0, gap),
        &[
            ("embeddings", 30.0, plain),
            ("full attention", 36.0, full),
            ("feed-forward", 36.0, ffn),
            ("scores", 30.0, plain),
        ],
    );
    let encoder = tower(
        &mut diagram,
        (378.0, bottom),
        (140.0, gap),
        &[
            ("embeddings", 30.0, plain),
            ("full attention", 36.0, full),
            ("feed-forward", 36.0, ffn),
            ("norm", 30.0, plain),
        ],
    );
    let decoder = tower(
        &mut diagram,
        (592.0, bottom),
        (144.0, gap),
        &[
            ("embeddings", 30.0, plain),
            ("causal attention", 36.0, causal),
            ("cross-attention", 36.0, cross),
            ("feed-forward", 36.0, ffn),
            ("norm, scores", 30.0, plain),
        ],
    );
    let around = |first: &Rect, last: &Rect| {
        Rect::new(first.x - 9.0, last.y - 8.0, first.width + 18.0, first.bottom() - last.y + 16.0)
    };
    for (tower, last) in [(&gpt, 2), (&bert, 2), (&encoder, 2), (&decoder, 3)] {
        let frame = around(&tower[1], &tower[last]);
        diagram.frame(frame, "");
        diagram.note("×N", (frame.right() + 4.0, frame.y + 9.0), Anchor::Start);
    }
    // The encoder's output is read by every layer of the decoder.
    let (memory, reads) = (encoder[3], decoder[2]);
    diagram.arrow(&[
        (memory.centre().0, memory.y - 1.0),
        (memory.centre().0, memory.y - 24.0),
        (562.0, memory.y - 24.0),
        (562.0, reads.centre().1),
        (reads.x - 3.0, reads.centre().1),
    ]);
    diagram.note("keys, values", (memory.centre().0 + 56.0, memory.y - 36.0), MIDDLE);
    for (tower, words) in [
        (&gpt, "the film was"),
        (&bert, "the [MASK] was good"),
        (&encoder, "le film était bon"),
        (&decoder, "the film was"),
    ] {
        let first = tower[0];
        diagram.label(words, (first.centre().0, bottom + 34.0), MIDDLE);
        diagram.arrow(&[(first.centre().0, bottom + 24.0), (first.centre().0, bottom + 3.0)]);
    }
    for (tower, word) in [(&gpt, "good"), (&bert, "film"), (&decoder, "good")] {
        let Some(last) = tower.last() else { continue };
        let x = last.centre().0;
        diagram.arrow(&[(x, last.y - 1.0), (x, last.y - 20.0)]);
        diagram.label(word, (x, last.y - 30.0), MIDDLE);
    }
    diagram.heading("GPT: decoder", (84.0, 12.0), MIDDLE);
    diagram.heading("BERT: encoder", (266.0, 12.0), MIDDLE);
    diagram.heading("T5: encoder and decoder", (556.0, 12.0), MIDDLE);
    titled("Three models from one block", diagram)
}

/// Three classifiers that differ in how the states of the words become one vector.
pub fn classifiers() -> Picture {
    let mut diagram = Diagram::new(
        700.0,
        196.0,
        "A text goes through embeddings and a BiLSTM; then a max pool, or additive attention, or self-attention and a max pool, make one \
         vector for the classifier.",
    );
    let start = chain(
        &mut diagram,
        (4.0, 76.0),
        (24.0, 40.0),
        &[("words", 66.0, Look::Plain), ("embeddings", 92.0, Look::Plain), ("BiLSTM", 82.0, Look::Tinted(0))],
    );
    let end = diagram.node(Rect::new(594.0, 76.0, 100.0, 40.0), "positive or\nnegative", Look::Plain);
    let Some(states) = start.last().copied() else { return titled("", diagram) };
    let rows: [(f64, &[Labelled]); 3] = [
        (8.0, &[("max pool", 90.0, Look::Tinted(2))]),
        (76.0, &[("additive attention", 144.0, Look::Tinted(1))]),
        (144.0, &[("self-attention", 112.0, Look::Tinted(1)), ("max pool", 90.0, Look::Tinted(2))]),
    ];
    for (y, boxes) in rows {
        let row = chain(&mut diagram, (334.0, y), (22.0, 40.0), boxes);
        if let (Some(first), Some(last)) = (row.first(), row.last()) {
            let middle = y + 20.0;
            let bend = states.right() + 14.0;
            let way = if middle == states.centre().1 {
                vec![(states.right() + 1.0, middle)]
            } else {
                vec![(states.right() + 1.0, states.centre().1), (bend, states.centre().1), (bend, middle)]
            };
            diagram.arrow(&[way, vec![(first.x - 2.0, middle)]].concat());
            let bend = end.x - 16.0;
            let way =
                if middle == end.centre().1 { vec![] } else { vec![(bend, middle), (bend, end.centre().1)] };
            diagram.arrow(
                &[vec![(last.right() + 1.0, middle)], way, vec![(end.x - 2.0, end.centre().1)]].concat(),
            );
        }
    }
    titled("Three classifiers that differ in one place", diagram)
}
