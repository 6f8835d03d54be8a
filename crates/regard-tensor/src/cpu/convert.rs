//! Conversions between `f32` and the 16-bit types.

use super::threads::{self, ELEMENTS_PER_TASK};
use crate::array::Array;
use crate::storage::{DataType, Values};

/// The same values in another type, rounded to the nearest (of two equally near ones to the even).
pub(crate) fn convert(x: &Array, data_type: DataType) -> Array {
    let Some(values) = x.view() else { panic!("only values in main memory can be converted here") };
    match (values, data_type) {
        _ if values.data_type() == data_type => x.clone(),
        (Values::Bf16(bits), DataType::F32) => widen(bits, bf16_to_f32),
        (Values::F16(bits), DataType::F32) => widen(bits, f16_to_f32),
        (Values::F32(values), DataType::Bf16) => narrow(values, data_type, f32_to_bf16),
        (Values::F32(values), DataType::F16) => narrow(values, data_type, f32_to_f16),
        // Between the 16-bit types: every value of either is an f32.
        _ => convert(&convert(x, DataType::F32), data_type),
    }
}

fn widen(bits: &[u16], value: impl Fn(u16) -> f32 + Sync) -> Array {
    Array::build(bits.len(), |out| {
        threads::chunks(out, ELEMENTS_PER_TASK, |index, out| {
            for (out, &bits) in out.iter_mut().zip(&bits[index * ELEMENTS_PER_TASK..]) {
                *out = value(bits);
            }
        });
    })
}

fn narrow(values: &[f32], data_type: DataType, bits: impl Fn(f32) -> u16) -> Array {
    Array::from_bits(values.iter().map(|&value| bits(value)).collect(), data_type)
}

pub(super) fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

fn f32_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        // Stays NaN even if its set bits are all in the lower half.
        return (bits >> 16) as u16 | 0x40;
    }
    let to_even = bits >> 16 & 1;
    ((bits + 0x7fff + to_even) >> 16) as u16
}

/// 2^112: moves an exponent with the bias of `f16`, 15, to that of `f32`, 127.
const REBIAS: f32 = 5_192_296_858_534_827_628_530_496_329_220_096.0;

pub(super) fn f16_to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let magnitude = u32::from(bits & 0x7fff) << 13;
    let value = if magnitude >= 0x7c00 << 13 {
        // Infinity and NaN.
        f32::from_bits(magnitude | 0x7f80_0000)
    } else if magnitude < 0x0400 << 13 {
        // Below the smallest normal number: a multiple of 2^−24, exact without any denormal `f32`.
        f32::from(bits & 0x7fff) / 16_777_216.0
    } else {
        f32::from_bits(magnitude) * REBIAS
    };
    f32::from_bits(value.to_bits() | sign)
}

fn f32_to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    let rounded = match value.abs() {
        x if x.is_nan() => 0x7e00 | (magnitude >> 13) as u16 & 0x3ff,
        // Halfway from the largest finite value to 2^16, and beyond.
        x if x >= 65_520.0 => 0x7c00,
        // Below 2^−14 the values are the multiples of 2^−24.
        x if x < 6.103_515_6e-5 => (x * 16_777_216.0).round_ties_even() as u16,
        _ => {
            let to_even = magnitude >> 13 & 1;
            (((magnitude + 0xfff + to_even) >> 13) - (112 << 10)) as u16
        }
    };
    sign | rounded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_16_bit_value_survives_the_way_there_and_back() {
        for bits in 0..=u16::MAX {
            let (b, h) = (bf16_to_f32(bits), f16_to_f32(bits));
            assert!(if b.is_nan() { bf16_to_f32(f32_to_bf16(b)).is_nan() } else { f32_to_bf16(b) == bits });
            assert!(if h.is_nan() { f16_to_f32(f32_to_f16(h)).is_nan() } else { f32_to_f16(h) == bits });
        }
    }

    #[test]
    fn known_values() {
        for (bits, value) in [(0x3c00, 1.0), (0xc000, -2.0), (0x7bff, 65_504.0), (0x0001, 2.0_f32.powi(-24))]
        {
            assert_eq!((f16_to_f32(bits), f32_to_f16(value)), (value, bits));
        }
        for (bits, value) in [(0x3f80, 1.0), (0xc049, -3.140625), (0x7f80, f32::INFINITY)] {
            assert_eq!((bf16_to_f32(bits), f32_to_bf16(value)), (value, bits));
        }
    }

    /// Between each pair of neighbours: the nearest, and of two equally near ones that with an even pattern.
    #[test]
    fn rounds_to_the_nearest_even() {
        type Pair = (fn(u16) -> f32, fn(f32) -> u16);
        let types: [(Pair, u16); 2] =
            [((bf16_to_f32, f32_to_bf16), 0x7f7f), ((f16_to_f32, f32_to_f16), 0x7bff)];
        for ((widen, narrow), largest) in types {
            for bits in (0..largest).step_by(7) {
                let (low, high) = (f64::from(widen(bits)), f64::from(widen(bits + 1)));
                let middle = f64::midpoint(low, high) as f32;
                assert_eq!(narrow(middle), bits + (bits & 1), "{bits:#x}");
                assert_eq!(narrow(middle.next_down()), bits, "{bits:#x}");
                assert_eq!(narrow(middle.next_up()), bits + 1, "{bits:#x}");
                assert_eq!(narrow(-middle), 0x8000 | (bits + (bits & 1)));
            }
        }
        assert_eq!(
            (f32_to_f16(65_519.996), f32_to_f16(65_520.0), f32_to_f16(1e30)),
            (0x7bff, 0x7c00, 0x7c00)
        );
        assert_eq!(f32_to_bf16(f32::MAX), 0x7f80);
    }
}
