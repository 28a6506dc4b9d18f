//! `annals logs`: what an attempt has written, byte by byte, or line by line in JSON.

use super::Session;
use super::args::LogsArgs;
use super::backend::Backend;
use super::error::{CliError, Exit};

pub(super) async fn logs(args: &LogsArgs, mut session: Session) -> Result<Exit, CliError> {
    let backend = Backend::open(&session).await?;
    let job = backend.find(&args.job).await?;
    let printed = backend.log(job, args, session.json, &mut session.out).await;
    backend.close().await?;
    printed?;
    Ok(Exit::Done)
}
