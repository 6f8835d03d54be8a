//! Head measures, ablation and attribution, tested on models with known heads.

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
mod score_parts;
mod statistics;
