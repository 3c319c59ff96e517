//! The arguments of the programs that measure a fleet: `name=value`.

use std::collections::HashMap;
use std::error::Error;
use std::str::FromStr;

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

    /// Takes a whole number.
    ///
    /// # Panics
    ///
    /// Panics if something else was given.
    #[track_caller]
    pub fn number(&mut self, name: &str, default: u64) -> u64 {
        self.parsed(name, default)
    }

    /// Takes a number, perhaps with a fraction.
    ///
    /// # Panics
    ///
    /// Panics if something else was given.
    #[track_caller]
    pub fn fraction(&mut self, name: &str, default: f64) -> f64 {
        self.parsed(name, default)
    }

    #[track_caller]
    fn parsed<T: FromStr>(&mut self, name: &str, default: T) -> T {
        let Some(value) = self.text(name) else {
            return default;
        };
        let Ok(number) = value.parse() else {
            panic!("{name}={value} is not such a number");
        };
        number
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

#[cfg(test)]
mod tests {
    use super::*;

    fn given(name: &str, value: &str) -> Arguments {
        Arguments(HashMap::from([(name.to_owned(), value.to_owned())]))
    }

    #[test]
    fn number_is_exact() {
        let most = u64::MAX.to_string();
        assert_eq!(given("rate", &most).number("rate", 1), u64::MAX);
        assert_eq!(given("hold", "0.5").fraction("hold", 1.0), 0.5);
        assert_eq!(given("rate", "3").number("burst", 1), 1);
    }

    #[test]
    #[should_panic(expected = "processes=-5 is not such a number")]
    fn number_below_0_panics() {
        given("processes", "-5").number("processes", 8);
    }
}
