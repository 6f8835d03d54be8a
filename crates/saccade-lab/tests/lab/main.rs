//! Tests of the instruments, a module a topic.

mod checkpoints;
mod experiments;
mod figure;
mod train;
