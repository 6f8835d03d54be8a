//! The instruments of the laboratory: what the program `regard` is made of.
//!
//! [`commands`] has one file a subcommand, [`figure`] every picture that they draw, [`model`] finds the models they take and
//! [`inputs`] what those read, [`corpus`] what is read to them; [`inspect`] is what the commands of analysis measure and
//! draw; all code that asks other machines is in [`fetch`]. [`experiments`] has one file for each question that the laboratory puts to the
//! test, by the rules of [`experiment`]; [`report`] tells them as one article.

pub mod browser;
pub mod cache;
pub mod classes;
pub mod commands;
pub mod corpus;
pub mod experiment;
pub mod experiments;
pub mod fetch;
pub mod figure;
pub mod image;
pub mod inputs;
pub mod inside;
pub mod inspect;
pub mod machine;
pub mod model;
pub mod report;
pub mod run;
pub mod server;
pub mod standalone;
pub mod statistics;
pub mod survey;
pub mod tensors;
pub mod terminal;
pub mod usage;
pub mod work;
