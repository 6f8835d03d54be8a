//! Connections: a limited number, and none that waits for ever.
//!
//! A client may open a connection and send nothing, half a request, or never read the answer. Each of these ends after a
//! while, so that such clients cannot keep others out.

use super::Limits;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, Sleep, sleep};

/// Accepts connections for ever.
pub async fn accept(listener: TcpListener, router: Router, limits: &Limits) {
    let places = Arc::new(Semaphore::new(limits.connections));
    let mut server = http1::Builder::new();
    // Counts for the first request of a connection and for each that follows on it.
    server.timer(TokioTimer::new()).header_read_timeout(limits.header_time);
    loop {
        // Beyond the limit, clients wait in the kernel's queue.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // A client that left at once is of no concern; without file descriptors, some must be closed first.
                if !matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset) {
                    sleep(Duration::from_millis(100)).await;
                }
                continue;
            }
        };
        let stream = TokioIo::new(Impatient::new(stream, limits.write_time));
        let connection = server.serve_connection(stream, TowerToHyperService::new(router.clone()));
        tokio::spawn(async move {
            let _place = place;
            // An error is a client that left or was too slow.
            let _ = connection.await;
        });
    }
}

/// A stream that fails when nothing could be written for a while: the client does not read what it asked for.
struct Impatient {
    stream: TcpStream,
    patience: Duration,
    /// When patience ends; running while a write waits.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Impatient {
    fn new(stream: TcpStream, patience: Duration) -> Self {
        Self { stream, patience, deadline: None }
    }

    /// The outcome of a write, or an error if it has waited for too long.
    fn or_late<T>(&mut self, context: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.deadline = None;
            return outcome;
        }
        let end = Instant::now() + self.patience;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
        ready!(deadline.as_mut().poll(context));
        Poll::Ready(Err(ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Impatient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Impatient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.or_late(context, outcome)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(context);
        self.or_late(context, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_shutdown(context);
        self.or_late(context, outcome)
    }
}
