//! Who kills the server, and when.

use std::io::Read;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::process::Signal;

use crate::common::server::Server;
use crate::common::{Place, until};
use crate::load::Load;

/// Of a hundred kills so many come in a start, which is a recovery.
const IN_START: u32 = 20;
/// Of a hundred kills so many come when the server is about to end.
const IN_END: u32 = 5;
/// Amid the work a kill comes up to this long behind the first step that ends.
const AMID_MAX: Duration = Duration::from_millis(60);
/// A request takes about so long, so that a kill finds it anywhere on its way.
const REQUEST_MAX: Duration = Duration::from_millis(3);
/// An end takes about this long: steps take less.
const END_MAX: Duration = Duration::from_millis(120);

pub(crate) struct Killer<'p> {
    place: &'p Place,
    load: &'p Load<'p>,
    rng: Rng,
    /// How long a start takes, at the moment.
    start: Duration,
    kills: Kills,
}

#[derive(Default)]
struct Kills {
    amid: u32,
    start: u32,
    /// Those in a start that came before the server was ready.
    early: u32,
    end: u32,
}

impl<'p> Killer<'p> {
    pub(crate) fn new(place: &'p Place, load: &'p Load<'p>, rng: Rng) -> Self {
        Self { place, load, rng, start: Duration::from_millis(100), kills: Kills::default() }
    }

    pub(crate) fn kill_one(&mut self) {
        match self.rng.u32(..100) {
            chance if chance < IN_START => self.in_start(),
            chance if chance < IN_START + IN_END => self.in_end(),
            _ => self.amid(),
        }
    }

    /// While it opens the store, recovers it, or ends what was left behind.
    fn in_start(&mut self) {
        let serve = ["serve", "--listen", "127.0.0.1:0", "--allow-shell"];
        let mut command = self.place.command(&serve);
        let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        self.pause(self.start);
        server.kill().unwrap();
        server.wait().unwrap();
        let mut said = String::new();
        server.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        self.kills.start += 1;
        self.kills.early += u32::from(said.is_empty());
    }

    /// Some way behind the first step that ends, so that every server gets on.
    fn amid(&mut self) {
        let server = self.begin();
        self.pause(AMID_MAX);
        self.load.hurry();
        self.pause(REQUEST_MAX);
        // Its drop is the kill.
        drop(server);
        self.load.reach(None);
        self.kills.amid += 1;
    }

    /// While it lets attempts end, closes the store, or is gone already.
    fn in_end(&mut self) {
        let server = self.begin();
        server.signal(Signal::TERM);
        self.pause(END_MAX);
        drop(server);
        self.load.reach(None);
        self.kills.end += 1;
    }

    fn begin(&mut self) -> Server {
        let begun = Instant::now();
        let server = Server::start(self.place, &["--allow-shell"]);
        self.start = begun.elapsed();
        let before = self.load.progress();
        self.load.reach(Some(server.address));
        until("a step and an answer", || self.load.progress().is_beyond(before));
        server
    }

    /// The moment is what is tried here, so that it is left to chance.
    fn pause(&mut self, most: Duration) {
        thread::sleep(most.mul_f64(self.rng.f64()));
    }

    /// What was done, for people.
    pub(crate) fn tell(&self) -> String {
        let Kills { amid, start, early, end } = self.kills;
        format!(
            "{} kills: {amid} amid the work, {start} in a start ({early} before it was ready), \
             {end} behind a SIGTERM",
            amid + start + end
        )
    }
}
