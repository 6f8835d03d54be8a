//! The attention map of one head, computed a band of rows at a time.

use super::colour_limit::{ColourLimit, SIDE, Thumbnail};
use super::pass::ForwardPass;
use super::token_axis::{TokenAxis, TokenDisplay};
use crate::error::{UsageError, usage_error};
use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Which values of a head a map shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MapScale {
    /// The weights.
    #[default]
    Raw,
    /// The weights, coloured by their logarithm.
    Log,
    /// The weights without the first token's, rows summing to 1 again: what else a head attends to besides its sink.
    Rest,
    /// The weights times the norms of the transformed values, rows summing to 1 (Kobayashi et al., 2020).
    Norms,
}

/// Identifies a map of a forward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MapKey {
    /// The attention, by its number.
    pub site: usize,
    /// The head in it.
    pub head: usize,
    /// Which values it shows.
    pub scale: MapScale,
    /// Which tokens are shown.
    pub shown: TokenDisplay,
}

/// One map, of which any part can be computed.
pub struct AttentionMap<'a> {
    pass: &'a ForwardPass,
    which: MapKey,
    rows: TokenAxis,
    columns: TokenAxis,
    norms: Option<Arc<Vec<f32>>>,
}

/// The number of values that are computed at once.
const BAND: usize = 1 << 20;

impl<'a> AttentionMap<'a> {
    /// The map of a head.
    pub fn new(pass: &'a ForwardPass, which: MapKey, cancel: &AtomicBool) -> Result<Self> {
        let Some(site) = pass.sites().get(which.site) else {
            bail!(UsageError(format!("there is no attention {}", which.site)))
        };
        if which.head >= site.heads {
            let problem = format!("{} has {} heads: there is no head {}", site.name, site.heads, which.head);
            bail!(UsageError(problem));
        }
        let (rows, columns) = pass.axes(site.group, which.shown);
        let norms = match which.scale {
            MapScale::Norms => Some(pass.vectors(which.site, cancel)?.norms(which.head)?),
            _ => None,
        };
        Ok(Self { pass, which, rows, columns, norms })
    }

    /// How many rows and columns it has.
    pub fn size(&self) -> (usize, usize) {
        (self.rows.len(), self.columns.len())
    }

    /// How many rows are computed at once.
    pub fn step(&self) -> usize {
        (BAND / self.columns.len().max(1)).max(1)
    }

    /// Some rows, all columns.
    fn band(&self, rows: Range<usize>) -> Result<Vec<f32>> {
        let places = self.rows.places().get(rows.clone()).unwrap_or_default();
        let (Some(first), Some(last)) = (places.first(), places.last()) else { return Ok(Vec::new()) };
        let weights = self.pass.weights(self.which.site)?;
        let keys = weights.sizes()[3];
        let mut values = weights.block(0, self.which.head, first.start..last.end, 0..keys)?.to_vec();
        for row in values.chunks_mut(keys.max(1)) {
            self.reweigh(row);
        }
        if self.rows.is_plain() && self.columns.is_plain() {
            return Ok(values);
        }
        let mut merged = Vec::with_capacity(places.len() * self.columns.len());
        for place in places {
            for column in self.columns.places() {
                let row = |query: usize| -> f32 {
                    let start = (query - first.start) * keys;
                    values[start + column.start..start + column.end].iter().sum()
                };
                merged.push(place.clone().map(row).sum::<f32>() / place.len() as f32);
            }
        }
        Ok(merged)
    }

    /// Turns a row of weights into the values that are drawn.
    fn reweigh(&self, row: &mut [f32]) {
        match (&self.norms, self.which.scale) {
            (Some(norms), _) => row.iter_mut().zip(norms.iter()).for_each(|(weight, norm)| *weight *= norm),
            (None, MapScale::Rest) if row.len() > 1 => row[0] = 0.0,
            _ => return,
        }
        let sum: f64 = row.iter().map(|&value| f64::from(value)).sum();
        if sum > 0.0 {
            for value in row {
                *value = (f64::from(*value) / sum) as f32;
            }
        }
    }

    /// Some rows of some columns, row by row.
    pub fn block(&self, rows: Range<usize>, columns: Range<usize>) -> Result<Vec<f32>> {
        let (height, width) = self.size();
        if rows.start > rows.end || rows.end > height || columns.start > columns.end || columns.end > width {
            let problem = format!("rows {rows:?} and columns {columns:?} are not within {height} × {width}");
            return Err(usage_error(problem));
        }
        let mut block = Vec::with_capacity(rows.len() * columns.len());
        for start in rows.clone().step_by(self.step()) {
            block.extend(self.part(start..(start + self.step()).min(rows.end), columns.clone())?);
        }
        Ok(block)
    }

    /// Some rows of some columns. Only those are computed, unless their values depend on the rest of their rows.
    fn part(&self, rows: Range<usize>, columns: Range<usize>) -> Result<Vec<f32>> {
        let plain = self.rows.is_plain() && self.columns.is_plain();
        if plain && matches!(self.which.scale, MapScale::Raw | MapScale::Log) {
            let weights = self.pass.weights(self.which.site)?;
            return Ok(weights.block(0, self.which.head, rows, columns)?.to_vec());
        }
        let band = self.band(rows)?;
        let width = self.columns.len().max(1);
        Ok(band.chunks(width).flat_map(|row| &row[columns.clone()]).copied().collect())
    }

    /// Shows some rows of some columns, which are within the map, a band at a time with its first row.
    pub fn each_band(
        &self,
        rows: Range<usize>,
        columns: &Range<usize>,
        cancel: &AtomicBool,
        mut see: impl FnMut(usize, &[f32]),
    ) -> Result<()> {
        for start in rows.clone().step_by(self.step()) {
            if cancel.load(Ordering::Relaxed) {
                return Err(regard_nn::Error::Cancelled.into());
            }
            see(start, &self.part(start..(start + self.step()).min(rows.end), columns.clone())?);
        }
        Ok(())
    }

    /// The first row with more than one visible key: under a causal mask the first query sees only itself, and its weight of 1
    /// would make all others pale.
    pub(super) fn first_free(&self) -> usize {
        let causal = self.pass.sites().get(self.which.site).is_some_and(|site| site.causal);
        usize::from(causal && self.rows.len() > 1)
    }

    /// The value of the darkest colour of the whole map.
    pub fn top(&self, cancel: &AtomicBool) -> Result<ColourLimit> {
        if let Some(&top) = self.pass.computed().tops.get(&self.which) {
            return Ok(top);
        }
        let top = Thumbnail::new(self, SIDE, cancel)?.top;
        self.remember(top);
        Ok(top)
    }

    /// Keeps it for the next time.
    pub(super) fn remember(&self, top: ColourLimit) {
        self.pass.computed().tops.insert(self.which, top);
    }

    /// Which values it shows.
    pub fn scale(&self) -> MapScale {
        self.which.scale
    }
}
