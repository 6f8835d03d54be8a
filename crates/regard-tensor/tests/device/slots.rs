//! What a recording can exchange: it stays on its device, and remembers what operations on it allow and made of it.

use crate::{alone, counted, draw, ids};
use regard_tensor::ops::CrossEntropy;
use regard_tensor::random::Key;
use regard_tensor::{Device, Exchange, Exchangeable, Ids, Mask, Recording, Tensor};

fn fits<S: Exchangeable>(slot: &S, with: &S) -> bool {
    Exchange::new().put(slot, with)
}

/// What a replay with these values would write.
fn written<S: Exchangeable>(slot: &S, with: &S) -> Vec<Vec<u8>> {
    let mut exchange = Exchange::new();
    assert!(exchange.put(slot, with));
    exchange.bytes().map(<[u8]>::to_vec).collect()
}

#[test]
fn a_slot_takes_ids_that_every_operation_on_it_allows() {
    let _alone = alone();
    let slot = ids(&[3, 1, 2]).slot(Device::Apart).unwrap();
    assert!(fits(&slot, &ids(&[7, u32::MAX, 0])), "no operation has looked at it");
    assert!(!fits(&slot, &ids(&[1, 2])), "two ids for three");
    let table = draw("table", &[9, 4]).to(Device::Apart).unwrap();
    let (rows, traffic) = counted(|| table.embedding(&slot).unwrap());
    assert_eq!(traffic.host_reads, 0, "the ids were not read to check them");
    assert!(fits(&slot, &ids(&[8, 0, 8])) && !fits(&slot, &ids(&[0, 9, 0])));
    let settings = CrossEntropy { ignored: Some(u32::MAX), smoothing: 0.0 };
    let (loss, traffic) = counted(|| rows.cross_entropy(&slot, settings).unwrap());
    assert_eq!(traffic.host_reads, 0);
    assert!(fits(&slot, &ids(&[3, 3, 3])) && !fits(&slot, &ids(&[0, 4, 0])), "there are four classes");
    let expected = draw("table", &[9, 4]).embedding(&ids(&[3, 1, 2])).unwrap();
    let expected = expected.cross_entropy(&ids(&[3, 1, 2]), settings).unwrap();
    assert_eq!(loss.item().unwrap().to_bits(), expected.item().unwrap().to_bits());
}

#[test]
fn a_target_that_is_ignored_changes_with_the_replay() {
    let _alone = alone();
    let logits = draw("logits", &[3, 4]).to(Device::Apart).unwrap();
    let targets = ids(&[3, u32::MAX, 2]);
    let settings = CrossEntropy { ignored: Some(u32::MAX), smoothing: 0.0 };
    let plain = logits.cross_entropy(&targets, settings).unwrap();
    let slot = targets.slot(Device::Apart).unwrap();
    let (loss, traffic) = counted(|| logits.cross_entropy(&slot, settings).unwrap());
    assert_eq!(traffic.host_reads, 0);
    assert_eq!(loss.item().unwrap().to_bits(), plain.item().unwrap().to_bits());
    // Two of three rows counted; in this batch one does.
    let expected: [&[u8]; 2] = [bytemuck::cast_slice(&[u32::MAX, 1, u32::MAX]), &1.0_f32.to_ne_bytes()];
    assert_eq!(written(&slot, &ids(&[u32::MAX, 1, u32::MAX])), expected);
    assert!(!fits(&slot, &ids(&[3, 4, 2])), "there are four classes");
}

#[test]
fn rows_that_count_are_scored_in_room_for_more() {
    let _alone = alone();
    let (rows, classes, ignored) = (300, 5, u32::MAX);
    let every = |nth: u32| -> Ids {
        let ids: Vec<u32> = (0..rows).map(|i| if i % nth == 0 { i % classes } else { ignored }).collect();
        Ids::new(&ids, [rows as usize]).unwrap()
    };
    let x = draw("x", &[rows as usize, 4]).to(Device::Apart).unwrap().tracked();
    let weight = draw("weight", &[classes as usize, 4]).to(Device::Apart).unwrap().tracked();
    let settings = CrossEntropy { ignored: Some(ignored), smoothing: 0.1 };
    let plain = x.scored_cross_entropy(&weight, None, &every(3), settings).unwrap();
    let slot = every(3).slot(Device::Apart).unwrap();
    let (loss, traffic) = counted(|| x.scored_cross_entropy(&weight, None, &slot, settings).unwrap());
    assert_eq!(traffic.host_reads, 0);
    let near = |a: &Tensor, b: &Tensor| {
        let (a, b) = (a.to_vec(), b.to_vec());
        a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-6 * b.abs().max(1.0)) && a.len() == b.len()
    };
    assert!(near(&loss, &plain));
    let (found, expected) = (loss.backward().unwrap(), plain.backward().unwrap());
    for parameter in [&x, &weight] {
        assert!(near(&found.get(parameter).unwrap(), &expected.get(parameter).unwrap()));
    }
    // A hundred rows and 60 rows both have room for 128. With all 300 it is another problem.
    let writes = written(&slot, &every(5));
    assert_eq!(writes[1].len(), 4 * 128);
    assert_eq!(writes[3], (128.0_f32 / 60.0).to_ne_bytes());
    assert!(fits(&slot, &every(3)) && !fits(&slot, &every(1)));
}

#[test]
fn what_follows_from_a_mask_changes_with_it() {
    let _alone = alone();
    let mask = |values: &[bool]| Mask::new(values, [values.len()]).unwrap();
    let slot = mask(&[true, true, false]).slot(Device::Apart).unwrap();
    let (count, traffic) =
        counted(|| slot.derive([1], |mask| vec![mask.iter().filter(|&&here| here).count() as u32]).unwrap());
    assert_eq!((traffic.host_reads, count.values()), (0, &[2][..]));
    let shares =
        slot.derive_values(Device::Apart, [3], |mask| mask.iter().map(|&here| f32::from(here)).collect());
    assert_eq!(shares.unwrap().to_vec(), [1.0, 1.0, 0.0]);
    // What follows from what followed.
    count.derive([1], |count| vec![count[0] * 10]).unwrap();
    let none_first = slot.derive_some([1], |mask| mask[0].then(|| vec![0])).unwrap();
    assert!(none_first.is_some());
    let expected: [&[u8]; 5] = [
        &[1, 0, 0],
        bytemuck::cast_slice(&[1_u32]),
        bytemuck::cast_slice(&[10_u32]),
        bytemuck::cast_slice(&[1.0_f32, 0.0, 0.0]),
        bytemuck::cast_slice(&[0_u32]),
    ];
    assert_eq!(written(&slot, &mask(&[true, false, false])), expected);
    assert!(!fits(&slot, &mask(&[false, true, true])), "the last rule does not apply");
    assert!(!fits(&slot, &mask(&[true, true])));
}

#[test]
fn values_are_exchanged_where_they_lie() {
    let slot = draw("slot", &[2, 3]).to(Device::Apart).unwrap();
    let other = draw("other", &[2, 3]);
    assert_eq!(written(&slot, &other), [bytemuck::cast_slice(&other.to_vec()).to_vec()]);
    assert!(!fits(&slot, &draw("other", &[3, 2])) && !fits(&other, &other));
    assert!(fits(&None::<Tensor>, &None) && !fits(&Some(slot.clone()), &None) && !fits(&None, &Some(slot)));
}

#[test]
fn ids_outside_a_slot_become_nothing_else() {
    assert!(!fits(&ids(&[1]), &ids(&[0])));
}

#[test]
fn other_devices_record_nothing() {
    for device in [Device::Cpu, Device::Apart] {
        let mut ran = false;
        let recorded = Recording::record(device, Key::new(1), || {
            ran = true;
            Ok(())
        });
        assert!(recorded.is_err_and(|error| error.to_string().contains("CUDA")) && !ran);
    }
}
