//! `annals serve`: settings become a server.

use std::path::Path;

use serde::Serialize;

use super::Session;
use super::error::{CliError, Exit};
use super::flags::ServerFlags;
use super::output::Out;
use super::text::plain;
use crate::serve::{self, Ready, ServeError};
use crate::settings::BadSetting;

#[derive(Serialize)]
struct Announced<'a> {
    url: &'a str,
    data: &'a Path,
    pid: u32,
}

pub(super) async fn serve(flags: ServerFlags, session: Session) -> Result<Exit, CliError> {
    let Session { app, place, file, json, mut out, .. } = session;
    let mut settings = flags.settings(file.as_ref())?;
    place.store()?.clone_into(&mut settings.data);
    let logged = serve::install(&settings);
    logged.map_err(|error| CliError::unreachable(format!("cannot start threads: {error}")))?;
    let engine = app.builder(&settings.data, |engine| {
        settings.apply(engine).lock_patience(settings.lock_timeout)
    });
    let ready = |ready: &Ready| announce(ready, json, &mut out);
    let served = serve::serve(&settings, engine, ready).await;
    serve::flush();
    served?;
    Ok(Exit::Done)
}

fn announce(ready: &Ready, json: bool, out: &mut Out) {
    let Ready { url, data } = ready;
    let pid = std::process::id();
    if json {
        let announced = Announced { url, data, pid };
        out.line(serde_json::to_string(&announced).unwrap_or_default());
    } else {
        let data = data.display().to_string();
        out.line(format!("serving {} at {url} (pid {pid})", plain(&data)));
    }
}

impl From<BadSetting> for CliError {
    fn from(error: BadSetting) -> Self {
        Self::new(Exit::Usage, "bad_setting", error.to_string())
    }
}

impl From<ServeError> for CliError {
    fn from(error: ServeError) -> Self {
        match error {
            ServeError::Start(error) => error.into(),
            ServeError::Close(error) => error.into(),
            ServeError::Bind { .. } => {
                Self::new(Exit::Unreachable, "cannot_listen", error.to_string())
            }
            error => Self::unreachable(error.to_string()),
        }
    }
}
