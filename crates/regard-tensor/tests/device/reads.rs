//! Counters of copies between main memory and devices.

use crate::{alone, bits, counted, draw, ids};
use regard_tensor::{Device, Tensor};

#[test]
fn reads_and_uploads_are_counted() {
    let _alone = alone();
    let (x, traffic) = counted(|| draw("x", &[3, 4]).to(Device::Apart).unwrap());
    assert_eq!((traffic.uploads, traffic.host_reads), (1, 0));
    let ((), traffic) = counted(|| {
        let _ = (x.values(), x.to_vec(), x.sum_all().unwrap().item(), x.to(Device::Cpu).unwrap());
    });
    assert_eq!((traffic.uploads, traffic.host_reads), (0, 4));
}

#[test]
fn ids_stay_on_their_device_until_they_are_read() {
    let _alone = alone();
    let table = draw("table", &[5, 4]).to(Device::Apart).unwrap();
    let (best, traffic) = counted(|| {
        let best = table.argmax(1).unwrap();
        // Indices along an axis of length 4 are valid rows of a table of 5, so no range check reads them.
        table.embedding(&best.reshape([5]).unwrap()).unwrap();
        best
    });
    assert_eq!((traffic.host_reads, traffic.uploads), (0, 0));
    let untouched = table.argmax(1).unwrap();
    let (values, traffic) = counted(|| untouched.values().to_vec());
    assert_eq!((traffic.host_reads, &values[..]), (1, best.values()));
    let (_, again) = counted(|| untouched.values().to_vec());
    assert_eq!(again.host_reads, 0, "values that were read are kept");
    assert_eq!(untouched, draw("table", &[5, 4]).argmax(1).unwrap());

    let host = ids(&[1, 2]);
    let (_, traffic) = counted(|| (host.to(Device::Apart).unwrap(), host.to(Device::Apart).unwrap()));
    assert_eq!(traffic.uploads, 1, "a copy is made once");
    let (_, traffic) = counted(|| host.values().len());
    assert_eq!(traffic.host_reads, 0);
}

#[test]
fn gradients_cross_devices_with_their_values() {
    let _alone = alone();
    let x = draw("x", &[5]).tracked();
    let loss = x.to(Device::Apart).unwrap().exp().unwrap().to(Device::Cpu).unwrap().sum_all().unwrap();
    let slope = loss.backward().unwrap().get(&x).unwrap();
    assert_eq!((slope.device(), bits(&slope)), (Device::Cpu, bits(&x.exp().unwrap())));
}

#[test]
fn devices_have_names() {
    for device in [Device::Cpu, Device::Apart] {
        assert_eq!(device.to_string().parse(), Ok(device));
    }
    assert!("moon".parse::<Device>().is_err());
    let _alone = alone();
    let text = format!("{:?}", Tensor::full_on(Device::Apart, [2], 1.5).unwrap());
    assert_eq!(text, "Tensor[2] [1.5, 1.5] on apart");
}
