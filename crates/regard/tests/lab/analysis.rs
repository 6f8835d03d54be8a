//! What heads do and whether they matter, at the command line.

mod ablate;
mod embeddings;
mod families;
mod heads;
mod influence;
mod made;
mod score;
