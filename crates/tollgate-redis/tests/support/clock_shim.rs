//! A separate clock for a process: a few lines of C that are loaded before its libraries, and add
//! an offset from a file to the time of day. The test can change the file while the process runs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, Weak};

use tempfile::TempDir;

const SHIM: &str = r#"
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Microseconds, in the file's first page. Nothing here allocates: this is called early. */
static volatile const int64_t *place;

static int64_t offset(void) {
    if (!place) {
        const char *path = getenv("TOLLGATE_TEST_CLOCK");
        int file = path ? open(path, O_RDONLY) : -1;
        void *page = file < 0 ? MAP_FAILED : mmap(0, 8, PROT_READ, MAP_SHARED, file, 0);
        if (file >= 0) close(file);
        if (page == MAP_FAILED) return 0;
        place = page;
    }
    return *place;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = (int) syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t micros = offset();
        now->tv_sec += micros / 1000000;
        now->tv_nsec += micros % 1000000 * 1000;
        if (now->tv_nsec < 0) { now->tv_nsec += 1000000000; now->tv_sec -= 1; }
        if (now->tv_nsec >= 1000000000) { now->tv_nsec -= 1000000000; now->tv_sec += 1; }
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    (void) zone;
    int result = clock_gettime(CLOCK_REALTIME, &precise);
    if (now) { now->tv_sec = precise.tv_sec; now->tv_usec = precise.tv_nsec / 1000; }
    return result;
}

time_t time(time_t *seconds) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (seconds) *seconds = precise.tv_sec;
    return precise.tv_sec;
}
"#;

/// Compiles a library, in some tenths of a second.
pub(crate) fn compile(text: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let (source, library) = (folder.path().join("library.c"), library_in(&folder));
    std::fs::write(&source, text).unwrap();
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source])
        .output()
        .unwrap_or_else(|error| panic!("a C compiler is needed: {error}"));
    assert!(
        compiled.status.success(),
        "{}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    folder
}

/// Returns the path of the compiled library.
pub(crate) fn library_in(folder: &TempDir) -> PathBuf {
    folder.path().join("library.so")
}

/// Returns the folder of the library, which all present clocks share, and which ends with the last of them.
fn shared() -> Arc<TempDir> {
    static FOLDER: Mutex<Weak<TempDir>> = Mutex::new(Weak::new());
    let mut shared = FOLDER.lock().unwrap();
    shared.upgrade().unwrap_or_else(|| {
        let folder = Arc::new(compile(SHIM));
        *shared = Arc::downgrade(&folder);
        folder
    })
}

pub(crate) struct Clock {
    library: Arc<TempDir>,
    file: PathBuf,
    _folder: TempDir,
}

impl Clock {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("offset");
        let clock = Self {
            library: shared(),
            file,
            _folder: folder,
        };
        clock.set(0);
        clock
    }

    /// Sets the clock ahead by this number of seconds.
    pub(crate) fn set(&self, seconds: i64) {
        use std::os::unix::fs::FileExt;
        let file = std::fs::OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(false)
            .open(&self.file)
            .unwrap();
        let micros = seconds * 1_000_000;
        file.write_all_at(&micros.to_ne_bytes(), 0).unwrap();
    }

    /// Returns the environment of a process with this clock.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        vec![
            ("LD_PRELOAD".to_owned(), text(&library_in(&self.library))),
            ("TOLLGATE_TEST_CLOCK".to_owned(), text(&self.file)),
        ]
    }
}
