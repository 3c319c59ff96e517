//! Models local handles, which charge a batch in advance, with concurrent refunds and waiters.

use super::*;

// Three tokens are available for two handles that buffer two, and a caller that needs all three waits for
// them. All buffered tokens come back to the waiter, and are neither lost nor duplicated.
// With three threads, at most two preemptions are allowed; otherwise it takes minutes.
model!(two_local_handles_and_a_joiner_share_the_rest, 2, || {
    let (limiter, _clock) = limiter(hourly(3));
    let mut first = limiter.local(2);
    let mut second = limiter.local(2);
    let other = spawn(move || {
        let let_in = second.try_acquire().is_ok();
        (let_in, second)
    });
    let joiner = join(&limiter, 3);
    let mine = first.try_acquire().is_ok();
    let (theirs, second) = other.join().unwrap();
    let joined = joiner.join().unwrap();
    let through = u64::from(mine) + u64::from(theirs);
    match joined {
        // The caller joined before both handles.
        Ok(_) => assert_eq!((through, limiter.snapshot().available), (0, 0)),
        Err(waiter) => {
            // While it waits, nothing passes it.
            let in_hand = first.buffered() + second.buffered();
            assert!(through > 0);
            assert!(through + in_hand <= 3);
            drop((first, second));
            assert_eq!(limiter.snapshot().waiting, 1);
            drop(waiter);
            assert_eq!(limiter.snapshot().available, 3 - through);
        }
    }
});

model!(local_handle_does_not_pass_somebody_who_joins, || {
    let (limiter, _clock) = limiter(hourly(3));
    limiter.try_acquire().unwrap();
    let joiner = join(&limiter, 3);
    let mut local = limiter.local(2);
    let before = local.try_acquire().is_ok();
    let joined = joiner.join().unwrap();
    // Two are left, so it waits, and no other caller gets any of them from now on. It gets the tokens that were
    // left when it joined, except the one that was let through.
    let waiter = joined.expect_err("there are not three");
    let in_hand = local.buffered();
    assert_eq!(local.try_acquire().is_ok(), in_hand > 0);
    assert_eq!(local.try_acquire().is_ok(), in_hand > 1);
    drop(local);
    let through = u64::from(before) + u64::from(in_hand > 0);
    assert!(through <= 2);
    drop(waiter);
    assert_eq!(limiter.snapshot().available, 2 - through);
});

// A call that finds the word held is decided under the lock, and also uses up buffered tokens.
// With three preemptions this model takes minutes.
model!(call_beside_a_refund_uses_up_what_is_buffered, 2, || {
    let (limiter, _clock, charge) = charged(hourly(8), 1);
    let mut local = limiter.local(2);
    local.try_acquire().unwrap();
    let refund = with(&limiter, |limiter| limiter.refund(charge));
    local.try_acquire_many(3).unwrap();
    join_all([refund]);
    assert_eq!(local.buffered(), 0);
    assert_eq!(limiter.snapshot().available, 4);
});

// A batch that is taken while another is given back knows the tokens given back before, even when
// the backlog has become the same number again. So the batch can be given back in full.
model!(batch_beside_a_return_can_be_given_back_in_full, || {
    let (limiter, _clock) = limiter(hourly(7));
    let mut first = limiter.local(4);
    first.try_acquire().unwrap();
    let mut second = limiter.local(3);
    let other = spawn(move || {
        second.try_acquire().unwrap();
        second
    });
    first.return_unused();
    let mine = limiter.try_acquire_many(3).unwrap();
    let mut second = other.join().unwrap();
    assert_eq!(limiter.snapshot().available + second.buffered(), 2);
    second.return_unused();
    assert_eq!(limiter.snapshot().available, 2);
    limiter.refund(mine);
    assert_eq!(limiter.snapshot().available, 5);
});

model!(dropped_local_handle_and_a_joiner_do_not_miss, || {
    let (limiter, _clock) = limiter(hourly(3));
    let mut local = limiter.local(3);
    local.try_acquire().unwrap();
    let joiner = join(&limiter, 2);
    drop(local);
    // No time has passed.
    charge_of(joiner.join().unwrap());
    let rest = limiter.snapshot();
    assert_eq!((rest.waiting, rest.available), (0, 0));
});
