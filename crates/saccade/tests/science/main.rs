//! The science against what is known: golden values, properties, and truths by construction.

mod builtin;
mod metrics;
