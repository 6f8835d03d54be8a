//! Readings, within a limit of memory: the one that was not looked at for longest goes first.

use crate::inside::Reading;
use regard_tensor::pool;
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
        let reading = Arc::new(reading);
        let mut kept = self.kept();
        kept.push(Kept { id: id.clone(), model, reading: Arc::clone(&reading) });
        self.make_room(&mut kept);
        drop(kept);
        // Texts of ever new lengths leave memory of sizes that nobody asks for again.
        if pool::usage().waiting > self.limit / 16 {
            pool::trim();
        }
        (id, reading)
    }

    /// Lets the oldest go until the others fit. Readings grow while they are looked at, so they are measured now.
    fn make_room(&self, kept: &mut Vec<Kept>) {
        let sizes: Vec<usize> = kept.iter().map(|kept| kept.reading.bytes()).collect();
        let mut total: usize = sizes.iter().sum();
        let mut gone = 0;
        while gone + 1 < kept.len() && (total > self.limit || kept.len() - gone > MOST) {
            total -= sizes[gone];
            gone += 1;
        }
        kept.drain(..gone);
    }

    /// A reading by its name, with the name of its model.
    pub fn find(&self, id: &str) -> Option<(String, Arc<Reading>)> {
        let mut kept = self.kept();
        let place = kept.iter().position(|kept| kept.id == id)?;
        let found = kept.remove(place);
        let answer = (found.model.clone(), Arc::clone(&found.reading));
        kept.push(found);
        self.make_room(&mut kept);
        Some(answer)
    }
}
