//! How keys are hashed, unless another way is chosen.

use std::fmt;
use std::hash::{BuildHasher, Hasher};

use foldhash::fast::{FoldHasher, RandomState};

/// A fast hash function with a seed of its own for each map, so that nobody outside can choose keys
/// that collide. The default of [`Keyed`](crate::Keyed).
#[derive(Clone, Default)]
pub struct KeyHashing(RandomState);

/// Hashes one key; made by [`KeyHashing`].
pub struct KeyHasher(FoldHasher<'static>);

impl BuildHasher for KeyHashing {
    type Hasher = KeyHasher;

    #[inline]
    fn build_hasher(&self) -> KeyHasher {
        KeyHasher(self.0.build_hasher())
    }
}

macro_rules! forward {
    ($($write:ident: $number:ty;)*) => {$(
        #[inline]
        fn $write(&mut self, number: $number) {
            self.0.$write(number);
        }
    )*};
}

impl Hasher for KeyHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0.finish()
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    forward! {
        write_u8: u8;
        write_u16: u16;
        write_u32: u32;
        write_u64: u64;
        write_u128: u128;
        write_usize: usize;
    }
}

impl fmt::Debug for KeyHashing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHashing")
    }
}

impl fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHasher")
    }
}
