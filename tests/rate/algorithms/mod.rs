//! What can be said of each algorithm in a few lines: its promise where it is tight, how it goes on
//! when the quota changes all the time, and its text. Against a model all are tested in `rate_model`.

mod changed;
mod promises;
mod text;
