//! Tests of the instruments, a module a topic.

mod analysis;
mod bad_data;
mod chance;
mod checkpoints;
mod disk;
mod fetch;
mod figure;
mod laboratory;
mod page;
mod report;
mod train;
