//! Well-known clients of APIs, each with the stack that keeps the limits of its server. The tests of this package
//! send with them to a server on loopback that counts and refuses.

pub mod github;
pub mod openai;
