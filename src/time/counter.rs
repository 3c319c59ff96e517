//! A processor counter that is read as a clock, and compared with the clock of the operating
//! system.
//!
//! Reading the processor's counter takes a third of the time of reading the operating system's
//! clock. But the scale of the counter is measured when a process starts, and an interruption at
//! that moment makes it wrong by a tenth or more. A machine that is suspended or moved may have
//! another counter afterwards. Therefore:
//!
//! 1. Time is divided into *segments*. In each, a tick is `(raw - start) * scale`. One word names
//!    the segment: it is the start, and its lowest bits are the number of a [slot](Slots) that has
//!    the rest. A slot is used by one segment only, and written before the word is published; later
//!    its window moves forward and is closed. So a reader needs no lock, and never combines parts
//!    of two segments.
//! 2. A segment is used in its window only: from the last comparison until one second later. A
//!    reader beyond the window, or before it (the counter was set back), takes the lock and
//!    compares. A scale that is wrong by more than [`TOLERANCE`] is therefore used for one second
//!    at most, provided that some caller reads the clock at the end of that second.
//! 3. When the clocks disagree, the operating system's clock is read, under the lock, until two
//!    consecutive intervals of a second each have measured the same scale. Then a new segment
//!    begins. A process measures [`MEASUREMENTS`] times; a counter that needs more is never used
//!    again.
//! 4. Ticks never go back, with one exception: a counter that is set back into its window, so by
//!    less than a second, is not detected before the window ends. A segment that is abandoned ends
//!    where its window is closed, and the operating system's time is moved ahead by a *lead* if it
//!    is behind that end. All reads of the operating system's clock happen under the lock until the
//!    next segment begins, which it does at the time that the last of them returned, or later.
//! 5. A comparison needs a [sample](Sample) of both clocks at one moment. A sample reads the
//!    counter before and after the operating system's clock, so its precision is known; an
//!    interrupted sample is not used.
//!
//! The lock is a leaf. Two threads may still disagree by a microsecond or two, because a processor
//! may read its counter ahead of preceding instructions.

use super::atomics::{AtomicU64, Mutex, MutexGuard, Ordering, fence, lock};
use super::tick::Tick;

/// The source of the counter and of the operating system's time.
pub(crate) trait Source {
    /// Reads the counter. Only differences are meaningful.
    fn raw(&self) -> u64;

    /// Returns the nanoseconds since the source was created, by the operating system's clock. It
    /// never goes back.
    fn os_nanos(&self) -> u64;
}

/// A clock on a counter.
pub(crate) struct CheckedCounter<S> {
    source: S,
    /// The start of the segment, or [`ASK_OS`].
    segment: AtomicU64,
    slots: Slots,
    /// The lead over the operating system once the counter is never used again; [`UNDECIDED`]
    /// before.
    final_lead: AtomicU64,
    check: Mutex<Check>,
}

/// The data of a segment that a reader needs besides its start, by slot.
struct Slots {
    /// Nanoseconds per count, times 2^[`SHIFT`].
    scale: [AtomicU64; SLOTS],
    /// The counts since the start at the last comparison, where the window begins.
    from: [AtomicU64; SLOTS],
    /// The counts in the window: one second; 0 once it is closed.
    window: [AtomicU64; SLOTS],
}

/// The state that the lock guards.
#[derive(Default)]
struct Check {
    /// The beginning of the interval that is compared or measured next.
    last: Sample,
    /// The number of scales that have been measured, which is the number of the next slot.
    measurements: u64,
    /// While the operating system's clock is read: how far ticks are ahead of it.
    lead: u64,
    /// While the operating system's clock is read: the scale in the interval before this one.
    measured: Option<u64>,
}

/// Both clocks at one moment.
#[derive(Clone, Copy, Default)]
struct Sample {
    raw: u64,
    os: u64,
    /// The maximum number of counts after `raw` at which `os` was read.
    width: u64,
}

/// The number of slots. The last slot has no window and belongs to [`ASK_OS`].
const SLOTS: usize = 64;

/// The bits of a start that hold the number of its slot, so a start is up to 63 counts early.
const SLOT_BITS: u64 = SLOTS as u64 - 1;

/// The number of scales that are measured before the counter is given up. A suspension takes two.
const MEASUREMENTS: u64 = SLOTS as u64 - 2;

/// Replaces a start: every reader takes the lock.
const ASK_OS: u64 = u64::MAX;
const UNDECIDED: u64 = u64::MAX;

/// The number of fractional bits of a scale. The counter of an x86 processor is faster than one
/// count per nanosecond, and the upper half of a product is the cheapest. Elsewhere a count takes
/// up to 64 ns.
pub(super) const SHIFT: u32 = if cfg!(target_arch = "x86_64") { 64 } else { 58 };

const SECOND: u64 = 1_000_000_000;

/// The tolerated difference of the clocks in a second, or in a longer interval: one part in this
/// number, which is 50 millionths.
const TOLERANCE: u64 = 20_000;

/// The tolerated imprecision of a sample: one part in this number of that difference.
const SHARP: u64 = 8;

/// The number of attempts to take a sample.
const TRIES: u32 = 4;

/// Returns the scale for `nanos` nanoseconds in `counts` counts, if there is one.
pub(super) fn scale_of(nanos: u64, counts: u64) -> Option<u64> {
    let scale = (u128::from(nanos) << SHIFT).checked_div(counts.into())?;
    u64::try_from(scale).ok().filter(|scale| *scale > 0)
}

#[inline(always)]
fn scaled(counts: u64, scale: u64) -> u64 {
    ((u128::from(counts) * u128::from(scale)) >> SHIFT) as u64
}

/// Returns the least number of counts that takes `nanos` nanoseconds or more.
fn counts_of(nanos: u64, scale: u64) -> u64 {
    (u128::from(nanos) << SHIFT).div_ceil(u128::from(scale)) as u64
}

#[inline(always)]
fn slot_of(start: u64) -> usize {
    (start & SLOT_BITS) as usize
}

fn agree(one: u64, other: u64, of: u64) -> bool {
    one.abs_diff(other) <= of / TOLERANCE
}

impl<S: Source> CheckedCounter<S> {
    /// Creates a clock with a first estimate of the scale; `None` if the counter is not to be used.
    pub(super) fn new(source: S, scale: Option<u64>) -> Self {
        let zeros = || std::array::from_fn(|_| AtomicU64::new(0));
        let counter = Self {
            source,
            segment: AtomicU64::new(ASK_OS),
            slots: Slots {
                scale: zeros(),
                from: zeros(),
                window: zeros(),
            },
            final_lead: AtomicU64::new(if scale.is_some() { UNDECIDED } else { 0 }),
            check: Mutex::new(Check::default()),
        };
        if let Some(scale) = scale {
            let mut check = lock(&counter.check);
            check.last = counter.sample();
            counter.begin_segment(&check, scale);
        }
        counter
    }

    /// Returns the current tick.
    #[inline(always)]
    pub(crate) fn now(&self) -> Tick {
        self.now_in_window().unwrap_or_else(|| self.checked_now())
    }

    /// Returns the current tick, unless the clocks have to be compared first.
    #[inline(always)]
    pub(crate) fn now_in_window(&self) -> Option<Tick> {
        // Pairs with the release in `begin_segment`: the reader sees the slot as it was written.
        let start = self.segment.load(Ordering::Acquire);
        let (slots, slot) = (&self.slots, slot_of(start));
        let counts = self.source.raw().wrapping_sub(start);
        let compared = counts.wrapping_sub(slots.from[slot].load(Ordering::Relaxed));
        let is_in_window = compared < slots.window[slot].load(Ordering::Relaxed);
        let scale = &slots.scale[slot];
        is_in_window.then(|| Tick::from_nanos(scaled(counts, scale.load(Ordering::Relaxed))))
    }

    /// Returns the current tick after a comparison with the operating system's clock.
    #[cold]
    #[inline(never)]
    pub(super) fn checked_now(&self) -> Tick {
        // Pairs with the release in `measure`.
        let final_lead = self.final_lead.load(Ordering::Acquire);
        if final_lead != UNDECIDED {
            return Tick::from_nanos(self.source.os_nanos().saturating_add(final_lead));
        }
        let check = lock(&self.check);
        // Only written under the lock.
        let start = self.segment.load(Ordering::Relaxed);
        if start == ASK_OS {
            self.measure(check)
        } else {
            self.compare(check, start)
        }
    }

    /// Compares the segment with the operating system's clock, and abandons it if they disagree.
    fn compare(&self, mut check: MutexGuard<'_, Check>, start: u64) -> Tick {
        let (slots, slot) = (&self.slots, slot_of(start));
        let scale = slots.scale[slot].load(Ordering::Relaxed);
        let from = slots.from[slot].load(Ordering::Relaxed);
        let sample = self.sample();
        let compared = start.wrapping_add(from);
        // Processors may differ by some counts.
        let behind = scaled(compared.saturating_sub(sample.raw), scale);
        let set_back = behind > SECOND / TOLERANCE;
        let elapsed = sample.os.saturating_sub(check.last.os);
        let counted = sample.raw.saturating_sub(check.last.raw);
        let interval = elapsed.max(SECOND);
        let agrees = agree(scaled(counted, scale), elapsed, interval);
        if !set_back && (agrees || !sample.is_sharp(interval, scale)) {
            if elapsed >= SECOND && sample.is_sharp(SECOND, scale) {
                check.last = sample;
            }
            // A counter that is a little behind stays at the same tick until it has caught up.
            let counts = sample.raw.max(compared).wrapping_sub(start);
            slots.from[slot].store(counts, Ordering::Relaxed);
            return Tick::from_nanos(scaled(counts, scale));
        }
        // First the window is closed, then the end is read: a reader that has not seen the window
        // closed read the counter before that.
        let window = slots.window[slot].swap(0, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let limit = from.saturating_add(window);
        let end = if set_back {
            limit
        } else {
            limit.min(self.source.raw().wrapping_sub(start))
        };
        let os = self.source.os_nanos();
        check.lead = scaled(end, scale).saturating_sub(os);
        let whole = elapsed >= SECOND;
        check.measured = whole.then(|| scale_of(elapsed, counted)).flatten();
        check.last = sample;
        self.segment.store(ASK_OS, Ordering::Relaxed);
        Tick::from_nanos(os.saturating_add(check.lead))
    }

    /// Reads the operating system's clock, and measures the scale of the counter at the end of each
    /// second.
    fn measure(&self, mut check: MutexGuard<'_, Check>) -> Tick {
        let os = self.source.os_nanos();
        if os.saturating_sub(check.last.os) < SECOND {
            return Tick::from_nanos(os.saturating_add(check.lead));
        }
        let sample = self.sample();
        let now = Tick::from_nanos(sample.os.saturating_add(check.lead));
        let elapsed = sample.os.saturating_sub(check.last.os);
        let scale = scale_of(elapsed, sample.raw.saturating_sub(check.last.raw));
        if !scale.is_none_or(|scale| sample.is_sharp(elapsed, scale)) {
            return now;
        }
        check.last = sample;
        check.measurements += 1;
        match (scale, std::mem::replace(&mut check.measured, scale)) {
            _ if check.measurements > MEASUREMENTS => {
                self.final_lead.store(check.lead, Ordering::Release);
            }
            (Some(scale), Some(measured)) if agree(scale, measured, scale) => {
                self.begin_segment(&check, scale);
            }
            _ => {}
        }
        now
    }

    /// Begins a segment at the last sample, with the operating system's time of that sample plus
    /// the lead.
    fn begin_segment(&self, check: &Check, scale: u64) {
        let Sample { raw, os, .. } = check.last;
        let start = raw.wrapping_sub(counts_of(os.saturating_add(check.lead), scale));
        // The start is some counts earlier, so that its lowest bits are the number of the slot.
        let start = start.wrapping_sub(start.wrapping_sub(check.measurements) & SLOT_BITS);
        let (slots, slot) = (&self.slots, slot_of(start));
        slots.scale[slot].store(scale, Ordering::Relaxed);
        slots.from[slot].store(raw.wrapping_sub(start), Ordering::Relaxed);
        slots.window[slot].store(counts_of(SECOND, scale), Ordering::Relaxed);
        // Pairs with the acquire in `now`.
        self.segment.store(start, Ordering::Release);
    }

    /// Reads both clocks several times, and returns the sample with the shortest time between the
    /// reads.
    fn sample(&self) -> Sample {
        let once = || {
            let raw = self.source.raw();
            let os = self.source.os_nanos();
            let width = self.source.raw().wrapping_sub(raw);
            Sample { raw, os, width }
        };
        let samples = (0..TRIES).map(|_| once());
        let narrowest = samples.min_by_key(|sample| sample.width);
        narrowest.expect("there are tries")
    }
}

impl Sample {
    /// Returns whether the sample is precise enough to judge an interval.
    fn is_sharp(&self, interval: u64, scale: u64) -> bool {
        scaled(self.width, scale) <= interval / TOLERANCE / SHARP
    }
}
