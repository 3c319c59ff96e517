//! The arguments of the programs that measure a fleet: `name=value`.

use std::collections::HashMap;
use std::error::Error;

/// The arguments that were not asked for yet.
pub struct Arguments(HashMap<String, String>);

impl Arguments {
    /// Reads the arguments of this process.
    ///
    /// # Errors
    ///
    /// An argument is not of the form `name=value`.
    pub fn of_process() -> Result<Self, Box<dyn Error>> {
        let arguments = std::env::args().skip(1);
        let pairs = arguments.map(|argument| {
            let (name, value) = argument.split_once('=').ok_or("name=value")?;
            Ok((name.to_owned(), value.to_owned()))
        });
        pairs.collect::<Result<_, Box<dyn Error>>>().map(Self)
    }

    /// Returns whether an argument of this name was given.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Takes a text, if it was given.
    pub fn text(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    /// Takes a number.
    ///
    /// # Panics
    ///
    /// Panics if something else was given.
    #[track_caller]
    pub fn number(&mut self, name: &str, default: u64) -> u64 {
        self.fraction(name, default as f64) as u64
    }

    /// Takes a number, perhaps with a fraction.
    ///
    /// # Panics
    ///
    /// Panics if something else was given.
    #[track_caller]
    pub fn fraction(&mut self, name: &str, default: f64) -> f64 {
        self.text(name).map_or(default, |value| {
            value
                .parse()
                .unwrap_or_else(|_| panic!("{name}={value} is not a number"))
        })
    }

    /// Ends the reading.
    ///
    /// # Panics
    ///
    /// Panics if an argument was not asked for.
    #[track_caller]
    pub fn end(self) {
        assert!(self.0.is_empty(), "not known: {:?}", self.0);
    }
}
