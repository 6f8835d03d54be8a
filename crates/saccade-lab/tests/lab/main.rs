//! Tests of the instruments, a module a topic.

mod figure;
mod train;
