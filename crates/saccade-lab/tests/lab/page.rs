//! The page's server over loopback, and the files of `saccade view`.

mod asked;
mod busy;
mod hostile;
mod numbers;
mod view;
