#![expect(dead_code, reason = "`main` is for readers")]

include!("../../src/guide/programs/cap_parallel_uploads.rs");

#[tokio::test(start_paused = true)]
async fn upload_all_with_eight_slots_uploads_eight_at_once() {
    let slots = Arc::new(Semaphore::new(8));
    let files = (0..40).map(|file| PathBuf::from(file.to_string()));
    let begun = tokio::time::Instant::now();
    upload_all(files, &slots).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_millis(5 * 100));
    assert_eq!(slots.available_permits(), 8);
}
