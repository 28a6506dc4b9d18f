//! What the system says of another process.

use std::collections::BTreeMap;
use std::fs;

/// A process by its id.
pub(crate) struct Process(pub(crate) u32);

impl Process {
    fn read(&self, name: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{name}", self.0)).expect("the process is there")
    }

    /// A line of its status that is a size, in KiB.
    pub(crate) fn kilobytes(&self, name: &str) -> u64 {
        let status = self.read("status");
        let mut lines = status.lines().filter_map(|line| line.split_once(':'));
        let value = lines.find_map(|(known, value)| (known == name).then_some(value));
        let number = value.and_then(|value| value.split_whitespace().next()?.parse().ok());
        number.expect("Linux tells the size")
    }

    /// Its threads: the name of each, and how often it has waited for something since it began.
    pub(crate) fn threads(&self) -> BTreeMap<u32, (String, u64)> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.0)).expect("the process is there");
        let seen = threads.filter_map(|thread| {
            let thread = thread.ok()?;
            let id = thread.file_name().to_str()?.parse().ok()?;
            // One that is just ending has nothing to read any more.
            let status = fs::read_to_string(thread.path().join("status")).ok()?;
            let field = |name| {
                let mut lines = status.lines().filter_map(|line| line.split_once(":\t"));
                lines.find_map(|(known, value)| (known == name).then_some(value))
            };
            let waits = field("voluntary_ctxt_switches")?.parse().ok()?;
            Some((id, (field("Name")?.to_owned(), waits)))
        });
        seen.collect()
    }

    /// The processor time of all its threads, in ticks of mostly 10 ms.
    pub(crate) fn ticks(&self) -> u64 {
        let stat = self.read("stat");
        // The name before may have spaces in it.
        let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
        let ticks = fields.split(' ').skip(11).take(2).map(str::parse::<u64>);
        ticks.sum::<Result<u64, _>>().expect("Linux tells the time")
    }
}
