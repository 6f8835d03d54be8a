//! JPEG files, against what Pillow reads from them (`tools/golden_pictures.py`).

use super::made::{complaint, text, vit};
use regard::image::{self, Preprocessing};
use regard_nn::models::VitConfig;
use regard_nn::models::form::{Input, Patches};
use std::path::{Path, PathBuf};
use tempfile::tempdir;

fn picture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/pictures").join(name)
}

/// A model that reads the points of the pictures as they are.
fn patches(channels: usize) -> Patches {
    let form = VitConfig { image: [19, 29], patch: 1, channels, ..VitConfig::default() }.form();
    let Input::Patches(patches) = form.input else { panic!("a ViT reads pictures") };
    patches
}

/// Points from 0 to 255.
fn points(name: &str, channels: usize) -> Vec<f32> {
    let bytes = std::fs::read(picture(name)).unwrap();
    let pixels = image::decode(&bytes, &Preprocessing::default(), patches(channels)).unwrap();
    let opened = image::read(&picture(name), &Preprocessing::default(), patches(channels)).unwrap();
    assert_eq!(pixels.to_vec(), opened.to_vec());
    pixels.values().iter().map(|value| (value + 1.0) * 127.5).collect()
}

/// Decoders differ in how they round, and in how they widen colours that are stored at half the size.
#[test]
fn a_jpeg_has_the_points_that_pillow_reads() {
    for (name, most) in [("full-colour", 2.1), ("halved-colour", 4.1), ("progressive", 4.1), ("grey", 1.1)] {
        for channels in [1, 3] {
            let (got, want) =
                (points(&format!("{name}.jpg"), channels), points(&format!("{name}.png"), channels));
            let off = got.iter().zip(&want).map(|(got, want)| (got - want).abs()).fold(0.0, f32::max);
            assert!(off <= most, "{name} in {channels} channels is {off} levels off");
            let spread = want.iter().fold(0.0, |most: f32, &value| most.max((value - want[0]).abs()));
            assert!(spread > 50.0, "{name} has something to read");
        }
    }
}

#[test]
fn a_small_file_cannot_ask_for_a_huge_picture() {
    let mut bytes = std::fs::read(picture("full-colour.jpg")).unwrap();
    let frame = bytes.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap();
    // The marker, a length and the bits of a value stand before height and width.
    for side in [5, 7] {
        bytes[frame + side..frame + side + 2].copy_from_slice(&9_000_u16.to_be_bytes());
    }
    let error = image::decode(&bytes, &Preprocessing::default(), patches(3)).unwrap_err();
    assert!(format!("{error:#}").contains("9000 × 9000 points"), "{error:#}");
}

#[test]
fn damaged_jpegs_are_rejected_in_one_line() {
    let folder = tempdir().unwrap();
    let (model, file, out) =
        (folder.path().join("model"), folder.path().join("x.jpg"), folder.path().join("trace.safetensors"));
    vit(&model);
    let whole = std::fs::read(picture("full-colour.jpg")).unwrap();
    let reject = |bytes: &[u8], why: &str| {
        std::fs::write(&file, bytes).unwrap();
        let (problem, code) = complaint(&["trace", text(&model), "--image", text(&file), "-o", text(&out)]);
        assert!(problem.contains("is not a PNG or JPEG that can be read"), "{why}: {problem}");
        assert!(code == 1 && problem.trim().lines().count() == 1, "{why}: {problem}");
    };
    reject(&whole[..2], "two bytes");
    reject(&whole[..whole.len() / 3], "a header without an end");
    reject(&whole[..whole.len() - 60], "points are missing");
    reject(b"\xff\xd8\xff\xe0 nothing of the kind", "no header");
    // 65,535 points a side: the frame's header has height and width after the marker, length and precision.
    let frame = whole.windows(2).position(|two| two == [0xff, 0xc0]).unwrap();
    let mut huge = whole.clone();
    huge[frame + 5..frame + 9].fill(0xff);
    reject(&huge, "too large");
}

/// Whatever stands in a file, there is a picture or an error.
#[test]
fn no_jpeg_is_a_surprise() {
    for name in ["full-colour.jpg", "progressive.jpg", "grey.jpg"] {
        let whole = std::fs::read(picture(name)).unwrap();
        for at in 2..whole.len() {
            for value in [0x00, 0xff, whole[at] ^ 0x55] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                if let Ok(pixels) = image::decode(&bytes, &Preprocessing::default(), patches(3)) {
                    assert_eq!(pixels.shape()[..], [1, 3, 19, 29]);
                }
            }
        }
    }
}
