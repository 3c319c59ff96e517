//! The limits of a program are read from a file, and read again on a signal.

#[cfg(unix)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use operate::limits::{API, MAILS, UPLOADS, load};

    let file = tempfile::NamedTempFile::new()?;
    let write = |text: &str| std::fs::write(file.path(), text);
    write("uploads = 8\napi = '100/h burst 10'\nusers = '5/min'\nmails = '1000/d'\n")?;
    load(file.path())?;
    API.try_acquire_many(5)?;
    MAILS.try_acquire_many(900)?;

    // In a program, `load_on_hangup` is a task of its own.
    write("uploads = 4\napi = '100/h burst 10'\nusers = '5/min'\nmails = '1000/d burst 7'\n")?;
    let error = load(file.path()).unwrap_err().to_string();
    assert!(UPLOADS.available_permits() == 8 && MAILS.snapshot().available == 100);
    let lines: Vec<_> = error.lines().map(str::trim).collect();
    println!("{}: {}", lines[0], lines[lines.len() - 1]);

    write("uploads = 4\napi = '100/h burst 20'\nusers = '5/min'\nmails = '950/d'\n")?;
    load(file.path())?;
    let left = (API.snapshot().available, MAILS.snapshot().available);
    println!("{} uploads; {left:?} left", UPLOADS.available_permits());
    Ok(())
}

#[cfg(not(unix))]
fn main() {}
