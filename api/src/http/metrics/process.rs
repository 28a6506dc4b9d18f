//! What the process takes, by the names that all programs have for it. Elsewhere than on Linux
//! nothing is said.

use std::fs;

use super::text::{Kind, Page};

pub(super) fn write(page: &mut Page) {
    if let Some(bytes) = resident_bytes() {
        let help = "Memory that is resident, in bytes";
        page.family("process_resident_memory_bytes", Kind::Gauge, help).sample(&[], bytes);
    }
    if let Ok(files) = fs::read_dir("/proc/self/fd") {
        // Reading the list is one itself.
        let open = files.count().saturating_sub(1);
        page.family("process_open_fds", Kind::Gauge, "Files that are open").sample(&[], open);
    }
    if let Some(most) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
        page.family("process_max_fds", Kind::Gauge, "Files that may be open").sample(&[], most);
    }
    if let Some(seconds) = cpu_seconds() {
        let help = "Processor time, in seconds";
        page.family("process_cpu_seconds_total", Kind::Counter, help).sample(&[], seconds);
    }
}

fn resident_bytes() -> Option<u64> {
    let sizes = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = sizes.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The program's name stands in brackets, and may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let user: u32 = fields.nth(11)?.parse().ok()?;
    let system: u32 = fields.next()?.parse().ok()?;
    let ticks = u32::try_from(rustix::param::clock_ticks_per_second()).ok()?;
    Some((f64::from(user) + f64::from(system)) / f64::from(ticks))
}
