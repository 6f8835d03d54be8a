//! Tests of the instruments, a module a topic.

mod analysis;
mod bad_data;
mod chance;
mod checkpoints;
mod commands;
mod cores;
mod disk;
mod evaluate;
mod fetch;
mod figure;
mod from;
mod hostile;
mod laboratory;
mod mutation;
mod page;
mod readers;
mod report;
mod resume;
mod shares;
mod stats;
mod train;
mod watched;
