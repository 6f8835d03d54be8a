//! The way from text to a guess, the table of vectors, the loop of training, and tiles.

use super::{MIDDLE, chain, rows, titled};
use crate::figure::{Anchor, Diagram, Look, NumberTable, Picture, Rect};
use crate::report::worked;
use anyhow::Result;

/// The whole way through a language model, and which section explains each step.
pub fn pipeline() -> Picture {
    let mut diagram = Diagram::new(
        760.0,
        150.0,
        "Text becomes tokens, tokens become vectors, blocks of attention and feed-forward layers change the vectors, and scores give the \
         next word.",
    );
    let boxes = chain(
        &mut diagram,
        (4.0, 44.0),
        (24.0, 50.0),
        &[
            ("text", 62.0, Look::Plain),
            ("tokens", 72.0, Look::Plain),
            ("vectors", 76.0, Look::Tinted(0)),
            ("attention", 88.0, Look::Tinted(1)),
            ("feed-forward", 104.0, Look::Tinted(2)),
            ("scores of\nevery word", 90.0, Look::Plain),
            ("next word", 84.0, Look::Plain),
        ],
    );
    let frame = Rect::new(boxes[3].x - 11.0, 18.0, boxes[4].right() - boxes[3].x + 22.0, 88.0);
    diagram.frame(frame, "a block, repeated in layers");
    for (at, sections) in
        [(1, "section 1"), (2, "2 and 6"), (3, "3, 4 and 5"), (4, "7"), (5, "8"), (6, "9: training")]
    {
        diagram.note(sections, (boxes[at].centre().0, 126.0), MIDDLE);
    }
    titled("From text to the next word", diagram)
}

/// Ids pick rows of a table.
pub fn embedding() -> Result<Picture> {
    let (vocabulary, ids) = worked::tokens()?;
    let x = worked::vectors()?;
    let mut diagram = Diagram::new(
        560.0,
        178.0,
        "Each id picks the row of the table E with that number: the word's vector.",
    );
    let id_rows: Vec<Vec<String>> = ids[0].iter().map(|id| vec![id.to_string()]).collect();
    let picked =
        diagram.matrix((66.0, 52.0), &NumberTable::new("ids", id_rows).words(worked::WORDS).cell(32.0, 26.0));
    let table = rows(&worked::table()?, 0);
    let names: Vec<String> = vocabulary.iter().enumerate().map(|(id, word)| format!("{id} {word}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let cells = diagram.matrix(
        (262.0, 28.0),
        &NumberTable::new("E", table).words(names).cell(32.0, 26.0).look(Look::Tinted(0)),
    );
    let vectors = diagram
        .matrix((456.0, 52.0), &NumberTable::new("x", rows(&x, 0)).cell(32.0, 26.0).look(Look::Tinted(0)));
    for row in [0.0, 1.0, 2.0] {
        let from = picked.y + 26.0 * (row + 0.5);
        let to = cells.y + 26.0 * (row + 2.5);
        diagram.coloured_arrow(&[(picked.right() + 5.0, from), (cells.x - 72.0, to)], 0);
        diagram.coloured_arrow(&[(cells.right() + 5.0, to), (vectors.x - 5.0, from)], 0);
    }
    diagram.note("one row a word of the vocabulary", (cells.centre().0 - 20.0, 172.0), MIDDLE);
    Ok(titled("An id picks a row", diagram))
}

/// Forward, loss, backward, update.
pub fn training() -> Picture {
    let mut diagram = Diagram::new(
        620.0,
        176.0,
        "A batch goes through the model to logits and a loss; gradients go back and update the parameters.",
    );
    let boxes = chain(
        &mut diagram,
        (4.0, 26.0),
        (34.0, 44.0),
        &[
            ("batch of text", 108.0, Look::Plain),
            ("model,\nparameters θ", 118.0, Look::Tinted(0)),
            ("logits", 84.0, Look::Plain),
            ("loss L", 84.0, Look::Tinted(1)),
        ],
    );
    let (model, loss) = (boxes[1], boxes[3]);
    let answers = diagram.node(Rect::new(530.0, 100.0, 84.0, 40.0), "right\nwords", Look::Plain);
    diagram.arrow(&[
        (answers.centre().0, answers.y - 2.0),
        (answers.centre().0, 48.0),
        (loss.right() + 3.0, 48.0),
    ]);
    diagram.coloured_arrow(
        &[
            (loss.centre().0, loss.bottom() + 3.0),
            (loss.centre().0, 120.0),
            (model.centre().0, 120.0),
            (model.centre().0, model.bottom() + 4.0),
        ],
        1,
    );
    diagram.coloured(
        "backward: gradients, then a small step",
        (f64::midpoint(model.centre().0, loss.centre().0), 138.0),
        MIDDLE,
        1,
    );
    diagram.note("forward", (300.0, 12.0), MIDDLE);
    titled("One step of training, repeated a few hundred times", diagram)
}

/// The table of weights is never whole: tiles of it are made and used up.
pub fn tiles() -> Picture {
    let mut diagram = Diagram::new(
        560.0,
        208.0,
        "The table of n by n weights in tiles: of each row of tiles only one is held at a time, and a running maximum, sum and output are kept.",
    );
    let shares: Vec<f32> = (0..16)
        .map(|at| {
            if at == 6 {
                0.8
            } else if at / 4 == 1 && at < 6 {
                0.35
            } else {
                0.0
            }
        })
        .collect();
    let cells = diagram.matrix(
        (74.0, 50.0),
        &NumberTable::new("", vec![vec![String::new(); 4]; 4]).cell(34.0, 34.0).shares(&shares),
    );
    diagram.note("blocks of keys and values →", (cells.centre().0, 36.0), MIDDLE);
    diagram.note("blocks", (66.0, 100.0), Anchor::End);
    diagram.note("of queries ↓", (66.0, 116.0), Anchor::End);
    let kept = diagram.node(Rect::new(296.0, 84.0, 258.0, 66.0), "kept for each query of the block:\nlargest score so far, sum of weights so far,\nweighted sum of values so far", Look::Tinted(1));
    diagram.arrow(&[(cells.x + 34.0 * 2.5, 101.0), (kept.x - 3.0, 108.0)]);
    diagram.note("dark: in memory now; pale: done; white: not begun", (cells.x, 202.0), Anchor::Start);
    titled("Tiled attention: n² numbers are computed, but never all held", diagram)
}
