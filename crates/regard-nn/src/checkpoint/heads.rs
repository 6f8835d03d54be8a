//! The heads that encoders' checkpoints have, found by their tensors and by the class that a configuration names.

use super::family::Shapes;
use super::options::Options;
use crate::layers::{Activation, NormConfig};
use crate::models::form::{Form, Pooler, TokenClasses, TokenScores};
use serde_json::{Value, json};

/// The heads that a checkpoint may have, by one of the tensors of each.
pub(super) struct Heads<'a> {
    /// The layer before the scores of masked words.
    pub words: &'a str,
    /// Its activation and norm.
    pub transform: (Activation, NormConfig),
    /// The layer that makes one vector of a text, if the checkpoint has one.
    pub pooler: Option<Pooler>,
    /// The classes of a text.
    pub classifier: &'a str,
    /// The classes of each token.
    pub token_classifier: &'a str,
    /// The classes of a pair of sentences, scored beside masked words.
    pub pair: Option<&'a str>,
}

/// The layer that scores the ends of an answer, by the same name in every family.
const SPANS: &str = "qa_outputs.weight";

impl Heads<'_> {
    /// Puts on a form the heads that a checkpoint has.
    pub fn put(&self, form: &mut Form, options: &Options, shapes: &Shapes) {
        let output = &mut form.output;
        let words = TokenScores { bias: true, transform: Some(self.transform), ..TokenScores::new(true) };
        output.tokens = shapes.contains(self.words).then_some(words);
        // Some families call both classifiers the same.
        let named = options.names_class("ForTokenClassification")
            || !options.names_any_class() && self.pooler.is_none();
        let of_tokens = if self.classifier == self.token_classifier { named } else { true };
        match shapes.rows(self.token_classifier).filter(|_| of_tokens) {
            Some(classes) => output.token_classes = Some(TokenClasses { classes, transform: None }),
            None => output.classes = shapes.rows(self.classifier),
        }
        output.spans = shapes.contains(SPANS);
        let pair = self.pair.filter(|_| output.tokens.is_some() && self.pooler.is_some());
        output.pair = pair.and_then(|pair| shapes.rows(pair));
        // Older files keep a pooler that no head for tokens reads.
        output.pooler = self.pooler.filter(|_| output.token_classes.is_none() && !output.spans);
    }
}

/// The class that has the heads of a form.
pub(super) fn architecture(form: &Form, body: &str) -> Value {
    let output = &form.output;
    let task = if output.spans {
        "ForQuestionAnswering"
    } else if output.token_classes.is_some() {
        "ForTokenClassification"
    } else if output.classes.is_some() {
        "ForSequenceClassification"
    } else if output.pair.is_some() {
        "ForPreTraining"
    } else if output.tokens.is_some() {
        "ForMaskedLM"
    } else {
        "Model"
    };
    json!([format!("{body}{task}")])
}
