//! Rate limiters in real threads, on the clock of the system, audited afterwards.
//!
//! Every charge says at which tick it was made, and by these ticks the promise is exact, whatever the
//! scheduler does and however fast the machine is. So nothing here depends on speed: the auditor looks
//! at every interval, and each test ends when all of its work was done, or never.

mod changed;
mod given_back;
mod tries;
