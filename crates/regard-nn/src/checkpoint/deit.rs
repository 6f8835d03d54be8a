//! DeiT's configuration and names: a ViT with a second token that learned from a teacher.

use super::family::{Family, Shapes, with_labels};
use super::names::Names;
use super::options::Options;
use super::vit;
use crate::error::Result;
use crate::models::form::{Form, Input, Positions};
use serde_json::{Value, json};

pub(super) const DEIT: Family = Family {
    model_type: "deit",
    architectures: &["DeiTForImageClassification", "DeiTForImageClassificationWithTeacher", "DeiTModel"],
    prefix: "deit.",
    read,
    names,
    write,
};

fn names(form: &Form) -> Names {
    let heads: &[(&str, &str)] = match form.output.distilled {
        true => &[("classifier", "cls_classifier"), ("distillation_classifier", "distillation_classifier")],
        false => &[("classifier", "classifier")],
    };
    let pairs = [heads, &[("distillation", "@embeddings.distillation_token")], vit::PAIRS].concat();
    Names::new(&pairs, &["@pooler.dense", "@embeddings.mask_token"])
        .with_leading_axis(&["positions.table.weight"])
}

fn read(options: &mut Options, shapes: &Shapes) -> Result<Form> {
    let mut form = vit::read_body(options, shapes)?;
    if let Input::Patches(patches) = &mut form.input {
        patches.distillation = true;
    }
    if let Some(stack) = &mut form.encoder
        && let Positions::Learned { context, .. } = &mut stack.positions
    {
        *context = context.saturating_add(1);
    }
    form.output.distilled = shapes.contains("distillation_classifier.weight");
    form.output.classes = shapes.rows("classifier.weight").or(shapes.rows("cls_classifier.weight"));
    Ok(form)
}

fn write(form: &Form) -> Option<Value> {
    let Input::Patches(patches) = &form.input else { return None };
    if !patches.distillation {
        return None;
    }
    let mut config = vit::write_body(form)?;
    let task = match (form.output.classes, form.output.distilled) {
        (Some(_), true) => "ForImageClassificationWithTeacher",
        (Some(_), false) => "ForImageClassification",
        (None, _) => "Model",
    };
    config["architectures"] = json!([format!("DeiT{task}")]);
    Some(with_labels(config, form.output.labels()))
}
