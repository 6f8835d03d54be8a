//! A parallel map with results in order.

use crate::error::Result;

/// Applies `work` to every item on all threads. The results have the order of the items.
pub(crate) fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> Result<R> + Sync) -> Result<Vec<R>> {
    let threads = regard_tensor::threads().min(items.len()).max(1);
    if threads == 1 {
        return items.iter().map(work).collect();
    }
    let share = items.len().div_ceil(threads);
    let parts = std::thread::scope(|scope| {
        let work = &work;
        let handles: Vec<_> = items
            .chunks(share)
            .map(|part| scope.spawn(move || part.iter().map(work).collect::<Result<Vec<R>>>()))
            .collect();
        handles
            .into_iter()
            .map(|handle| handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Result<Vec<_>>>()
    })?;
    Ok(parts.into_iter().flatten().collect())
}
