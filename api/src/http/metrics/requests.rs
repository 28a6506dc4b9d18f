//! How many requests there were, and how long they took.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use axum::http::{Method, StatusCode};

use super::text::{Kind, Page};

/// Upper bounds of durations, in microseconds, and as they are written.
const BUCKETS: [(u64, &str); 14] = [
    (500, "0.0005"),
    (1_000, "0.001"),
    (2_500, "0.0025"),
    (5_000, "0.005"),
    (10_000, "0.01"),
    (25_000, "0.025"),
    (50_000, "0.05"),
    (100_000, "0.1"),
    (250_000, "0.25"),
    (500_000, "0.5"),
    (1_000_000, "1"),
    (2_500_000, "2.5"),
    (5_000_000, "5"),
    (10_000_000, "10"),
];

/// What was counted of requests.
#[derive(Debug, Default)]
pub(in crate::http) struct Requests {
    durations: RwLock<HashMap<Key, Arc<Durations>>>,
    in_flight: AtomicUsize,
    /// Who knows how many connections are open, if anyone does.
    connections: OnceLock<Arc<AtomicUsize>>,
}

/// Requests that count together. All of it has few values, whatever clients send.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    /// As the router has it; empty where nobody serves the path.
    route: Arc<str>,
    method: &'static str,
    status: u16,
}

#[derive(Debug, Default)]
struct Durations {
    /// How many lie in each bucket, those in smaller ones not counted again.
    buckets: [AtomicU64; BUCKETS.len()],
    count: AtomicU64,
    micros: AtomicU64,
}

/// A request that is being worked on, until this is dropped: its client may go away, too.
#[derive(Debug)]
pub(in crate::http) struct InFlight<'a>(&'a AtomicUsize);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Requests {
    /// Counts a request among those that are being worked on.
    pub(in crate::http) fn begin(&self) -> InFlight<'_> {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(&self.in_flight)
    }

    /// Counts a request whose answer has begun.
    pub(in crate::http) fn count(
        &self,
        route: &Arc<str>,
        method: &Method,
        status: StatusCode,
        took: Duration,
    ) {
        let key = Key { route: Arc::clone(route), method: known(method), status: status.as_u16() };
        let durations = self.durations.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(durations) = durations.get(&key) {
            return durations.count(took);
        }
        drop(durations);
        let mut durations = self.durations.write().unwrap_or_else(PoisonError::into_inner);
        durations.entry(key).or_default().count(took);
    }

    /// Has the number of open connections shown, too.
    pub(in crate::http) fn show_connections(&self, open: Arc<AtomicUsize>) {
        // There is one listener, and it does this once.
        let _ = self.connections.set(open);
    }

    pub(super) fn write(&self, page: &mut Page) {
        if let Some(open) = self.connections.get() {
            let help = "Connections that are open";
            let open = open.load(Ordering::Relaxed);
            page.family("annals_http_connections", Kind::Gauge, help).sample(&[], open);
        }
        let help = "Requests whose answer has not begun, this one counted";
        let in_flight = self.in_flight.load(Ordering::Relaxed);
        page.family("annals_http_requests_in_flight", Kind::Gauge, help).sample(&[], in_flight);
        let help = "How long it took until the answer began, in seconds";
        let name = "annals_http_server_request_duration_seconds";
        let mut family = page.family(name, Kind::Histogram, help);
        let durations = self.durations.read().unwrap_or_else(PoisonError::into_inner);
        let mut durations: Vec<_> = durations.iter().collect();
        durations.sort_unstable_by_key(|(key, _)| *key);
        for (key, durations) in durations {
            let status = key.status.to_string();
            let labels = [
                ("http_request_method", key.method),
                ("http_route", &key.route),
                ("http_response_status_code", status.as_str()),
            ];
            let mut sum = 0;
            for (bucket, (_, bound)) in durations.buckets.iter().zip(BUCKETS) {
                sum += bucket.load(Ordering::Relaxed);
                let [method, route, status] = labels;
                family.part("_bucket", &[method, route, status, ("le", bound)], sum);
            }
            // What was counted meanwhile must not make a bucket larger than all of them.
            let count = durations.count.load(Ordering::Relaxed).max(sum);
            let [method, route, status] = labels;
            family.part("_bucket", &[method, route, status, ("le", "+Inf")], count);
            let micros = durations.micros.load(Ordering::Relaxed);
            let seconds = Duration::from_micros(micros).as_secs_f64();
            family.part("_sum", &labels, seconds).part("_count", &labels, count);
        }
    }
}

impl Durations {
    fn count(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        if let Some(bucket) = BUCKETS.iter().position(|(bound, _)| micros <= *bound) {
            self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }
}

/// A method may be any word, so those that nobody serves are one.
fn known(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PATCH" => "PATCH",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "_OTHER",
    }
}
