//! Tests of the instruments, a module a topic.

mod analysis;
mod bad_data;
mod chance;
mod checkpoints;
mod commands;
mod disk;
mod evaluate;
mod fetch;
mod figure;
mod from;
mod laboratory;
mod page;
mod report;
mod resume;
mod stats;
mod train;
