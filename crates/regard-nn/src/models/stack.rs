//! The layers of an encoder or a decoder, with what tells them positions.

use super::form::{self, AttentionPositions, Form};
use super::model::{AttentionSite, Part, Visibility};
use super::sequence::Sequence;
use crate::attention::{RelativeVectors, Rules};
use crate::block::{Block, BlockConfig, BlockDraws, Stream};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::layers::{Embedding, Norm};
use crate::parameter::{Draw, Initial, Module, Parameter, join};
use crate::position::{Rotary, alibi_slopes, disentangled_row, relative_bias, waves, waves_by_halves};
use regard_tensor::ops::Bias;
use regard_tensor::{Device, Ids, Tensor};
use std::ops::Range;

/// A stack of layers.
#[derive(Debug, Clone)]
pub(super) struct Stack {
    /// Learned positions, added to the embeddings.
    table: Option<Embedding>,
    /// Relative positions, added to the scores of every layer: one table for all, or one for each.
    relative: Option<Parameter>,
    relative_by_layer: Vec<Parameter>,
    /// Vectors of relative positions, and their norm.
    vectors: Option<Parameter>,
    vectors_norm: Option<Norm>,
    input_norm: Option<Norm>,
    /// One block a layer, or a single one that all layers share.
    blocks: Vec<Block>,
    norm: Option<Norm>,
    /// The rotary frequencies of each form of layer.
    rotary: Vec<Option<Rotary>>,
    form: form::Stack,
    causal: bool,
    checkpointing: bool,
}

impl Stack {
    pub fn new(initial: &Initial, whole: &Form, form: &form::Stack, causal: bool) -> Result<Self> {
        let (d_model, deviations) = (whole.d_model, whole.deviations);
        let draws =
            BlockDraws { inner: Draw::Normal(deviations.inner), residual: Draw::Normal(deviations.residual) };
        let blocks = if form.shared { form.n_layers.min(1) } else { form.n_layers };
        let blocks = (0..blocks).map(|i| {
            let config = block_config(whole, &form.layers[form.form_of(i)], i);
            Block::new(&initial.part("layers").part(i), &config, draws)
        });
        let positions = initial.part("positions");
        let learned = Draw::Normal(deviations.positions);
        let table = match form.positions {
            form::Positions::Learned { context, offset, .. } => Some(Embedding::new(
                &positions.part("table"),
                (context + offset, whole.d_positions()),
                learned,
            )?),
            _ => None,
        };
        let relative = form.layers.iter().find_map(|layer| match &layer.attention.positions {
            Some(AttentionPositions::Relative { buckets, by_layer, .. }) => {
                Some(([*buckets, layer.attention.n_heads], *by_layer))
            }
            _ => None,
        });
        let (shared, each) = match relative {
            Some((shape, true)) => (None, vec![shape; form.n_layers]),
            Some((shape, false)) => (Some(shape), Vec::new()),
            None => (None, Vec::new()),
        };
        let relative = shared.map(|shape| positions.parameter("relative", shape, learned)).transpose()?;
        let by_layer = positions.part("relative");
        let each = each.into_iter().enumerate();
        let relative_by_layer = each.map(|(i, shape)| by_layer.parameter(&i.to_string(), shape, learned));
        let disentangled = form.layers.iter().find_map(|layer| match &layer.attention.positions {
            Some(AttentionPositions::Disentangled { span, norm, .. }) => Some((*span, *norm)),
            _ => None,
        });
        let vectors =
            disentangled.map(|(span, _)| positions.parameter("vectors", [2 * span, d_model], learned));
        let vectors_norm = disentangled.and_then(|(_, norm)| norm);
        let rotary = form.layers.iter().map(|layer| match &layer.attention.positions {
            Some(AttentionPositions::Rotary(rotary)) => Some(rotary.rotary(layer.attention.d_head)),
            _ => None,
        });
        Ok(Self {
            table,
            relative,
            relative_by_layer: relative_by_layer.collect::<Result<_>>()?,
            vectors: vectors.transpose()?,
            vectors_norm: vectors_norm
                .map(|norm| Norm::new(&positions.part("norm"), norm, [d_model]))
                .transpose()?,
            input_norm: form
                .input_norm
                .map(|norm| Norm::new(&initial.part("input_norm"), norm, [d_model]))
                .transpose()?,
            blocks: blocks.collect::<Result<_>>()?,
            norm: form.norm.map(|norm| Norm::new(&initial.part("norm"), norm, [d_model])).transpose()?,
            rotary: rotary.collect(),
            form: form.clone(),
            causal,
            checkpointing: whole.checkpointing,
        })
    }

    /// The norm after the last layer.
    pub fn norm(&self) -> Option<&Norm> {
        self.norm.as_ref()
    }

    /// Each attention, under names that begin with `prefix`.
    pub fn attentions(&self, prefix: &str, part: Part) -> Vec<AttentionSite<'_>> {
        let mut all = Vec::new();
        for i in 0..self.form.n_layers {
            let (form, block) = (&self.form.layers[self.form.form_of(i)], self.block(i));
            let name = |kind: &str| join(prefix, &format!("layers.{i}.{kind}"));
            all.push(AttentionSite {
                part,
                visibility: Visibility { causal: self.causal, window: form.attention.window },
                rotary: matches!(form.attention.positions, Some(AttentionPositions::Rotary(_))),
                biased: is_biased(form.attention.positions.as_ref()),
                norm: block.first_norm(),
                rotation: self.rotary[self.form.form_of(i)].as_ref(),
                ..AttentionSite::of(name("self"), block.attention())
            });
            let cross = |attention| AttentionSite {
                part: Part::Cross,
                ..AttentionSite::of(name("cross"), attention)
            };
            all.extend(block.cross().map(cross));
        }
        all
    }

    fn block(&self, layer: usize) -> &Block {
        &self.blocks[if self.form.shared { 0 } else { layer }]
    }

    /// Embeddings (batch, time, width) with what is added for their positions.
    pub fn add_positions(
        &self,
        context: &Context,
        x: Tensor,
        ids: Option<&Ids>,
        positions: &Ids,
    ) -> Result<Tensor> {
        match (self.form.positions, &self.table) {
            (form::Positions::Learned { context: limit, offset, skips_padding }, Some(table)) => {
                ensure_within(positions, limit)?;
                let rows = match (ids, skips_padding, offset) {
                    (Some(ids), true, _) => rows_after_padding(ids, offset as u32)?,
                    (_, _, 0) => positions.clone(),
                    _ => positions.derive(positions.shape(), move |positions| {
                        positions.iter().map(|p| p + offset as u32).collect()
                    })?,
                };
                Ok(x.add(&table.forward(context, &rows)?)?)
            }
            (form::Positions::Sinusoidal { scale, halves }, _) => {
                let width = x.shape().last();
                let shape: Vec<usize> = positions.shape().iter().copied().chain([width]).collect();
                let waves = positions.derive_values(x.device(), shape, move |positions| {
                    if halves { waves_by_halves(positions, width) } else { waves(positions, width) }
                })?;
                Ok(x.add(&waves.scale(scale)?)?)
            }
            _ => Ok(x),
        }
    }

    /// Embeddings as the first layer reads them.
    pub fn normed_input(&self, context: &Context, x: Tensor) -> Result<Tensor> {
        match &self.input_norm {
            Some(norm) => norm.forward(context, &x),
            None => Ok(x),
        }
    }

    /// The number of sets of rules, and the form of layer and table of relative positions of each: one for each form of
    /// layer or, where layers have tables of their own, one for each layer.
    fn kinds(&self) -> Vec<(usize, Option<&Parameter>)> {
        match self.relative_by_layer.is_empty() {
            true => (0..self.form.layers.len()).map(|form| (form, self.relative.as_ref())).collect(),
            false => {
                let tables = self.relative_by_layer.iter().enumerate();
                tables.map(|(layer, table)| (self.form.form_of(layer), Some(table))).collect()
            }
        }
    }

    /// Which set of rules a layer follows.
    fn kind_of(&self, layer: usize) -> usize {
        if self.relative_by_layer.is_empty() { self.form.form_of(layer) } else { layer }
    }

    /// Who may attend to whom, one set of rules for each kind of layer.
    pub fn rules(&self, context: &Context, sequence: &Sequence) -> Result<Vec<Rules>> {
        let (time, keys) = (sequence.time, sequence.keys);
        let device = self.blocks.first().map_or(Device::Cpu, Module::device);
        let rules = |(form, table): (usize, Option<&Parameter>)| {
            let (layer, rotary) = (&self.form.layers[form], &self.rotary[form]);
            let rotation = rotary.as_ref().map(|rotary| match sequence.room {
                Some(room) => rotary.rotation_within(&sequence.positions, room),
                None => rotary.rotation_in(&sequence.positions, sequence.batch, keys),
            });
            Rules::new(layer.attention.allowed(self.causal), time, keys)?
                .padded(sequence.present.clone())
                .biased(self.bias(context, (&layer.attention, table), (time, keys))?)
                .rotated(rotation.transpose()?)
                .related(self.relative_vectors(context, &layer.attention, time)?)
                .on(device)
        };
        self.kinds().into_iter().map(rules).collect()
    }

    /// The vectors of relative positions in a text that attends to itself.
    fn relative_vectors(
        &self,
        context: &Context,
        form: &form::Attention,
        time: usize,
    ) -> Result<Option<RelativeVectors>> {
        let (&Some(AttentionPositions::Disentangled { span, max_distance, .. }), Some(table)) =
            (&form.positions, &self.vectors)
        else {
            return Ok(None);
        };
        let mut table = context.parameter(table);
        if let Some(norm) = &self.vectors_norm {
            table = norm.forward(context, &table)?;
        }
        let far = time as i64 - 1;
        let rows = (-far..=far).rev().map(|distance| disentangled_row(distance, span, max_distance));
        let rows: Vec<u32> = rows.collect();
        Ok(Some(RelativeVectors { table, rows: Ids::new(&rows, [rows.len()])? }))
    }

    /// What is added to the scores of `queries` against `keys`.
    fn bias(
        &self,
        context: &Context,
        (form, table): (&form::Attention, Option<&Parameter>),
        (queries, keys): (usize, usize),
    ) -> Result<Bias> {
        match (&form.positions, table) {
            (Some(AttentionPositions::Alibi), _) => {
                let slopes = alibi_slopes(form.n_heads);
                Ok(Bias::Slopes(Tensor::new(&slopes, [slopes.len()])?))
            }
            (&Some(AttentionPositions::Relative { buckets, max_distance, .. }), Some(table)) => {
                let table = context.parameter(table);
                relative_bias(&table, (queries, keys), (buckets, max_distance, !self.causal))
            }
            _ => Ok(Bias::None),
        }
    }

    /// The residual stream after all layers and the last norm; `memory` is what cross-attention reads. With
    /// checkpointing, training keeps only what passes between the layers. A probe may have the pass resume at a layer or
    /// end after one.
    pub fn forward(
        &self,
        context: &Context,
        x: Tensor,
        rules: &[Rules],
        memory: Option<(&Tensor, &Rules)>,
    ) -> Result<Tensor> {
        let mut normed = None;
        let (layers, mut x) = self.resumed(context, x)?;
        let end = layers.end;
        for i in layers {
            let here = context.within("layers").within(i);
            let (block, rules) = (self.block(i), &rules[self.kind_of(i)]);
            if !self.checkpointing {
                let next = if i + 1 == end { self.norm.as_ref() } else { self.block(i + 1).first_norm() };
                Stream { x, normed } =
                    block.forward_then(&here, Stream { x, normed }, (rules, memory), next)?;
                continue;
            }
            let (block, rules, cross) =
                (block.clone(), rules.clone(), memory.map(|(_, rules)| rules.clone()));
            let inputs: Vec<&Tensor> = [&x].into_iter().chain(memory.map(|(memory, _)| memory)).collect();
            x = here.checkpoint(&inputs, move |here, inputs| {
                block.forward(here, &inputs[0], &rules, inputs.get(1).zip(cross.as_ref()))
            })?;
        }
        match (&self.norm, normed) {
            (Some(_), Some(normed)) => Ok(normed),
            (Some(norm), None) => norm.forward(context, &x),
            (None, _) => Ok(x),
        }
    }

    /// The layers to run and what the first of them reads: all of them on the embeddings, unless a probe says otherwise.
    fn resumed(&self, context: &Context, embeddings: Tensor) -> Result<(Range<usize>, Tensor)> {
        let all = 0..self.form.n_layers;
        let Some(probe) = context.probe() else { return Ok((all, embeddings)) };
        let (layers, stored) = probe.layers(&context.site("layers"), all.end);
        match stored {
            Some(stored) if stored.shape() != embeddings.shape() => {
                let (expected, got) = (embeddings.shape(), stored.shape());
                let problem =
                    format!("the pass reads {expected} and cannot resume from a residual stream of {got}");
                Err(Error::input("probe", problem))
            }
            Some(stored) => Ok((layers, stored.clone())),
            None => Ok((layers, embeddings)),
        }
    }
}

impl Module for Stack {
    fn visit<'a>(&'a self, path: &str, f: &mut dyn FnMut(String, &'a Parameter)) {
        self.table.visit(&join(path, "positions.table"), f);
        self.relative.visit(&join(path, "positions.relative"), f);
        self.relative_by_layer.visit(&join(path, "positions.relative"), f);
        self.vectors.visit(&join(path, "positions.vectors"), f);
        self.vectors_norm.visit(&join(path, "positions.norm"), f);
        self.input_norm.visit(&join(path, "input_norm"), f);
        self.blocks.visit(&join(path, "layers"), f);
        self.norm.visit(&join(path, "norm"), f);
    }

    fn visit_mut<'a>(&'a mut self, path: &str, f: &mut dyn FnMut(String, &'a mut Parameter)) {
        self.table.visit_mut(&join(path, "positions.table"), f);
        self.relative.visit_mut(&join(path, "positions.relative"), f);
        self.relative_by_layer.visit_mut(&join(path, "positions.relative"), f);
        self.vectors.visit_mut(&join(path, "positions.vectors"), f);
        self.vectors_norm.visit_mut(&join(path, "positions.norm"), f);
        self.input_norm.visit_mut(&join(path, "input_norm"), f);
        self.blocks.visit_mut(&join(path, "layers"), f);
        self.norm.visit_mut(&join(path, "norm"), f);
    }
}

/// Whether positions add something to the scores.
fn is_biased(positions: Option<&AttentionPositions>) -> bool {
    !matches!(positions, None | Some(AttentionPositions::Rotary(_)))
}

fn block_config(whole: &Form, layer: &form::Layer, number: usize) -> BlockConfig {
    let dropout = whole.dropout;
    BlockConfig {
        attention: layer.attention.config(whole.d_model, number, dropout.attention),
        cross: layer.cross.as_ref().map(|cross| cross.config(whole.d_model, number, dropout.attention)),
        ffn: layer.feed_forward.config(whole.d_model),
        norm: layer.norm,
        placement: layer.placement,
        residual_scale: layer.residual_scale,
        layer_scale: layer.layer_scale,
        dropout: dropout.residual,
    }
}

/// Fails if a position lies beyond the table of learned ones.
fn ensure_within(positions: &Ids, limit: usize) -> Result<()> {
    if positions.are_below(limit) {
        return Ok(());
    }
    let last = positions.values().iter().max().copied().unwrap_or(0);
    let problem = format!("{} tokens do not fit its context of {limit}", last as usize + 1);
    Err(Error::input("transformer", problem))
}

/// Rows of the table as RoBERTa counts: tokens that are not padding take the rows from `offset` on, padding (the id
/// before it) has its own.
fn rows_after_padding(ids: &Ids, offset: u32) -> Result<Ids> {
    let padding = offset.saturating_sub(1);
    let time = ids.shape().last().max(1);
    let of_text = move |text: &[u32]| {
        let mut row = padding;
        let rows = text.iter().map(|&id| {
            row += u32::from(id != padding);
            if id == padding { padding } else { row }
        });
        rows.collect::<Vec<_>>()
    };
    Ok(ids.derive(ids.shape(), move |ids| ids.chunks(time).flat_map(of_text).collect())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_takes_no_position_wherever_it_stands() {
        // transformers' create_position_ids_from_input_ids of these ids with a padding of 1.
        let ids = Ids::new(&[0, 9, 1, 1, 8, 7, 2], [1, 7]).unwrap();
        let rows = rows_after_padding(&ids, 2).unwrap();
        assert_eq!(rows.values(), [2, 3, 1, 1, 4, 5, 6]);
    }
}
