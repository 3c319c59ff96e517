//! What only the inside can tell: how many entries a call looks at, and how full an index gets.

mod crowded;
mod touches;
