//! Compositions of real semaphores: the types of permits, and what is taken.

use std::sync::Arc;

use tollgate::{OwnedPermit, Permit, Semaphore, all};

use crate::support::assert_at_rest;

#[test]
fn permits_have_the_types_and_the_order_of_the_parts() {
    let (one, other) = (Semaphore::new(1), Arc::new(Semaphore::new(6)));
    let nested = all((&one, Arc::clone(&other).cost_owned(2)));
    let throttle = all((
        Arc::clone(&other),
        other.cost(3),
        None::<&Semaphore>,
        nested,
    ));
    #[allow(clippy::type_complexity, reason = "it is what is shown")]
    let permits: (
        OwnedPermit,
        Permit<&'_ Semaphore>,
        Option<Permit<&'_ Semaphore>>,
        (Permit<&'_ Semaphore>, OwnedPermit),
    ) = throttle.try_acquire().unwrap();
    let (single, three, nothing, (of_one, two)) = permits;
    assert_eq!((single.count(), three.count(), two.count()), (1, 3, 2));
    assert!(nothing.is_none());
    assert_eq!((one.available_permits(), other.available_permits()), (0, 0));
    // Each is a permit of its own.
    drop(three);
    assert_eq!((one.available_permits(), other.available_permits()), (0, 3));
    drop((single, of_one, two));
    assert_at_rest(&one, 1);
    drop(throttle);
    assert_at_rest(&other, 6);
}
