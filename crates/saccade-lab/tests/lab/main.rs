//! Tests of the instruments, a module a topic.

mod analysis;
mod checkpoints;
mod disk;
mod experiments;
mod fetch;
mod figure;
mod train;
