//! What each head does and whether it matters: measured on models whose heads are known.

mod ablation;
mod dependencies;
mod distance;
mod heads;
mod influence;
mod measures;
mod norms;
mod parts;
mod planted;
mod pooling;
mod projection;
mod statistics;
