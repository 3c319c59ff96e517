//! [`Call`]: the keys and the arguments of the call of a script; and what is answered.

use redis::{Arg, Cmd, ErrorKind, RedisError, RedisResult};

use crate::script::{MOST, Script};

/// The numbers of a reply.
pub(super) type Reply = Vec<i64>;

/// Messages, each with its channel.
pub(super) type Messages = Vec<(String, String)>;

pub(super) struct Call<'a> {
    digest: &'a str,
    keys: Vec<&'a str>,
    arguments: Vec<&'a str>,
}

/// Returns the error of a script that rejects a call, with the text that a script gives it.
pub(super) fn failed(text: &str) -> RedisError {
    let detail = format!("TOLLGATE {text}");
    RedisError::from((ErrorKind::Client, "a script failed", detail))
}

impl<'a> Call<'a> {
    /// Returns `None` for a command that is no script.
    pub(super) fn read(command: &'a Cmd) -> RedisResult<Option<Self>> {
        let words = command.args_iter().map(|word| match word {
            Arg::Simple(word) => std::str::from_utf8(word).map_err(|_| failed("a word is no text")),
            _ => Err(failed("a word is missing")),
        });
        let words = words.collect::<RedisResult<Vec<&str>>>()?;
        let ["EVALSHA", digest, count, rest @ ..] = words.as_slice() else {
            return Ok(None);
        };
        let keys = count.parse().ok().and_then(|it| rest.split_at_checked(it));
        let (keys, arguments) = keys.ok_or_else(|| failed("a key is missing"))?;
        Ok(Some(Self {
            digest,
            keys: keys.to_vec(),
            arguments: arguments.to_vec(),
        }))
    }

    /// Returns the calls of several semaphores, of which each has so many keys.
    pub(super) fn parts(&self, keys: usize) -> RedisResult<Vec<Self>> {
        let mut rest = self.arguments.as_slice();
        let mut parts = Vec::new();
        for keys in self.keys.chunks(keys) {
            let (count, after) = rest.split_first().unwrap_or((&"", &[]));
            let split = count.parse().ok().and_then(|it| after.split_at_checked(it));
            let (arguments, after) = split.ok_or_else(|| failed("an argument is missing"))?;
            parts.push(Self {
                digest: self.digest,
                keys: keys.to_vec(),
                arguments: arguments.to_vec(),
            });
            rest = after;
        }
        Ok(parts)
    }

    pub(super) fn is_of(&self, script: &Script) -> bool {
        script.digest() == self.digest
    }

    pub(super) fn keys(&self) -> &[&'a str] {
        &self.keys
    }

    pub(super) fn key(&self, index: usize) -> RedisResult<&'a str> {
        let key = self.keys.get(index).copied();
        key.ok_or_else(|| failed("a key is missing"))
    }

    /// Returns an argument. The first one has the index 0.
    pub(super) fn text(&self, index: usize) -> RedisResult<&'a str> {
        let argument = self.arguments.get(index).copied();
        argument.ok_or_else(|| failed("an argument is missing"))
    }

    /// Returns an argument that a script calculates with.
    pub(super) fn number(&self, index: usize) -> RedisResult<u64> {
        let number = self.any_number(index)?;
        if number > MOST {
            return Err(failed("an argument is too large"));
        }
        Ok(number)
    }

    /// Returns an argument that a script only compares.
    pub(super) fn any_number(&self, index: usize) -> RedisResult<u64> {
        let number = self.text(index)?.parse();
        number.map_err(|_| failed("an argument is no number"))
    }

    /// Returns the arguments from an index on.
    pub(super) fn texts(&self, first: usize) -> &[&'a str] {
        self.arguments.get(first..).unwrap_or_default()
    }

    pub(super) fn numbers(&self, first: usize) -> RedisResult<Vec<u64>> {
        (first..self.arguments.len())
            .map(|index| self.number(index))
            .collect()
    }
}
