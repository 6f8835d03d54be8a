//! Forward passes, cached within a limit of memory: the least recently used is dropped first.

use crate::forward_pass::intervention::strike_alike;
use crate::forward_pass::{ForwardPass, Input, Intervention};
use crate::model::Opened;
use regard_tensor::pool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most forward passes, however small.
const MOST: usize = 256;

/// A least-recently-used cache of forward passes.
pub struct PassCache {
    limit: usize,
    cached: Mutex<Vec<CachedPass>>,
}

struct CachedPass {
    model: String,
    /// What was requested, if it may be requested again.
    request: Option<PassRequest>,
    pass: Arc<ForwardPass>,
}

/// What makes a forward pass, with the model: its results are the same each time.
#[derive(Debug, Clone, PartialEq)]
pub struct PassRequest {
    pub input: Input,
    pub drawn: Vec<u32>,
    pub changes: Vec<Intervention>,
}

impl PassRequest {
    /// Whether the model reads the same tokens, whatever is changed inside it.
    fn reads_like(&self, other: &Self) -> bool {
        strike_alike(&self.changes, &other.changes) && self.drawn == other.drawn && self.input == other.input
    }
}

impl PassCache {
    pub fn new(limit: usize) -> Self {
        Self { limit, cached: Mutex::default() }
    }

    fn cached(&self) -> MutexGuard<'_, Vec<CachedPass>> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Caches a forward pass under its name. The newest stays whatever its size.
    pub fn insert(&self, model: String, request: Option<PassRequest>, pass: ForwardPass) -> Arc<ForwardPass> {
        let pass = Arc::new(pass);
        let mut cached = self.cached();
        cached.push(CachedPass { model, request, pass: Arc::clone(&pass) });
        self.make_room(&mut cached);
        drop(cached);
        // Texts of ever new lengths leave buffers of sizes that are not needed again.
        if pool::usage().waiting > self.limit / 16 {
            pool::trim();
        }
        pass
    }

    /// Drops the oldest until the others fit. Passes grow while they are viewed, so their sizes are measured now.
    fn make_room(&self, cached: &mut Vec<CachedPass>) {
        let sizes: Vec<usize> = cached.iter().map(|cached| cached.pass.bytes()).collect();
        let mut total: usize = sizes.iter().sum();
        let mut gone = 0;
        while gone + 1 < cached.len() && (total > self.limit || cached.len() - gone > MOST) {
            total -= sizes[gone];
            gone += 1;
        }
        cached.drain(..gone);
    }

    /// The cached pass of a request through the model as it is open now.
    pub fn same(&self, opened: &Arc<Opened>, request: &PassRequest) -> Option<Arc<ForwardPass>> {
        let mut cached = self.cached();
        let same = |known: &CachedPass| {
            Arc::ptr_eq(known.pass.opened(), opened) && known.request.as_ref() == Some(request)
        };
        let place = cached.iter().position(same)?;
        let found = cached.remove(place);
        let answer = Arc::clone(&found.pass);
        cached.push(found);
        Some(answer)
    }

    /// The cached pass over the same tokens that has most layers in common with a request; none if no pass has any.
    pub fn nearest(&self, opened: &Arc<Opened>, request: &PassRequest) -> Option<Arc<ForwardPass>> {
        let reads_alike = |known: &&CachedPass| {
            let alike = |known: &PassRequest| known.reads_like(request);
            Arc::ptr_eq(known.pass.opened(), opened) && known.request.as_ref().is_some_and(alike)
        };
        let cached = self.cached();
        let passes: Vec<_> = cached.iter().filter(reads_alike).map(|known| Arc::clone(&known.pass)).collect();
        drop(cached);
        let shared = |pass: &Arc<ForwardPass>| pass.shared(&request.changes).len();
        passes.into_iter().max_by_key(shared).filter(|pass| shared(pass) > 0)
    }

    /// A forward pass by its name, with the name of its model.
    pub fn find(&self, id: &str) -> Option<(String, Arc<ForwardPass>)> {
        let mut cached = self.cached();
        let place = cached.iter().position(|cached| cached.pass.id() == id)?;
        let found = cached.remove(place);
        let answer = (found.model.clone(), Arc::clone(&found.pass));
        cached.push(found);
        self.make_room(&mut cached);
        Some(answer)
    }
}
