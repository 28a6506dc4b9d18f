//! The twin of the views' row: whose child a job is came to it.

use annals_tasks_sdk::{JobId, TaskId};
use serde::{Deserialize, Serialize};

use crate::job::{Parent, TaskNumber};
use crate::log::JobRow;
use crate::log::codec::{CodecError, read, write};
use crate::log::v1::JobRowV1;

#[derive(Serialize, Deserialize)]
struct JobRowV4<'a> {
    #[serde(borrow)]
    before: JobRowV1<'a>,
    /// The parent, its task's number and id, and how many ancestors there are.
    parent: Option<(u128, u32, &'a str, u32)>,
}

/// Appends the views' row of a job that was not purged.
pub(in crate::log) fn put_row(row: &JobRow, out: &mut Vec<u8>) -> Result<(), CodecError> {
    let parent = row.parent.as_ref().map(|Parent { job, task, task_id, depth }| {
        (job.as_u128(), task.0, task_id.as_str(), *depth)
    });
    write(out, &JobRowV4 { before: row.into(), parent })
}

/// Reads it, also as it was before: then it ends where what came to it would begin.
pub(in crate::log) fn get_row(bytes: &[u8]) -> Result<JobRow, CodecError> {
    let Ok(JobRowV4 { before, parent }) = read(bytes) else {
        return read::<JobRowV1<'_>>(bytes).map(Into::into);
    };
    let mut row = JobRow::from(before);
    if let Some((job, task, task_id, depth)) = parent {
        let task_id = TaskId::known(task_id);
        let task_id = task_id.map_err(|error| CodecError::Damaged(error.to_string()))?;
        let (job, task) = (JobId::from_u128(job), TaskNumber(task));
        row.parent = Some(Parent { job, task, task_id, depth });
    }
    Ok(row)
}
