//! Random inputs, on the host as they are on the device.

use regard_tensor::cuda::{Buffer, Device, Element, Result};
use regard_tensor::random::Key;
use std::sync::Arc;

/// The same values on both sides; the host's are rounded as the device's are.
pub struct Input {
    pub host: Vec<f32>,
    pub buffer: Buffer,
}

/// A source of fresh values.
pub struct Inputs {
    device: Arc<Device>,
    key: Key,
    drawn: u64,
    normal: Vec<f32>,
}

/// Draws are expensive; large inputs repeat this many from a random place on. An odd number, so that rows differ.
const DRAWS: usize = 1_000_003;

impl Inputs {
    pub fn new(device: Arc<Device>, seed: u64) -> Self {
        let key = Key::new(seed);
        Self { device, key, drawn: 0, normal: key.site("values").normal(DRAWS, 1.0) }
    }

    fn next(&mut self, limit: usize) -> usize {
        self.drawn += 1;
        self.key.below(0, self.drawn, limit)
    }

    /// Normal values, changed by `f`.
    pub fn map(&mut self, count: usize, element: Element, f: impl Fn(f32) -> f32 + Sync) -> Result<Input> {
        let start = self.next(DRAWS);
        let mut host = vec![0.0; count];
        in_parts(&mut host, |first, part| {
            for (i, value) in part.iter_mut().enumerate() {
                *value = rounded(f(self.normal[(start + first + i) % DRAWS]), element);
            }
        });
        self.input(host, element)
    }

    pub fn normal(&mut self, count: usize, element: Element) -> Result<Input> {
        self.map(count, element, |x| x)
    }

    /// Values that the element type holds exactly.
    pub fn input(&self, host: Vec<f32>, element: Element) -> Result<Input> {
        let buffer = match element {
            Element::Bf16 => {
                let bits: Vec<u16> = host.iter().map(|x| (x.to_bits() >> 16) as u16).collect();
                self.device.upload(&bits, element)?
            }
            _ => self.device.upload(&host, element)?,
        };
        Ok(Input { host, buffer })
    }

    /// Whole numbers below `limit`. Small ones are more frequent, as words are.
    pub fn ids(&mut self, count: usize, limit: usize) -> Vec<u32> {
        let start = self.next(DRAWS);
        (0..count)
            .map(|i| {
                let x = f64::from(self.normal[(start + i * 7) % DRAWS]).abs() / 5.0;
                ((x.powi(3) * limit as f64) as usize % limit) as u32
            })
            .collect()
    }
}

/// The nearest value of a type.
pub fn rounded(x: f32, element: Element) -> f32 {
    match element {
        Element::Bf16 => {
            let bits = x.to_bits();
            f32::from_bits((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff_0000)
        }
        _ => x,
    }
}

/// Calls `f(start, part)` for parts of the values, in parallel.
pub fn in_parts<V: Send>(values: &mut [V], f: impl Fn(usize, &mut [V]) + Sync) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let together = values.len().div_ceil(threads).max(4096);
    std::thread::scope(|scope| {
        for (index, part) in values.chunks_mut(together).enumerate() {
            let f = &f;
            scope.spawn(move || f(index * together, part));
        }
    });
}

/// Values by their index, in parallel.
pub fn by_index(count: usize, f: impl Fn(usize) -> f64 + Sync) -> Vec<f64> {
    let mut out = vec![0.0; count];
    in_parts(&mut out, |start, part| {
        for (i, value) in part.iter_mut().enumerate() {
            *value = f(start + i);
        }
    });
    out
}

/// Rows by their index, in parallel.
pub fn by_rows(rows: usize, width: usize, f: impl Fn(usize, &mut [f64]) + Sync) -> Vec<f64> {
    let mut all: Vec<Vec<f64>> = vec![Vec::new(); rows];
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let together = rows.div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        for (index, part) in all.chunks_mut(together).enumerate() {
            let f = &f;
            scope.spawn(move || {
                for (i, row) in part.iter_mut().enumerate() {
                    row.resize(width, 0.0);
                    f(index * together + i, row);
                }
            });
        }
    });
    all.concat()
}
