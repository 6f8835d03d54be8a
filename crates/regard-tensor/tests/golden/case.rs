//! Reads golden files and compares results with them.

use crate::device;
use regard_tensor::{Ids, Mask, Pass, Result, Tensor};
use safetensors::{Dtype, SafeTensors};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A file: the cases of one family of operations.
pub struct Golden {
    family: String,
    stored: BTreeMap<String, Stored>,
    opened: RefCell<BTreeSet<String>>,
}

struct Stored {
    data_type: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Golden {
    /// Reads `tests/golden/<family>.safetensors`.
    pub fn open(family: &str) -> Self {
        // The crate's current folder, which may differ from the one it was built in.
        let crate_folder = std::env::var("CARGO_MANIFEST_DIR").unwrap_or(env!("CARGO_MANIFEST_DIR").into());
        let folder = Path::new(&crate_folder).join("tests/golden");
        let bytes =
            std::fs::read(folder.join(format!("{family}.safetensors"))).expect("the golden file is there");
        let tensors = SafeTensors::deserialize(&bytes).expect("the golden file is well formed");
        let stored = tensors.iter().map(|(name, view)| {
            let (data_type, shape) = (view.dtype(), view.shape().to_vec());
            (name.to_owned(), Stored { data_type, shape, bytes: view.data().to_vec() })
        });
        Self { family: family.to_owned(), stored: stored.collect(), opened: RefCell::default() }
    }

    /// One case of the file.
    pub fn case(&self, name: &str) -> Case<'_> {
        self.opened.borrow_mut().insert(name.to_owned());
        Case { golden: self, name: name.to_owned() }
    }

    /// Panics if the file has a case that was never opened.
    pub fn finish(&self) {
        let all: BTreeSet<String> = self
            .stored
            .keys()
            .filter_map(|name| name.split_once('/'))
            .map(|(case, _)| case.to_owned())
            .collect();
        assert_eq!(*self.opened.borrow(), all, "each case of {} is tested", self.family);
    }

    /// The names of all tensors, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.stored.keys().map(String::as_str)
    }

    /// A tensor by its full name.
    pub fn tensor(&self, name: &str) -> Tensor {
        let Stored { data_type, shape, bytes } = self.find(name);
        assert_eq!(*data_type, Dtype::F32, "{name}");
        let (words, _) = bytes.as_chunks::<4>();
        let values: Vec<f32> = words.iter().map(|&word| f32::from_le_bytes(word)).collect();
        device::new(&values, shape.clone()).expect("the file knows its shapes")
    }

    /// Ids by their full name.
    pub fn ids(&self, name: &str) -> Ids {
        let Stored { data_type, shape, bytes } = self.find(name);
        assert_eq!(*data_type, Dtype::I64, "{name}");
        let (words, _) = bytes.as_chunks::<8>();
        let values: Vec<u32> = words.iter().map(|&word| i64::from_le_bytes(word) as u32).collect();
        Ids::new(&values, shape.clone()).expect("the file knows its shapes")
    }

    fn find(&self, name: &str) -> &Stored {
        self.stored.get(name).unwrap_or_else(|| panic!("{} has {name}", self.family))
    }
}

/// Inputs, result and gradients of one operation.
pub struct Case<'a> {
    golden: &'a Golden,
    name: String,
}

impl Case<'_> {
    fn full(&self, name: &str) -> String {
        format!("{}/{name}", self.name)
    }

    /// Whether there is such a tensor.
    pub fn has(&self, name: &str) -> bool {
        self.golden.stored.contains_key(&self.full(name))
    }

    /// A tensor that gets no gradient.
    pub fn tensor(&self, name: &str) -> Tensor {
        self.golden.tensor(&self.full(name))
    }

    /// A tensor that gets a gradient.
    pub fn tracked(&self, name: &str) -> Tensor {
        self.tensor(name).tracked()
    }

    pub fn ids(&self, name: &str) -> Ids {
        self.golden.ids(&self.full(name))
    }

    pub fn mask(&self, name: &str) -> Mask {
        let Stored { data_type, shape, bytes } = self.golden.find(&self.full(name));
        assert_eq!(*data_type, Dtype::U8, "{name}");
        let values: Vec<bool> = bytes.iter().map(|&byte| byte != 0).collect();
        Mask::new(&values, shape.clone()).expect("the file knows its shapes")
    }

    /// Checks a function of `x` alone.
    pub fn unary(&self, function: impl Fn(&Tensor) -> Result<Tensor>) -> Result<()> {
        let x = self.tracked("x");
        self.check(&function(&x)?, &[("x", &x)])
    }

    /// Checks a function of `a` and `b`.
    pub fn binary(&self, function: impl Fn(&Tensor, &Tensor) -> Result<Tensor>) -> Result<()> {
        let (a, b) = (self.tracked("a"), self.tracked("b"));
        self.check(&function(&a, &b)?, &[("a", &a), ("b", &b)])
    }

    /// Compares the result, and the gradients of all inputs under the stored upstream gradient.
    pub fn check(&self, out: &Tensor, inputs: &[(&str, &Tensor)]) -> Result<()> {
        self.compare("out", out);
        let gradients = out.gradients(&Pass::new().from_upstream(self.tensor("upstream")))?;
        for (name, input) in inputs {
            let gradient =
                gradients.get(input).unwrap_or_else(|| panic!("{} gets a gradient", self.full(name)));
            self.compare(&format!("grad/{name}"), &gradient);
        }
        let prefix = self.full("grad/");
        let stored = self.golden.names().filter(|name| name.starts_with(&prefix)).count();
        assert_eq!(stored, inputs.len(), "each gradient of {} is compared", self.name);
        Ok(())
    }

    /// Compares one value with the stored one.
    pub fn compare(&self, name: &str, got: &Tensor) {
        assert_close(&format!("{} {}", self.golden.family, self.full(name)), got, &self.tensor(name));
    }
}

/// Panics unless shapes are equal and each value is within 1e-6 + 1e-5 · (the largest expected magnitude).
pub fn assert_close(what: &str, got: &Tensor, expected: &Tensor) {
    assert_eq!(got.shape(), expected.shape(), "{what}");
    let (got, expected) = (got.to_vec(), expected.to_vec());
    let largest = expected.iter().filter(|x| x.is_finite()).fold(0.0_f32, |largest, x| largest.max(x.abs()));
    let tolerance = 1e-6 + 1e-5 * largest;
    for (index, (got, expected)) in got.iter().zip(&expected).enumerate() {
        // Infinities must be equal; NaN is never close.
        let close = got == expected || (got - expected).abs() <= tolerance;
        assert!(close, "{what} at {index}: got {got}, expected {expected} ± {tolerance}");
    }
}
