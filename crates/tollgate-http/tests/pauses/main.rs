//! Pauses of origins: none is passed, whoever asks and however long it lasts; and whoever waits goes on in order.

mod crowds;
mod lasting;
mod opening;
mod random;
mod redirects;
mod refusals;
mod setup;
