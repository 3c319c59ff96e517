#![expect(dead_code, reason = "`main` is for readers")]

include!("../../src/guide/programs/limit_rayon.rs");

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

#[test]
fn convert_all_on_eight_threads_writes_two_at_once() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(8);
    let files: Vec<_> = (0..200)
        .map(|file| PathBuf::from(file.to_string()))
        .collect();
    let (running, most, written) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::default());
    let write = |image: &[u8]| {
        most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
        Vec::push(&mut written.lock().unwrap(), image.to_vec());
        running.fetch_sub(1, SeqCst);
    };
    let slots = Semaphore::new(2);
    let converted = pool
        .build()
        .unwrap()
        .install(|| convert_all(&files, &slots, write));
    assert_eq!(converted, Ok(()));
    assert!(most.into_inner() <= 2);
    assert_eq!(written.into_inner().unwrap().len(), 200);
    assert_eq!(slots.available_permits(), 2);
}

/// What the page proposes for work of rayon under a permit: rayon's threads never wait.
#[test]
fn spawn_with_an_owned_permit_blocks_no_thread_of_the_pool() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1);
    let (pool, slots) = (
        pool.build().unwrap(),
        std::sync::Arc::new(Semaphore::new(1)),
    );
    let (sender, results) = std::sync::mpsc::channel();
    for number in 0..100 {
        let permit = std::sync::Arc::clone(&slots)
            .acquire_owned()
            .wait()
            .unwrap();
        let sender = sender.clone();
        pool.spawn(move || {
            let _permit = permit;
            let (a, b) = rayon::join(|| number, || 1);
            sender.send(a + b).unwrap();
        });
    }
    drop(sender);
    assert_eq!(results.iter().sum::<u32>(), 5050);
}
