//! The text format of Prometheus.

use std::fmt::{Display, Write};

/// What a number is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// How many lie in each of several ranges.
    Histogram,
    /// How many there were, and their sum.
    Summary,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Summary => "summary",
        }
    }
}

/// A page of numbers.
#[derive(Debug, Default)]
pub(super) struct Page(String);

/// Numbers of one name.
#[derive(Debug)]
pub(super) struct Family<'a> {
    page: &'a mut Page,
    name: &'a str,
}

/// Names and values of labels.
pub(super) type Labels<'a> = [(&'a str, &'a str)];

impl Page {
    /// Begins numbers of one name; what is written until the next belongs to it.
    pub(super) fn family<'a>(&'a mut self, name: &'a str, kind: Kind, help: &str) -> Family<'a> {
        let kind = kind.name();
        // Writing to a string cannot fail.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        Family { page: self, name }
    }

    /// The whole page.
    pub(super) fn finish(self) -> String {
        self.0
    }
}

impl Family<'_> {
    /// Writes one number.
    pub(super) fn sample(&mut self, labels: &Labels<'_>, value: impl Display) -> &mut Self {
        self.part("", labels, value)
    }

    /// Writes one number whose name has an ending: a sum, a count, a bucket.
    pub(super) fn part(
        &mut self,
        ending: &str,
        labels: &Labels<'_>,
        value: impl Display,
    ) -> &mut Self {
        let text = &mut self.page.0;
        let _ = write!(text, "{}{ending}", self.name);
        for (index, (name, value)) in labels.iter().enumerate() {
            let before = if index == 0 { '{' } else { ',' };
            let _ = write!(text, "{before}{name}=\"{}\"", escaped(value));
        }
        let after = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(text, "{after} {value}");
        self
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_prometheus_reads_them() {
        let mut page = Page::default();
        page.family("a_total", Kind::Counter, "How many").sample(&[], 3_u64);
        page.family("b", Kind::Gauge, "Where").sample(&[("x", "1\"\\\n2"), ("y", "")], 0.5);
        page.family("c", Kind::Summary, "How long").part("_sum", &[], 1.25).part("_count", &[], 2);
        let wanted = "# HELP a_total How many\n# TYPE a_total counter\na_total 3\n\
                      # HELP b Where\n# TYPE b gauge\nb{x=\"1\\\"\\\\\\n2\",y=\"\"} 0.5\n\
                      # HELP c How long\n# TYPE c summary\nc_sum 1.25\nc_count 2\n";
        assert_eq!(page.finish(), wanted);
    }
}
