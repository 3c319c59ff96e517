//! How keys are hashed, unless another hasher is chosen.

use std::fmt;
use std::hash::{BuildHasher, Hasher};

use foldhash::fast::{FoldHasher, RandomState};

/// The default hasher of a [`Keyed`](crate::Keyed): fast, with a random seed for each map.
///
/// The seed keeps anyone who cannot observe the map from choosing keys that collide. The hash
/// function is [foldhash](https://docs.rs/foldhash), which is not cryptographic: an attacker who can
/// choose keys *and* measure response times, or read hashes, may learn enough of the seed to make
/// keys collide. Calls for colliding keys, and for keys of the same shard, then take longer in
/// proportion to the collisions; the limits themselves still hold. Where that matters, use
/// [`std::hash::RandomState`] (SipHash) with [`hasher`](crate::Keyed::hasher).
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
