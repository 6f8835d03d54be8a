//! 16-bit values: conversion, arithmetic, updates, and memory-mapped files.

use crate::{alone, bits, draw, ids};
use regard_tensor::ops::{CrossEntropy, Function, Layout};
use regard_tensor::optimiser::{Method, Optimiser, Update};
use regard_tensor::{DataType, Device, Gradient, MappedFile, Tensor};

#[test]
fn set_values_and_in_place_operations_keep_device_and_type() {
    let _alone = alone();
    for device in [Device::Cpu, Device::Apart] {
        for data_type in [DataType::F32, DataType::Bf16, DataType::F16] {
            let mut x = Tensor::zeros([2, 3]).to_type(data_type).unwrap().to(device).unwrap();
            x.set_values(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
            x.overwrite(0, 1, &Tensor::full_on(device, [1, 3], 0.5).unwrap()).unwrap();
            assert_eq!((x.device(), x.data_type()), (device, data_type));
            assert_eq!(x.to_vec(), [1.0, 2.0, 3.0, 0.5, 0.5, 0.5]);
            let gradient = Gradient::Dense(Tensor::full_on(device, [2, 3], 1.0).unwrap());
            let mut updates = [Update { parameter: &mut x, gradient: Some(&gradient), decays: false }];
            Optimiser::new(Method::Sgd { momentum: 0.0 }, 0.0).step(&mut updates, 0.5, 1.0).unwrap();
            assert_eq!((x.device(), x.data_type()), (device, data_type));
            assert_eq!(x.to_vec(), [0.5, 1.5, 2.5, 0.0, 0.0, 0.0]);
        }
    }
}

#[test]
fn types_convert_there_and_back_on_any_device() {
    let _alone = alone();
    let x = draw("x", &[3, 1000]);
    for device in [Device::Cpu, Device::Apart] {
        let here = x.to(device).unwrap();
        for (data_type, unit) in [(DataType::Bf16, 2.0_f32.powi(-9)), (DataType::F16, 2.0_f32.powi(-12))] {
            let half = here.to_type(data_type).unwrap();
            assert_eq!((half.data_type(), half.device(), half.shape()), (data_type, device, x.shape()));
            let wide = half.to_type(DataType::F32).unwrap();
            assert_eq!(bits(&wide.to_type(data_type).unwrap()), bits(&half), "a rounded value stays");
            for (rounded, exact) in wide.values().iter().zip(x.values().iter()) {
                assert!((rounded - exact).abs() <= unit * 2.0 * exact.abs().max(1e-4), "{rounded} {exact}");
            }
        }
        let other = here.to_type(DataType::Bf16).unwrap().to_type(DataType::F16).unwrap();
        assert_eq!(bits(&other), bits(&x.to_type(DataType::Bf16).unwrap().to_type(DataType::F16).unwrap()));
    }
}

#[test]
fn operations_on_16_bit_values_are_those_on_their_f32_values() {
    let _alone = alone();
    let (x, w) = (draw("x", &[3, 8]), draw("w", &[8, 5]));
    for device in [Device::Cpu, Device::Apart] {
        for data_type in [DataType::Bf16, DataType::F16] {
            let half = |x: &Tensor| x.to_type(data_type).unwrap();
            let rounded = |x: &Tensor| half(x).to_type(DataType::F32).unwrap();
            let run = |x: Tensor, w: Tensor| {
                let (x, w) = (x.to(device).unwrap().tracked(), w.to(device).unwrap().tracked());
                let rows = w.embedding(&ids(&[3, 3, 0])).unwrap().sum_all().unwrap();
                let y = x.linear(&w, None, Layout::InOut, Some(Function::Gelu)).unwrap();
                let turned = y.linear(&w, None, Layout::OutIn, None).unwrap();
                let scored =
                    turned.scored_cross_entropy(&x, None, &ids(&[1, 0, 2]), CrossEntropy::default()).unwrap();
                let loss = y.sum_all().unwrap().add(&rows).unwrap().add(&scored).unwrap();
                let gradients = loss.backward().unwrap();
                [bits(&loss), bits(&y), bits(&gradients.get(&x).unwrap()), bits(&gradients.get(&w).unwrap())]
            };
            assert_eq!(run(half(&x), half(&w)), run(rounded(&x), rounded(&w)));
        }
    }
}

#[test]
fn mapped_values_stay_in_their_type() {
    let _alone = alone();
    let path = std::env::temp_dir().join(format!("regard-mapped-{}.bin", std::process::id()));
    // 1, −2, 0.5 and 3 in bf16, then the same in f16, then a byte more.
    let halves: [u16; 8] = [0x3f80, 0xc000, 0x3f00, 0x4040, 0x3c00, 0xc000, 0x3800, 0x4200];
    let bytes: Vec<u8> = halves.iter().flat_map(|bits| bits.to_le_bytes()).chain([7]).collect();
    std::fs::write(&path, &bytes).unwrap();
    let file = MappedFile::open(&path).unwrap();
    let values = vec![1.0, -2.0, 0.5, 3.0];
    for (data_type, range) in [(DataType::Bf16, 0..8), (DataType::F16, 8..16)] {
        let x = file.tensor_of(data_type, range, [2, 2]).unwrap();
        assert_eq!((x.data_type(), x.to_vec()), (data_type, values.clone()));
        assert_eq!(x.to(Device::Apart).unwrap().sum_all().unwrap().item(), Ok(2.5));
    }
    // Values at an odd address are copied and keep their type.
    let odd = file.tensor_of(DataType::F16, 9..17, [4]).unwrap();
    assert_eq!((odd.data_type(), odd.count()), (DataType::F16, 4));
    assert!(file.tensor_of(DataType::Bf16, 0..8, [5]).is_err());
    assert!(file.tensor_of(DataType::Bf16, 12..20, [4]).is_err());
    assert!(file.tensor(0..8, [4]).is_err());
    drop(file);
    std::fs::remove_file(path).unwrap();
}
