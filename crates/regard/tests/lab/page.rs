//! The page's server over loopback, and the files of `regard view`.

mod busy;
mod hostile;
mod numbers;
mod requests;
mod resumed;
mod stalled;
mod view;
