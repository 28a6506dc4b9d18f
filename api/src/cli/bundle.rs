//! `annals export`, and what is done with the file that it makes.

use std::fs::{self, File};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::Session;
use super::backend::Backend;
use super::error::{CliError, Exit};
use super::past;
use super::text::plain;
use crate::bundle::Bundle;
use crate::dto;

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// The job.
    job: String,
    /// The file to make; one that is there is not written over.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

pub(super) async fn export(args: &ExportArgs, mut session: Session) -> Result<Exit, CliError> {
    let backend = Backend::open(&session).await?;
    let job = backend.find(&args.job).await?;
    let partial = Partial::new(&args.output)?;
    let mut out = BufWriter::new(&partial.file);
    backend.export(job, &mut out).await?;
    out.flush().map_err(|error| cannot(&args.output, &error))?;
    drop(out);
    let bundle = read(&partial.path)?;
    if let Some(fault) = bundle.faults().first() {
        // What the store has lost is told; what came over a network may be asked for again.
        let detail = format!("what was exported is not sound: {fault}");
        return Err(CliError::new(Exit::Failed, "bundle_damaged", detail));
    }
    partial.keep(&args.output)?;
    let (file, head) = (args.output.display().to_string(), bundle.head());
    if session.json {
        let report = json!({
            "file": file, "job_id": job.to_string(), "head_seq": head.seq,
            "head_hash": dto::hex(&head.hash), "values": bundle.values(),
            "log_entries": bundle.log_entries(),
        });
        session.out.line(report.to_string());
    } else {
        session.out.line(format!(
            "{}: job {job} up to event {}, {} values, {} parts of logs",
            plain(&file),
            head.seq,
            bundle.values(),
            bundle.log_entries(),
        ));
    }
    backend.close().await?;
    Ok(Exit::Done)
}

/// A file that is not whole, and goes with this unless it is kept.
struct Partial {
    path: PathBuf,
    file: File,
    is_kept: bool,
}

impl Partial {
    fn new(wanted: &Path) -> Result<Self, CliError> {
        if wanted.exists() {
            let detail = format!("{} is there already: name another file", wanted.display());
            return Err(CliError::usage(detail));
        }
        let mut path = wanted.as_os_str().to_owned();
        path.push(".partial");
        let path = PathBuf::from(path);
        let file = File::create(&path).map_err(|error| cannot(&path, &error))?;
        Ok(Self { path, file, is_kept: false })
    }

    /// Gives it its name, once it is durable.
    fn keep(mut self, name: &Path) -> Result<(), CliError> {
        self.file.sync_all().map_err(|error| cannot(name, &error))?;
        // Unlike a rename, a link does not take the place of a file that has come meanwhile. Not
        // every file system has links.
        let named = fs::hard_link(&self.path, name).or_else(|error| match error.kind() {
            ErrorKind::AlreadyExists => Err(error),
            _ => fs::rename(&self.path, name),
        });
        named.map_err(|error| cannot(name, &error))?;
        self.is_kept = fs::remove_file(&self.path).is_ok() || !self.path.exists();
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.is_kept {
            // It is worth nothing, and whoever finds it sees that by its name.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn cannot(path: &Path, error: &std::io::Error) -> CliError {
    CliError::usage(format!("{} cannot be written: {error}", path.display()))
}

fn read(path: &Path) -> Result<Bundle, CliError> {
    let wrong = |error| CliError::usage(format!("{}: {error}", path.display()));
    Bundle::open(path).map_err(wrong)
}

/// Checks a bundle.
pub(super) fn verify(path: &Path, mut session: Session) -> Result<Exit, CliError> {
    let bundle = read(path)?;
    let (head, faults) = (bundle.head(), bundle.faults());
    if session.json {
        let damage: Vec<_> = faults.iter().map(|fault| json!({"detail": fault})).collect();
        let report = json!({
            "job_id": bundle.job().to_string(), "sound": faults.is_empty(),
            "events": head.seq, "unknown_events": bundle.unknown_events(),
            "values": bundle.values(), "head_seq": head.seq,
            "head_hash": dto::hex(&head.hash), "damage": damage,
        });
        session.out.line(report.to_string());
    } else {
        session.out.lines(faults.iter().map(|fault| plain(fault)));
        session.out.line(if faults.is_empty() {
            format!(
                "sound: job {} ({}), {} events, {} values; the hash of event {} is {}",
                bundle.job(),
                plain(bundle.name()),
                head.seq,
                bundle.values(),
                head.seq,
                dto::hex(&head.hash),
            )
        } else {
            format!("DAMAGED: {}", path.display())
        });
    }
    Ok(if faults.is_empty() { Exit::Done } else { Exit::Failed })
}

/// Replays a bundle with the code of today, and tells what is different.
pub(super) fn replay(path: &Path, mut session: Session) -> Result<Exit, CliError> {
    let bundle = read(path)?;
    if let Some(fault) = bundle.faults().first() {
        let detail = format!("{} is damaged: {fault}", path.display());
        return Err(CliError::new(Exit::Failed, "bundle_damaged", detail));
    }
    let mut steps = Vec::new();
    let different = bundle.replay_each(|step| steps.push(dto::ReplayedEvent::of(step).to_json()));
    for step in steps {
        past::step(step, &mut session)?;
    }
    if session.json {
        let all: Vec<String> = different.iter().map(ToString::to_string).collect();
        session.out.line(json!({"differences": all}).to_string());
    } else if different.is_empty() {
        session.out.line("no difference from what the build made of it that exported it");
    } else {
        session.out.lines(different.iter().map(|one| plain(&one.to_string()).into_owned()));
    }
    Ok(if different.is_empty() { Exit::Done } else { Exit::Failed })
}
