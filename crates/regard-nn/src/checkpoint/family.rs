//! What a family of checkpoints is: one file that maps its configuration to a form and its tensor names to ours.

use super::names::Names;
use super::options::Options;
use super::weights::StoredWeights;
use crate::error::Result;
use crate::models::form::{Form, Output};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// A family of checkpoints, by the `model_type` that its configurations have.
pub(super) struct Family {
    /// `model_type` in `config.json`.
    pub model_type: &'static str,
    /// The `architectures` whose heads can be read.
    pub architectures: &'static [&'static str],
    /// What tensor names begin with in files that have a head; bare models leave it out.
    pub prefix: &'static str,
    /// The form that a configuration describes; heads are found by their tensors.
    pub read: fn(&mut Options, &Shapes) -> Result<Form>,
    /// The names of a form's tensors, `@` standing for the prefix.
    pub names: fn(&Form) -> Names,
    /// The configuration of a form, if this family has one that says everything about it. It is read back and compared,
    /// so that this function may leave out what it cannot express.
    pub write: fn(&Form) -> Option<Value>,
}

impl Family {
    /// The form and the names of a checkpoint.
    pub fn open(&self, config: &Map<String, Value>, shapes: &Shapes) -> Result<(Form, Names)> {
        let mut options = Options::new(config.clone());
        let mut form = (self.read)(&mut options, shapes)?;
        options.ensure_labels(form.output.labels())?;
        options.finish()?;
        self.model_type.clone_into(&mut form.family);
        let prefix = if shapes.any_starts_with(self.prefix) { self.prefix } else { "" };
        let names = (self.names)(&form).with_prefix(prefix);
        Ok((form, names))
    }

    /// The configuration and names of a form, if this family describes it in full.
    pub fn close(&self, form: &Form, paths: &[(String, Vec<usize>)]) -> Option<(Map<String, Value>, Names)> {
        let Value::Object(mut config) = (self.write)(form)? else { return None };
        config.insert("model_type".to_owned(), json!(self.model_type));
        config.insert("torch_dtype".to_owned(), json!("float32"));
        let names = (self.names)(form).with_prefix(if form.output.is_bare() { "" } else { self.prefix });
        let tensors =
            paths.iter().map(|(path, shape)| Some((names.theirs(path)?, names.their_shape(path, shape))));
        let shapes = Shapes(tensors.collect::<Option<_>>()?);
        let (back, _) = self.open(&config, &shapes).ok()?;
        // Only training knows these, and configurations of this kind have no place for them.
        let training = Form {
            family: form.family.clone(),
            checkpointing: form.checkpointing,
            deviations: form.deviations,
            dropout: form.dropout,
            ..back
        };
        let output = Output { smoothing: form.output.smoothing, ..training.output.clone() };
        (Form { output, ..training } == *form).then_some((config, names))
    }
}

/// The names and shapes of a checkpoint's tensors.
pub(super) struct Shapes(BTreeMap<String, Vec<usize>>);

impl Shapes {
    pub fn of(weights: &StoredWeights) -> Self {
        let shape = |name: &str| (name.to_owned(), weights.shape(name).unwrap_or_default().to_vec());
        Self(weights.names().map(shape).collect())
    }

    /// Whether there is a tensor of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Whether there is a tensor of this name, with a prefix or without.
    pub fn contains_either(&self, prefix: &str, name: &str) -> bool {
        self.contains(name) || self.contains(&format!("{prefix}{name}"))
    }

    /// The first length of a tensor's shape.
    pub fn rows(&self, name: &str) -> Option<usize> {
        self.0.get(name)?.first().copied()
    }

    /// Whether any name begins so.
    pub fn any_starts_with(&self, prefix: &str) -> bool {
        self.0.keys().any(|name| name.starts_with(prefix))
    }
}

/// The names of classes that nobody has named yet, as configurations have them.
pub(super) fn with_labels(mut config: Value, classes: Option<usize>) -> Value {
    if let Some(classes) = classes {
        let label = |class: usize| format!("LABEL_{class}");
        config["id2label"] = (0..classes).map(|class| (class.to_string(), json!(label(class)))).collect();
        config["label2id"] = (0..classes).map(|class| (label(class), json!(class))).collect();
    }
    config
}
