//! `annals watch`: a job on a server, live, to its end.

use std::time::{Duration, Instant};

use annals_engine::job::JobStatus;
use annals_tasks_sdk::{JobId, Timestamp};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Session;
use super::args::JobArgs;
use super::backend::{Backend, Said, Server, Until};
use super::error::{CliError, Exit};
use super::live::{Moving, Seen, Show, Signals, begins, ends};
use super::text::{plain, tasks};
use super::view::{self, Job};

/// How often a terminal is drawn while nothing happens.
const FRAME: Duration = Duration::from_millis(100);
/// How often a server is asked at most for what no event says.
const GLANCE: Duration = Duration::from_millis(500);

pub(super) async fn watch(args: &JobArgs, mut session: Session) -> Result<Exit, CliError> {
    let backend = Backend::open(&session).await?;
    let id = backend.find(&args.job).await?;
    let job: Job = view::parse(&backend.snapshot(id, None).await?)?;
    match &backend {
        Backend::Held(_) => {
            let exit = look(&backend, &job, &mut session).await;
            backend.close().await?;
            exit
        }
        Backend::Served(server) => follow(server, &job, Since::Now, &mut session).await,
    }
}

/// From where on a job is shown to people. Programs are given all of its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Since {
    /// From its submission on.
    Begin,
    /// How it stands now, and what happens then.
    Now,
}

/// Shows how a job stands where nothing runs, which is all that will be.
async fn look(backend: &Backend, job: &Job, session: &mut Session) -> Result<Exit, CliError> {
    let mut show = begin(job, Since::Now, session);
    let mut events = backend.events(job.id, 0, Until::Now).await?;
    if show.is_json() {
        while let Said::Event(event) = events.next().await? {
            show.event(&event)?;
        }
    } else {
        if let Said::Event(first) = events.next().await? {
            show.learn(&first)?;
        }
        show.standing(job);
    }
    show.clear();
    drop(events);
    let exit = end(job, &backend.snapshot(job.id, None).await?, None, session);
    if matches!(job.status, JobStatus::Pending | JobStatus::Running) {
        let go_on = session.place.go_on(job.id, job.status);
        let detail = format!(
            "no engine runs on this store now, so there is nothing to watch: `{go_on}` runs the \
             job and shows it"
        );
        return Err(CliError::new(Exit::Unreachable, "nothing_runs", detail));
    }
    Ok(exit)
}

/// Says which job it is, and how it stands.
fn begin<'a>(job: &Job, since: Since, session: &'a mut Session) -> Show<'a> {
    let from_begin = session.json || since == Since::Begin;
    let seen = if from_begin { Seen::NOTHING } else { Seen::state(job.seq, job.status) };
    let mut show = Show::new(session, job, seen);
    if from_begin {
        show.say(&begins(job));
        return show;
    }
    let counts = job.progress;
    let intent = job.intent.map_or_else(String::new, |intent| format!(" (to {intent})"));
    show.say(&format!(
        "job {}: {} is {}{intent}; {} of {} completed",
        job.id,
        plain(&job.name),
        job.status,
        counts.completed,
        tasks(counts.total)
    ));
    show
}

/// Follows a job on a server until it has ended or is paused. A signal leaves it alone.
pub(super) async fn follow(
    server: &Server,
    job: &Job,
    since: Since,
    session: &mut Session,
) -> Result<Exit, CliError> {
    // Before anything is shown: whoever sees a line of it knows that a signal is heard.
    let mut signals = Signals::listen()?;
    let mut watcher = Watcher::new(server, job, begin(job, since, session));
    let ended = tokio::select! {
        ended = watcher.work(job) => Ok(ended?),
        exit = signals.next() => Err(exit),
    };
    let Watcher { mut show, .. } = watcher;
    show.clear();
    match ended {
        Ok(json) => {
            let time = show.seen().time;
            Ok(end(&view::parse(&json)?, &json, time, session))
        }
        Err(exit) => {
            let again = show.place().command(&format!("watch {}", job.id));
            show.say(&format!("job {} goes on; `{again}` shows it again", job.id));
            Ok(exit)
        }
    }
}

/// Shows a job on a server while it moves.
struct Watcher<'a> {
    server: &'a Server,
    id: JobId,
    show: Show<'a>,
    /// There are events up to this one at least.
    upto: u64,
    /// Where anything is drawn.
    glance: Option<Glance>,
}

impl<'a> Watcher<'a> {
    fn new(server: &'a Server, job: &Job, show: Show<'a>) -> Self {
        let glance = show.is_drawn().then(|| Glance::begin(server.clone(), job.clone()));
        Self { server, id: job.id, show, upto: job.seq, glance }
    }

    /// Shows how the job stands where some of it is past, and everything from there until it has
    /// ended or is paused; gives its last snapshot.
    async fn work(&mut self, job: &Job) -> Result<String, CliError> {
        if self.show.seen().seq > 0 {
            if let Some(first) = self.server.first_event(self.id).await? {
                self.show.learn(&first)?;
            }
            self.show.standing(job);
        }
        let mut frames = tokio::time::interval(FRAME);
        let mut events = self.server.follow(self.id, self.show.seen().seq);
        loop {
            let seen = self.show.seen();
            if seen.is_over && seen.seq >= self.upto {
                let json = self.server.snapshot_in_time(self.id).await?;
                self.upto = view::parse::<Job>(&json)?.seq;
                if self.upto <= seen.seq {
                    return Ok(json);
                }
                // Somebody has had it go on meanwhile.
                events = self.server.follow(self.id, seen.seq);
            }
            tokio::select! {
                said = events.next() => match said? {
                    Said::Event(json) => self.show.event(&json)?,
                    Said::Aside(line) => self.show.aside(&line),
                    // Whoever ends a stream has said how the job ended.
                    Said::End => self.show.is_over(),
                },
                _ = frames.tick(), if self.glance.is_some() => self.draw(),
            }
        }
    }

    fn draw(&mut self) {
        if let Some(glance) = &self.glance {
            self.show.draw(&Moving::shown(&glance.latest.borrow()));
        }
    }
}

/// How a job looks, asked for again and again, because what attempts say of themselves is no
/// event.
struct Glance {
    latest: watch::Receiver<Job>,
    task: JoinHandle<()>,
}

impl Glance {
    fn begin(server: Server, job: Job) -> Self {
        let id = job.id;
        let (sender, latest) = watch::channel(job);
        let task = tokio::spawn(async move {
            let mut tag = None;
            while !sender.is_closed() {
                let begun = Instant::now();
                // What cannot be asked for now is asked for later; who follows the events says so.
                if let Ok(Some((now, job))) = server.glance(id, tag.clone()).await {
                    tag = now;
                    sender.send_replace(job);
                }
                // A job that is large to send is looked at less often.
                tokio::time::sleep(GLANCE.max(begun.elapsed() * 4)).await;
            }
        });
        Self { latest, task }
    }
}

impl Drop for Glance {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Says how a job ended, or that it is paused, and what to do.
fn end(job: &Job, json: &str, last: Option<Timestamp>, session: &mut Session) -> Exit {
    let exit = Exit::of(job.status);
    if session.json {
        session.out.line(json);
        return exit;
    }
    let go_on = (exit != Exit::Done).then(|| session.place.go_on(job.id, job.status));
    session.out.lines(ends(job, last, go_on, &session.place));
    exit
}
