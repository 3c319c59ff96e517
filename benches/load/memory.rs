//! The memory of this process.

use std::{fs, io};

/// Returns the resident set, in bytes.
pub(super) fn resident() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    of_field(&status, "VmRSS:").ok_or_else(|| io::Error::other("/proc/self/status has no VmRSS"))
}

fn of_field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_field_reads_kilobytes() {
        let status = "Name:\tload\nVmHWM:\t    9000 kB\nVmRSS:\t    8672 kB\n";
        assert_eq!(of_field(status, "VmRSS:"), Some(8672 * 1024));
        assert_eq!(of_field(status, "VmSwap:"), None);
    }
}
