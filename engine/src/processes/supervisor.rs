//! The supervisor: a process of its own between the engine and one attempt's processes.
//!
//! It is the subreaper of whatever the attempt starts, so double forks and new sessions stay
//! below it, and it reports only when nothing of them lives. It ends them when the engine says
//! so, and when the engine is gone: then the socket that is its standard input reads as ended.
//! Nothing here uses threads or an asynchronous runtime, because it starts once per attempt.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process_group, set_child_subreaper, setsid,
    wait,
};

use super::cgroup;
use super::descriptor;
use super::live;
use super::memory::MemoryGroup;
use super::tree::{self, Stat};
use super::wire::{Inherit, Order, Report, Spec};

/// What is still there this long after it was killed is reported.
const STUCK_AFTER: Duration = Duration::from_secs(2);

/// Supervises one attempt; gives the exit code of the process.
pub(crate) fn main() -> i32 {
    let Ok(socket) = io::stdin().as_fd().try_clone_to_owned() else { return 2 };
    let supervised = std::panic::catch_unwind(|| supervise(socket.into()));
    if matches!(supervised, Ok(Ok(()))) {
        return 0;
    }
    // The attempt's processes must not outlive the supervisor, whatever went wrong.
    tree::kill_all(tree::descendants);
    1
}

fn supervise(socket: UnixStream) -> io::Result<()> {
    // Fails only where this process leads a group already, which the engine sees to.
    let _ = setsid();
    set_child_subreaper(Some(getpid()))?;
    // Descriptors that the engine itself was started with are none of the attempt's business.
    close_fds::set_fds_cloexec(3, &[]);
    let children = signals()?;
    let mut orders = Orders { socket, received: Vec::new(), input: None, ended: false };
    let Some(spec) = orders.first_line()? else { return Ok(()) };
    let spec: Spec = serde_json::from_slice(&spec)?;
    // The record comes first: what runs without one could not be found after a crash.
    let record = match live::Held::leave(&spec) {
        Ok(record) => record,
        Err(error) => {
            let place = spec.live.display();
            let message = format!("cannot write the record {place} of the attempt: {error}");
            return orders.report(&Report::Failed { message });
        }
    };
    let cgroup = record.supervised.cgroup.clone();
    let cgroup = cgroup.filter(|cgroup| cgroup::enter(cgroup).is_ok());
    // Where it cannot be made, the program holds itself to what it can.
    let memory = spec.memory.as_ref().zip(record.supervised.memory.as_deref());
    let memory = memory.and_then(|(limit, path)| limit.place.make(path, limit.bytes).ok());
    let mut supervisor =
        Supervisor { orders, children, memory, stopping: false, asked: false, killed: false };
    let report = supervisor.run(&spec);
    if let Some(memory) = supervisor.memory.take() {
        memory.remove();
    }
    if let Some(cgroup) = cgroup {
        cgroup::leave(&cgroup);
    }
    record.remove();
    supervisor.orders.report(&report)
}

/// A stream that becomes readable whenever a child ends. A signal meant to end the supervisor
/// only wakes it up as well: it must not leave its tree behind.
fn signals() -> io::Result<UnixStream> {
    use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    let (ours, handlers) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    for signal in [SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
        signal_hook::low_level::pipe::register(signal, handlers.try_clone()?)?;
    }
    Ok(ours)
}

struct Supervisor {
    orders: Orders,
    children: UnixStream,
    memory: Option<MemoryGroup>,
    /// Whether there was an order to end, in time for a live process or not.
    stopping: bool,
    /// Whether a live process was asked to end.
    asked: bool,
    killed: bool,
}

impl Supervisor {
    fn run(&mut self, spec: &Spec) -> Report {
        if self.is_stopped() {
            return Report::NotBegun;
        }
        if let Some(unless) = &spec.unless {
            match self.phase(spec, unless, None) {
                Err(message) => return Report::Failed { message },
                Ok(status) if status.exit_status() == Some(0) && !self.asked => {
                    return Report::AlreadyDone;
                }
                Ok(_) => {}
            }
        }
        if self.is_stopped() {
            return Report::NotBegun;
        }
        let input = self.orders.input.take();
        match self.phase(spec, &spec.argv, input) {
            Err(message) => Report::Failed { message },
            Ok(status) => Report::Ended {
                code: status.exit_status(),
                signal: status.terminating_signal(),
                asked: self.asked,
                out_of_memory: self.memory.as_ref().is_some_and(MemoryGroup::ran_out),
            },
        }
    }

    /// Whether there was an order to end, of which there is no other kind, or the engine is gone.
    fn is_stopped(&mut self) -> bool {
        self.orders.receive();
        self.stopping || self.orders.next().is_some() || self.orders.ended
    }

    /// What the program is told that it is called, where that is not its path.
    fn name(&self, spec: &Spec) -> Option<String> {
        let group = self.memory.as_ref().and_then(|group| group.path().to_str());
        match (group, &spec.memory) {
            (Some(path), Some(limit)) => Some(format!("{}{path}", limit.name)),
            _ => spec.name.clone(),
        }
    }

    /// Runs one program to its end, and ends whatever it leaves behind.
    fn phase(
        &mut self,
        spec: &Spec,
        argv: &[String],
        input: Option<OwnedFd>,
    ) -> Result<WaitStatus, String> {
        let main = start(self.name(spec).as_deref(), spec, argv, input)?;
        let mut ended = None;
        loop {
            let children_left = reap(main, &mut ended);
            if ended.is_some() && !children_left {
                break;
            }
            if ended.is_some() || self.killed {
                self.end_tree(main, &mut ended);
                break;
            }
            self.wait(None);
            self.orders.receive();
            while let Some(order) = self.orders.next() {
                self.obey(order, main, &mut ended);
            }
            if self.orders.ended {
                self.obey(Order::Kill, main, &mut ended);
            }
        }
        ended.ok_or_else(|| "the end of the process was seen by no one".to_owned())
    }

    fn obey(&mut self, order: Order, main: Pid, ended: &mut Option<WaitStatus>) {
        self.stopping = true;
        reap(main, ended);
        if ended.is_some() {
            return;
        }
        self.asked = true;
        self.killed |= order == Order::Kill;
        if order == Order::Terminate {
            let _ = kill_process_group(main, Signal::TERM);
            let group = main.as_raw_nonzero().get();
            let outside = |pid: &i32| Stat::of(*pid).is_some_and(|stat| stat.group != group);
            let outside: Vec<i32> = tree::descendants().into_iter().filter(outside).collect();
            for pid in outside {
                tree::send(pid, Signal::TERM);
            }
        }
    }

    /// Kills until there is no child left: what loses its parent becomes a child of this
    /// process, so without a child there is nothing below it.
    fn end_tree(&mut self, main: Pid, ended: &mut Option<WaitStatus>) {
        let since = Instant::now();
        let mut pause = Duration::from_millis(2);
        let mut reported = false;
        loop {
            tree::kill_all(tree::descendants);
            if !reap(main, ended) {
                return;
            }
            self.wait(Some(pause));
            pause = (pause * 2).min(Duration::from_millis(200));
            if !reported && since.elapsed() > STUCK_AFTER {
                reported = true;
                // Without an engine there is no one to tell.
                let _ = self.orders.report(&Report::Stuck { pids: tree::descendants() });
            }
        }
    }

    /// Waits for a child to end or, without a limit of time, for an order.
    fn wait(&mut self, limit: Option<Duration>) {
        let limit = limit.map(|limit| Timespec { tv_sec: 0, tv_nsec: limit.subsec_nanos().into() });
        let children = PollFd::new(&self.children, PollFlags::IN);
        if limit.is_some() {
            let _ = poll(&mut [children], limit.as_ref());
        } else {
            let orders = PollFd::new(&self.orders.socket, PollFlags::IN);
            // An interrupted wait is one more look around.
            let _ = poll(&mut [children, orders], None);
        }
        let _ = self.children.read(&mut [0; 64]);
    }
}

/// Collects every child that has ended; says whether there are children left.
fn reap(main: Pid, ended: &mut Option<WaitStatus>) -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == main => *ended = Some(status),
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

fn start(
    name: Option<&str>,
    spec: &Spec,
    argv: &[String],
    input: Option<OwnedFd>,
) -> Result<Pid, String> {
    let Some((program, arguments)) = argv.split_first() else {
        return Err("there is no program to start".to_owned());
    };
    let mut command = Command::new(program);
    command.args(arguments).current_dir(&spec.cwd).process_group(0);
    command.stdin(input.map_or_else(Stdio::null, Stdio::from));
    if let Some(name) = name {
        command.arg0(name);
    }
    environment(spec, &mut command);
    if let Some((user, group)) = spec.user {
        command.uid(user).gid(group);
    }
    if !spec.cwd.is_dir() {
        return Err(format!("the folder {} to run in does not exist", spec.cwd.display()));
    }
    let child = command.spawn().map_err(|error| format!("cannot start {program:?}: {error}"))?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| "the process has no id".to_owned())
}

fn environment(spec: &Spec, command: &mut Command) {
    if let Inherit::These(names) = &spec.inherit {
        command.env_clear().envs(spec.fallback.iter().map(|(name, value)| (name, value)));
        let set = names.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        command.envs(set);
    }
    for (name, value) in &spec.env {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
}

/// The engine's side of the talk.
struct Orders {
    socket: UnixStream,
    received: Vec<u8>,
    /// The descriptor that came along.
    input: Option<OwnedFd>,
    /// Whether the engine is gone.
    ended: bool,
}

impl Orders {
    /// Waits for the first line; `None` where the engine is gone before it is complete.
    fn first_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(line) = self.line() {
                self.socket.set_nonblocking(true)?;
                return Ok(Some(line));
            }
            self.receive();
            if self.ended {
                return Ok(None);
            }
        }
    }

    /// Takes what is there.
    fn receive(&mut self) {
        let mut buffer = [0; 16 * 1024];
        match descriptor::receive(&self.socket, &mut buffer, &mut self.input) {
            Ok(0) => self.ended = true,
            Ok(count) => self.received.extend_from_slice(&buffer[..count]),
            Err(error) => {
                use io::ErrorKind::{Interrupted, WouldBlock};
                self.ended |= !matches!(error.kind(), Interrupted | WouldBlock);
            }
        }
    }

    fn line(&mut self) -> Option<Vec<u8>> {
        let end = self.received.iter().position(|byte| *byte == b'\n')?;
        Some(self.received.drain(..=end).collect())
    }

    fn next(&mut self) -> Option<Order> {
        // What cannot be read is taken as the hardest order there is.
        self.line().map(|line| serde_json::from_slice(&line).unwrap_or(Order::Kill))
    }

    fn report(&mut self, report: &Report) -> io::Result<()> {
        let mut line = serde_json::to_vec(report)?;
        line.push(b'\n');
        self.socket.write_all(&line)
    }
}
