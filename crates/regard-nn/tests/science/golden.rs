//! Golden files: tensors that PyTorch and transformers computed, and how to compare with them.

use regard_nn::tensor::{Ids, Mask, Tensor};
use safetensors::{Dtype, SafeTensors};
use std::collections::HashMap;
use std::path::PathBuf;

/// One golden file.
pub struct Golden {
    pub metadata: HashMap<String, String>,
    tensors: HashMap<String, (Dtype, Vec<usize>, Vec<u8>)>,
    name: String,
}

impl Golden {
    pub fn open(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.safetensors"));
        let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let tensors = tensors
            .iter()
            .map(|(name, view)| {
                (name.to_owned(), (view.dtype(), view.shape().to_vec(), view.data().to_vec()))
            })
            .collect();
        Self { metadata: header.metadata().clone().unwrap_or_default(), tensors, name: name.to_owned() }
    }

    fn raw(&self, name: &str) -> &(Dtype, Vec<usize>, Vec<u8>) {
        self.tensors.get(name).unwrap_or_else(|| panic!("{} has no tensor {name}", self.name))
    }

    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// The names below a prefix, without it, in order.
    pub fn below(&self, prefix: &str) -> Vec<String> {
        let mut names: Vec<String> =
            self.tensors.keys().filter_map(|name| name.strip_prefix(prefix)).map(str::to_owned).collect();
        names.sort();
        names
    }

    pub fn tensor(&self, name: &str) -> Tensor {
        let (dtype, shape, bytes) = self.raw(name);
        assert_eq!(*dtype, Dtype::F32, "{name}");
        let values: Vec<f32> =
            bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
        Tensor::new(&values, shape.as_slice()).unwrap()
    }

    pub fn integers(&self, name: &str) -> (Vec<i64>, Vec<usize>) {
        let (dtype, shape, bytes) = self.raw(name);
        assert_eq!(*dtype, Dtype::I64, "{name}");
        (bytes.chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap())).collect(), shape.clone())
    }

    /// Ids; −100, which means "ignore" in PyTorch, becomes the largest id.
    pub fn ids(&self, name: &str) -> Ids {
        let (values, shape) = self.integers(name);
        let values: Vec<u32> = values.iter().map(|&id| u32::try_from(id).unwrap_or(u32::MAX)).collect();
        Ids::new(&values, shape.as_slice()).unwrap()
    }

    pub fn mask(&self, name: &str) -> Mask {
        let (dtype, shape, bytes) = self.raw(name);
        assert!(matches!(dtype, Dtype::I64 | Dtype::U8), "{name}");
        let size = if *dtype == Dtype::I64 { 8 } else { 1 };
        let values: Vec<bool> = bytes.chunks_exact(size).map(|value| value.iter().any(|&b| b != 0)).collect();
        Mask::new(&values, shape.as_slice()).unwrap()
    }

    /// Writes the tensors below a prefix as a safetensors file of their own.
    pub fn write_below(&self, prefix: &str, path: &std::path::Path) {
        let names = self.below(prefix);
        let views = names.iter().map(|name| {
            let (dtype, shape, bytes) = self.raw(&format!("{prefix}{name}"));
            (name, safetensors::tensor::TensorView::new(*dtype, shape.clone(), bytes).unwrap())
        });
        std::fs::write(path, safetensors::serialize(views, None).unwrap()).unwrap();
    }
}

/// Fails unless two tensors agree to a tolerance, relative to the largest value (or 1).
pub fn agree(what: &str, got: &Tensor, want: &Tensor, tolerance: f32) {
    assert_eq!(got.shape(), want.shape(), "{what}");
    let scale = want.values().iter().fold(1.0_f32, |most, value| most.max(value.abs()));
    for (i, (got, want)) in got.values().iter().zip(want.values().iter()).enumerate() {
        let error = (got - want).abs() / scale;
        assert!(error <= tolerance, "{what}[{i}]: {got}, expected {want} (off by {error})");
    }
}
