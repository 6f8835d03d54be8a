//! Work that takes time: so much at once, for so long, and only while someone waits for it.

use super::Limits;
use super::problem::Problem;
use anyhow::Result;
use axum::http::StatusCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How much work it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// A pass through a model, or opening one.
    Pass,
    /// A look at what a pass has left.
    Look,
}

/// The queue of work.
pub struct Work {
    passes: Arc<Semaphore>,
    looks: Arc<Semaphore>,
    patience: Duration,
    time: Duration,
}

/// Sets the flag when nobody waits any more: the request was closed, or took too long.
struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Work {
    pub fn new(limits: &Limits) -> Self {
        Self {
            passes: Arc::new(Semaphore::new(limits.passes)),
            looks: Arc::new(Semaphore::new(limits.looks)),
            patience: limits.patience,
            time: limits.time,
        }
    }

    /// Runs a function when it is its turn. The function gets a flag that is set once nobody waits for it; its place in
    /// the queue is free only when it has returned.
    pub async fn run<T: Send + 'static>(
        &self,
        weight: Weight,
        work: impl FnOnce(&AtomicBool) -> Result<T> + Send + 'static,
    ) -> Result<T, Problem> {
        let queue = match weight {
            Weight::Pass => &self.passes,
            Weight::Look => &self.looks,
        };
        let turn = timeout(self.patience, Arc::clone(queue).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else { return Err(Problem::busy()) };
        let flag = Arc::new(AtomicBool::new(false));
        let _waiting = Waiting(Arc::clone(&flag));
        let task = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work(&flag)
        });
        match timeout(self.time, task).await {
            Ok(Ok(result)) => Ok(result?),
            Ok(Err(_)) => {
                let message = "this request ran into a mistake of the program's; the server goes on";
                Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, message))
            }
            Err(_) => {
                let message =
                    format!("this takes longer than {} seconds; it was stopped", self.time.as_secs());
                Err(Problem::new(StatusCode::GATEWAY_TIMEOUT, message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    fn work(time: u64) -> Work {
        let (patience, time) = (Duration::from_millis(20), Duration::from_millis(time));
        Work::new(&Limits { passes: 1, patience, time, ..Limits::default() })
    }

    /// Waits for the flag, and says that it was seen.
    fn until_told(done: std::sync::mpsc::Sender<()>) -> impl FnOnce(&AtomicBool) -> Result<()> + Send {
        move |flag| {
            while !flag.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(2));
            }
            Ok(done.send(())?)
        }
    }

    #[tokio::test]
    async fn work_that_takes_too_long_or_that_nobody_waits_for_is_told_to_stop() {
        let (done, told) = channel();
        assert!(work(30).run(Weight::Pass, until_told(done)).await.is_err(), "its time is up");
        told.recv_timeout(Duration::from_secs(20)).unwrap();
        let (done, told) = channel();
        let endless = work(60_000);
        // Whoever waited has left.
        let left = timeout(Duration::from_millis(30), endless.run(Weight::Pass, until_told(done))).await;
        assert!(left.is_err());
        told.recv_timeout(Duration::from_secs(20)).unwrap();
    }

    #[tokio::test]
    async fn a_full_queue_is_busy_and_a_mistake_does_no_harm() {
        let work = Arc::new(work(60_000));
        let (go, wait) = channel::<()>();
        let (begun, begins) = channel();
        let first = {
            let work = Arc::clone(&work);
            let first = move |_: &AtomicBool| {
                begun.send(())?;
                Ok(wait.recv()?)
            };
            tokio::spawn(async move { work.run(Weight::Pass, first).await })
        };
        while begins.try_recv().is_err() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert!(work.run(Weight::Pass, |_| Ok(())).await.is_err(), "busy");
        assert!(work.run(Weight::Look, |_| Ok(())).await.is_ok(), "looks have a queue of their own");
        go.send(()).unwrap();
        assert!(first.await.unwrap().is_ok());
        assert!(work.run(Weight::Pass, |_| -> Result<()> { panic!("a mistake") }).await.is_err());
        assert!(work.run(Weight::Pass, |_| Ok(())).await.is_ok());
    }
}
