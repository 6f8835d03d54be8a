//! How a product is cut into tasks: by its shape alone.

use super::few::FEW;
use super::task::PANEL;
use crate::cpu::tile;

/// Bands of rows by groups of panels.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    /// Rows of a task.
    pub band: usize,
    pub bands: usize,
    /// Panels of a task.
    pub group: usize,
    pub groups: usize,
}

/// The fewest multiply-adds of a task, about six microseconds, and the most tasks: some for each of sixteen threads, so that
/// none waits long for the last.
const WORK: usize = 1 << 19;
const MOST: usize = 64;

/// Bands that a product should have: as many as threads, so that each keeps to its own rows from operation to operation.
const BANDS: usize = 16;

/// The fewest rows of a band, the fewest that pay for fetching panels, and the most that stay in a second-level cache.
const ROWS: (usize, usize, usize) = (24, 96, 256);

/// The most panels of a task.
const PANELS: usize = 6;

/// Up to this many rows are one band if there are panels for everyone: none is then needed twice.
const FLAT: usize = 512;

impl Cut {
    pub fn of(m: usize, n: usize, k: usize) -> Self {
        let panels = n.div_ceil(PANEL);
        let wanted = (m * n * k / WORK).clamp(1, MOST);
        // A multiple of the usual numbers of threads, if it can be.
        let wanted = if wanted > BANDS { wanted / BANDS * BANDS } else { wanted };
        if m <= FEW || m <= FLAT && panels >= wanted {
            return Self::even(m, panels, 1, wanted);
        }
        let bands = (m / ROWS.1).clamp(1, BANDS);
        let bands = bands.max(wanted.div_ceil(panels).min(m / ROWS.0)).max(m.div_ceil(ROWS.2));
        let bands = if bands > BANDS { bands.next_multiple_of(BANDS) } else { bands };
        Self::even(m, panels, bands, (wanted / bands).max(panels.div_ceil(PANELS)))
    }

    /// For one thread.
    pub fn alone(m: usize, n: usize) -> Self {
        let panels = n.div_ceil(PANEL);
        Self::even(m, panels, m.div_ceil(FLAT), panels.div_ceil(16))
    }

    /// About as many bands and groups as asked for, all but the last ones equal.
    fn even(m: usize, panels: usize, bands: usize, groups: usize) -> Self {
        let band = if bands == 1 { m } else { m.div_ceil(bands).next_multiple_of(tile::ROWS) };
        let group = panels.div_ceil(groups.clamp(1, panels));
        Self { band, bands: m.div_ceil(band), group, groups: panels.div_ceil(group) }
    }
}
