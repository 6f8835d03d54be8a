//! A queue for requests that take time: limited in number and duration, cancelled when the client leaves.

use super::Limits;
use super::problem::Problem;
use anyhow::Result;
use axum::http::StatusCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// What a job does; each kind has its own queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobKind {
    /// A pass through a model, or opening one.
    ForwardPass,
    /// Reading numbers of a cached forward pass.
    Lookup,
}

/// The queue of jobs.
pub struct JobQueue {
    passes: Arc<Semaphore>,
    lookups: Arc<Semaphore>,
    patience: Duration,
    time: Duration,
}

/// Sets the flag when the request was closed or took too long.
struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl JobQueue {
    pub fn new(limits: &Limits) -> Self {
        Self {
            passes: Arc::new(Semaphore::new(limits.passes)),
            lookups: Arc::new(Semaphore::new(limits.lookups)),
            patience: limits.patience,
            time: limits.time,
        }
    }

    /// Runs a function when it is its turn. The function gets a flag that is set when the client leaves; its place in
    /// the queue is free only when it has returned.
    pub async fn run<T: Send + 'static>(
        &self,
        kind: JobKind,
        job: impl FnOnce(&AtomicBool) -> Result<T> + Send + 'static,
    ) -> Result<T, Problem> {
        let queue = match kind {
            JobKind::ForwardPass => &self.passes,
            JobKind::Lookup => &self.lookups,
        };
        let turn = timeout(self.patience, Arc::clone(queue).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else { return Err(Problem::busy()) };
        let flag = Arc::new(AtomicBool::new(false));
        let _waiting = Waiting(Arc::clone(&flag));
        let task = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            job(&flag)
        });
        match timeout(self.time, task).await {
            Ok(Ok(result)) => Ok(result?),
            Ok(Err(_)) => {
                let message = "this request met a bug in the program; the server continues";
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

    fn queue(time: u64) -> JobQueue {
        let (patience, time) = (Duration::from_millis(20), Duration::from_millis(time));
        JobQueue::new(&Limits { passes: 1, patience, time, ..Limits::default() })
    }

    /// Waits for the flag, then sends a message.
    fn until_cancelled(done: std::sync::mpsc::Sender<()>) -> impl FnOnce(&AtomicBool) -> Result<()> + Send {
        move |flag| {
            while !flag.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(2));
            }
            Ok(done.send(())?)
        }
    }

    #[tokio::test]
    async fn jobs_stop_when_they_time_out_or_the_client_leaves() {
        let (done, cancelled) = channel();
        assert!(queue(30).run(JobKind::ForwardPass, until_cancelled(done)).await.is_err(), "its time is up");
        cancelled.recv_timeout(Duration::from_secs(20)).unwrap();
        let (done, cancelled) = channel();
        let endless = queue(60_000);
        // The client has left.
        let left =
            timeout(Duration::from_millis(30), endless.run(JobKind::ForwardPass, until_cancelled(done)))
                .await;
        assert!(left.is_err());
        cancelled.recv_timeout(Duration::from_secs(20)).unwrap();
    }

    #[tokio::test]
    async fn a_full_queue_is_busy_and_a_mistake_does_no_harm() {
        let queue = Arc::new(queue(60_000));
        let (go, wait) = channel::<()>();
        let (begun, begins) = channel();
        let first = {
            let queue = Arc::clone(&queue);
            let first = move |_: &AtomicBool| {
                begun.send(())?;
                Ok(wait.recv()?)
            };
            tokio::spawn(async move { queue.run(JobKind::ForwardPass, first).await })
        };
        while begins.try_recv().is_err() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert!(queue.run(JobKind::ForwardPass, |_| Ok(())).await.is_err(), "busy");
        assert!(queue.run(JobKind::Lookup, |_| Ok(())).await.is_ok(), "lookups have a queue of their own");
        go.send(()).unwrap();
        assert!(first.await.unwrap().is_ok());
        assert!(queue.run(JobKind::ForwardPass, |_| -> Result<()> { panic!("a mistake") }).await.is_err());
        assert!(queue.run(JobKind::ForwardPass, |_| Ok(())).await.is_ok());
    }
}
