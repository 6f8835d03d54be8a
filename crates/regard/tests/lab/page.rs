//! The page's server over loopback, and the files of `regard view`.

mod asked;
mod busy;
mod hostile;
mod numbers;
mod view;
