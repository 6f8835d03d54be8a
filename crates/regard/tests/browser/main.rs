//! The page in a real browser. Needs Chromium: `./test` finds or installs it and runs these, which `cargo test` leaves out.

mod bench;
mod chrome;
mod errors;
mod exports;
mod film;
mod flow;
mod interactions;
mod interventions;
mod made;
mod offline;
mod program;
mod real_sizes;
mod views;
