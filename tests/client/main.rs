//! The command line as a client of the real server: what is typed, printed and given as exit code,
//! also while the server is away.

#[path = "../common/mod.rs"]
mod common;

mod bulk;
mod commands;
mod deadline;
mod explain;
mod export;
mod forks;
mod places;
mod restart;
mod same;
mod signals;
mod submit;
mod watch;

use common::Place;
use common::server::Server;
use serde_json::Value;

/// A place whose store is served; commands there find the server by the store.
struct Served {
    place: Place,
    server: Server,
}

impl Served {
    fn new() -> Self {
        let place = Place::new();
        let server = Server::start(&place, &["--allow-shell"]);
        Self { place, server }
    }

    /// Submits a plan; gives the job's id.
    #[track_caller]
    fn submit(&self, plan: &str) -> String {
        self.place.write("plan.yaml", plan);
        let job = self.place.json(&["submit", "plan.yaml"]);
        job["id"].as_str().expect("a job has an id").to_owned()
    }

    /// Waits until a job has this status.
    #[track_caller]
    fn until(&self, id: &str, status: &str) {
        common::until(status, || self.show(id)["status"] == status);
    }

    fn show(&self, id: &str) -> Value {
        self.place.json(&["show", id])
    }

    /// Kills the server and starts it again, at the same address.
    fn restart(&mut self) {
        self.kill();
        self.server = start_at(&self.place, self.server.address);
    }

    fn kill(&self) {
        self.server.signal(rustix::process::Signal::KILL);
        // The kernel lets go of the address when the process is gone.
        common::until("the end", || std::net::TcpStream::connect(self.server.address).is_err());
    }
}

/// A server at an address that another one had.
fn start_at(place: &Place, address: std::net::SocketAddr) -> Server {
    Server::start(place, &["--allow-shell", "--listen", &address.to_string()])
}

/// A task that marks that it runs, and ends once there is a file `go`; it fails if that says so.
fn waits(place: &Place) -> String {
    let dir = place.path("").display().to_string();
    format!(
        "name: waits\ntasks:\n  - id: wait\n    kind: shell\n    input:\n      script: |\n        \
         echo begins\n        touch {dir}/runs\n        \
         until [ -e {dir}/go ]; do sleep 0.02; done\n        echo ends\n        \
         exit $(cat {dir}/go)\n  - {{id: behind, kind: noop}}\n"
    )
}

/// A problem that was written to stderr.
#[track_caller]
fn problem(stderr: &str) -> Value {
    serde_json::from_str(stderr).unwrap_or_else(|error| panic!("{error}: {stderr}"))
}
