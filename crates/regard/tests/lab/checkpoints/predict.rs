//! `regard predict` with checkpoints that classify tokens, answer questions or have no head.

use super::made::{bert_with, complaint, said, text, tokenizer};
use regard_nn::Context;
use regard_nn::checkpoint;
use regard_nn::models::Inputs;
use regard_nn::models::form::{Output, TokenClasses};
use regard_nn::tensor::Ids;
use regard_nn::tokens::Special;
use tempfile::tempdir;

#[test]
fn each_token_has_its_class() {
    let folder = tempdir().unwrap();
    let token_classes = Some(TokenClasses { classes: 3, transform: None });
    bert_with(folder.path(), Output { token_classes, ..Output::default() });
    let told = said(&["predict", text(folder.path()), "The cat sat"]);
    let encoding = tokenizer(false).encode("The cat sat", Special::Keep).unwrap();
    let model = checkpoint::load(folder.path()).unwrap().model;
    let ids = Ids::new(&encoding.ids, [1, encoding.len()]).unwrap();
    let best = model.forward(&Context::inference(), &Inputs::ids(&ids)).unwrap().argmax(-1).unwrap();
    let classes: Vec<&str> = told.lines().map(|line| line.split_whitespace().nth(1).unwrap()).collect();
    let want: Vec<String> = best.values().iter().map(|class| format!("LABEL_{class}")).collect();
    assert_eq!(classes, want, "{told}");
}

#[test]
fn the_answer_is_the_likeliest_part_of_the_passage() {
    let folder = tempdir().unwrap();
    bert_with(folder.path(), Output { spans: true, ..Output::default() });
    let model = text(folder.path());
    let (question, passage) = ("The cat?", "The dög sat by the cat.");
    let told = said(&["predict", model, question, "--passage", passage]);
    let (answer, probability) = told.trim_end().rsplit_once("  ").unwrap();
    assert!(passage.contains(answer) && !answer.is_empty(), "{told}");
    // The same by trying every pair of ends.
    let encoding = tokenizer(false).encode_pair(question, passage, Special::Keep).unwrap();
    let length = encoding.len();
    let ids = |values: &[u32]| Ids::new(values, [1, length]).unwrap();
    let inputs = Inputs { types: Some(ids(&encoding.types)), ..Inputs::ids(&ids(&encoding.ids)) };
    let scores =
        checkpoint::load(folder.path()).unwrap().model.forward(&Context::inference(), &inputs).unwrap();
    let ends = scores.permute(&[0, 2, 1]).unwrap().softmax().unwrap().to_vec();
    let inside = |at: &usize| encoding.texts[*at] == Some(1);
    let mut best = (0.0, 0, 0);
    for from in (0..length).filter(inside) {
        for to in (from..length).filter(inside) {
            let chance = ends[from] * ends[length + to];
            best = if chance > best.0 { (chance, from, to) } else { best };
        }
    }
    assert_eq!(probability, format!("{:.4}", best.0));
    assert_eq!(answer, &passage[encoding.offsets[best.1].start..encoding.offsets[best.2].end]);

    let (problem, code) = complaint(&["predict", model, question]);
    assert!(code == 2 && problem.contains("--passage"), "{problem}");
    let (problem, code) = complaint(&["predict", model, question, "--passage", &"cat ".repeat(60)]);
    assert!(code == 2 && problem.contains("the model reads 48"), "{problem}");
}

#[test]
fn models_without_a_head_say_so() {
    let folder = tempdir().unwrap();
    bert_with(folder.path(), Output::default());
    let (problem, code) = complaint(&["predict", text(folder.path()), "The cat sat"]);
    assert!(code == 2 && problem.contains("has no head that classifies"), "{problem}");
    let (problem, code) = complaint(&["predict", text(folder.path()), "The cat", "--passage", "sat"]);
    assert!(code == 2 && problem.contains("--passage is for models that answer questions"), "{problem}");
}
