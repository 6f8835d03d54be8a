//! Images and labels.

use super::made::{Folder, gzip, problem};
use regard_nn::data::idx::Images;

fn images(count: u32, rows: u32, columns: u32, pixels: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, 3];
    for length in [count, rows, columns] {
        bytes.extend(length.to_be_bytes());
    }
    bytes.extend(pixels);
    bytes
}

fn labels(count: u32, labels: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, 1];
    bytes.extend(count.to_be_bytes());
    bytes.extend(labels);
    bytes
}

#[test]
fn images_and_labels_are_read_plain_or_compressed() {
    let folder = Folder::new();
    let pixels: Vec<u8> = (0..12).collect();
    let image_path = folder.write("images", gzip(images(2, 2, 3, &pixels)));
    let label_path = folder.write("labels", labels(2, &[7, 3]));
    let read = Images::open(image_path, label_path).expect("reading");
    assert_eq!((read.len(), read.rows, read.columns), (2, 2, 3));
    assert_eq!(read.image(1), Some(&pixels[6..]));
    assert_eq!((read.image(2), read.image(usize::MAX)), (None, None));
    assert_eq!(read.labels, [7, 3]);
}

#[test]
fn wrong_headers_are_rejected() {
    let folder = Folder::new();
    let good_labels = folder.write("labels", labels(2, &[7, 3]));
    let open = |content: &[u8]| problem(&folder, Images::open(folder.write("images", content), &good_labels));
    assert!(open(&images(2, 2, 3, &[0; 11])).contains("there are fewer values"));
    assert!(open(&images(2, 2, 3, &[0; 13])).contains("there are more values"));
    assert!(open(&images(u32::MAX, u32::MAX, u32::MAX, &[])).contains("more than 2147483648 values"));
    // Within the limit, but missing: the header's claim must not allocate memory.
    assert!(open(&images(2, 1 << 15, 1 << 15, &[0; 5])).contains("there are fewer values"));
    assert!(open(&images(2, 0, 3, &[])).contains("0×3 pixels"));
    assert!(open(&images(1, 2, 3, &[0; 6])).contains("it has 2 labels, but"));
    assert!(open(&labels(2, &[7, 3])).contains("1 axes, expected 3"));
    assert!(open(&[0, 0, 13, 3]).contains("values of type 0x0d"));
    assert!(open(b"").contains("not an IDX file"));
    assert!(open(b"\x00").contains("not an IDX file"));
    assert!(open(b"PNG image").contains("not an IDX file"));
    assert!(open(&images(2, 2, 3, &[])[..10]).contains("ends within its header"));
    let cut = gzip(images(2, 2, 3, &[0; 12]));
    assert!(open(&cut[..cut.len() - 3]).contains("incomplete"));
    let none = folder.write("no_labels", labels(0, &[]));
    let images_path = folder.write("no_images", images(0, 2, 3, &[]));
    assert!(problem(&folder, Images::open(images_path, none)).contains("no images"));
}
