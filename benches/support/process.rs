//! What the system says of another process.

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

    /// How many threads it has.
    pub(crate) fn threads(&self) -> usize {
        fs::read_dir(format!("/proc/{}/task", self.0)).expect("the process is there").count()
    }

    /// The processor time of all its threads, in ticks of mostly 10 ms.
    pub(crate) fn ticks(&self) -> u64 {
        let stat = self.read("stat");
        // The name before may have spaces in it.
        let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
        let ticks = fields.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>());
        ticks.sum::<Result<u64, _>>().expect("Linux tells the time")
    }
}
