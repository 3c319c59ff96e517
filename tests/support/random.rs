//! Random numbers that are the same in every run, and one generator per thread.

use std::thread;

/// The splitmix64 generator of Steele, Lea and Flood (2014).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number in `0..bound`.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        u32::try_from(self.next() % u64::from(bound)).expect("below a u32")
    }
}

/// Runs one function on several threads at once, and returns the results.
pub(crate) fn on_threads<T: Send>(threads: u64, run: impl Fn(&mut Random) -> T + Sync) -> Vec<T> {
    let run = &run;
    thread::scope(|scope| {
        let all: Vec<_> = (0..threads)
            .map(|seed| scope.spawn(move || run(&mut Random::new(seed))))
            .collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    })
}
