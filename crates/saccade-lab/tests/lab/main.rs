//! Tests of the instruments, a module a topic.

mod checkpoints;
mod figure;
mod page;
mod train;
