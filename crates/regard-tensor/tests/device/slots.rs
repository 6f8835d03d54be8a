//! Ids that a recording can exchange: they stay on their device, and remember which ids operations on them allow.

use crate::{alone, counted, draw, ids};
use regard_tensor::ops::CrossEntropy;
use regard_tensor::random::Key;
use regard_tensor::{Device, Recording};

#[test]
fn a_slot_takes_ids_that_every_operation_on_it_allows() {
    let _alone = alone();
    let slot = ids(&[3, 1, 2]).slot(Device::Apart).unwrap();
    assert!(slot.can_become(&ids(&[7, u32::MAX, 0])), "no operation has looked at it");
    assert!(!slot.can_become(&ids(&[1, 2])), "two ids for three");
    let table = draw("table", &[9, 4]).to(Device::Apart).unwrap();
    let (rows, traffic) = counted(|| table.embedding(&slot).unwrap());
    assert_eq!(traffic.host_reads, 0, "the ids were not read to check them");
    assert!(slot.can_become(&ids(&[8, 0, 8])) && !slot.can_become(&ids(&[0, 9, 0])));
    let settings = CrossEntropy { ignored: Some(u32::MAX), smoothing: 0.0 };
    let (loss, traffic) = counted(|| rows.cross_entropy(&slot, settings).unwrap());
    assert_eq!(traffic.host_reads, 0);
    assert!(
        slot.can_become(&ids(&[3, 3, 3])) && !slot.can_become(&ids(&[0, 4, 0])),
        "there are four classes"
    );
    let expected = draw("table", &[9, 4]).embedding(&ids(&[3, 1, 2])).unwrap();
    let expected = expected.cross_entropy(&ids(&[3, 1, 2]), settings).unwrap();
    assert_eq!(loss.item().unwrap().to_bits(), expected.item().unwrap().to_bits());
}

#[test]
fn a_target_that_is_ignored_is_found_in_a_slot_too() {
    let _alone = alone();
    let logits = draw("logits", &[3, 4]).to(Device::Apart).unwrap();
    let targets = ids(&[3, u32::MAX, 2]);
    let settings = CrossEntropy { ignored: Some(u32::MAX), smoothing: 0.0 };
    let plain = logits.cross_entropy(&targets, settings).unwrap();
    let (loss, traffic) =
        counted(|| logits.cross_entropy(&targets.slot(Device::Apart).unwrap(), settings).unwrap());
    assert!(traffic.host_reads > 0, "which rows count depends on the ids: such a step is not recorded");
    assert_eq!(loss.item().unwrap().to_bits(), plain.item().unwrap().to_bits());
}

#[test]
fn ids_outside_a_slot_become_nothing_else() {
    assert!(!ids(&[1]).can_become(&ids(&[0])));
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
