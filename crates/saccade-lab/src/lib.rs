//! The instruments of the laboratory: what the program `saccade` is made of.
//!
//! [`commands`] has one file a subcommand, [`figure`] every picture that they draw, [`model`] finds the models they take.

pub mod commands;
pub mod figure;
pub mod model;
pub mod run;
pub mod terminal;
pub mod usage;
