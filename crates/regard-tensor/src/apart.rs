//! The memory of [`Device::Apart`](crate::Device::Apart), a device for tests.
//!
//! It lies in main memory like everything else, but its bytes leave it only as copies, as those of a GPU would.

/// Bytes that only copies reach.
pub(crate) struct Memory(Box<[u8]>);

impl Memory {
    pub fn store(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    pub fn read(&self, start: usize, out: &mut [u8]) {
        out.copy_from_slice(&self.0[start..start + out.len()]);
    }
}
