//! Readings, within a limit of memory: the one that was not looked at for longest goes first.

use crate::inside::Reading;
use saccade_tensor::pool;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most readings, however small.
const MOST: usize = 256;

/// The readings that are kept.
pub struct Store {
    limit: usize,
    kept: Mutex<Vec<Kept>>,
}

struct Kept {
    id: String,
    model: String,
    bytes: usize,
    reading: Arc<Reading>,
}

impl Store {
    pub fn new(limit: usize) -> Self {
        Self { limit, kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a reading and gives it a name that cannot be guessed. The newest is kept whatever its size.
    pub fn keep(&self, model: String, reading: Reading) -> (String, Arc<Reading>) {
        let id = format!("{:016x}", RandomState::new().build_hasher().finish());
        let (bytes, reading) = (reading.bytes(), Arc::new(reading));
        let mut kept = self.kept();
        kept.push(Kept { id: id.clone(), model, bytes, reading: Arc::clone(&reading) });
        let mut total: usize = kept.iter().map(|kept| kept.bytes).sum();
        while kept.len() > 1 && (total > self.limit || kept.len() > MOST) {
            total -= kept.remove(0).bytes;
        }
        drop(kept);
        // Texts of ever new lengths leave memory of sizes that nobody asks for again.
        if pool::usage().waiting > self.limit / 16 {
            pool::trim();
        }
        (id, reading)
    }

    /// A reading by its name, with the name of its model.
    pub fn find(&self, id: &str) -> Option<(String, Arc<Reading>)> {
        let mut kept = self.kept();
        let place = kept.iter().position(|kept| kept.id == id)?;
        let found = kept.remove(place);
        let answer = (found.model.clone(), Arc::clone(&found.reading));
        kept.push(found);
        Some(answer)
    }
}
