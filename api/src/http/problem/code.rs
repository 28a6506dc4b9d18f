//! The codes of problems: what programs may rely on.

use axum::http::StatusCode;

/// What went wrong, for programs. A code never changes its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// The stable word.
    pub word: &'static str,
    /// The status that it comes with.
    pub status: StatusCode,
    /// The same in a few words for people.
    pub title: &'static str,
    /// The same in a sentence.
    pub meaning: &'static str,
}

macro_rules! codes {
    ($(
        $(#[doc = $docs:literal])*
        $name:ident = $word:literal, $status:ident, $title:literal;
    )+) => {
        impl Code {
            $($(#[doc = $docs])*
            pub const $name: Self = Self {
                word: $word,
                status: StatusCode::$status,
                title: $title,
                meaning: concat!($($docs),*),
            };)+

            /// All that there are, beside those of refused commands.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];
        }
    };
}

codes! {
    /// An id in the path cannot be one.
    BAD_ID = "bad_id", BAD_REQUEST, "Bad id";
    /// A parameter of the query is unknown or cannot be read.
    BAD_QUERY = "bad_query", BAD_REQUEST, "Bad query";
    /// A header cannot be read.
    BAD_HEADER = "bad_header", BAD_REQUEST, "Bad header";
    /// The body did not arrive, or is no JSON that all readers read alike.
    BAD_BODY = "bad_body", BAD_REQUEST, "Bad body";
    /// `shell` tasks are not accepted over HTTP.
    SHELL_NOT_ALLOWED = "shell_not_allowed", FORBIDDEN, "Shell is not allowed";
    /// Nothing is served at this path.
    NO_SUCH_ROUTE = "no_such_route", NOT_FOUND, "Nothing is here";
    /// There is no such job.
    NO_SUCH_JOB = "no_such_job", NOT_FOUND, "No such job";
    /// The job has no such task.
    NO_SUCH_TASK = "no_such_task", NOT_FOUND, "No such task";
    /// The job has no event of this number.
    NO_SUCH_EVENT = "no_such_event", NOT_FOUND, "No such event";
    /// The task has no such attempt.
    NO_SUCH_ATTEMPT = "no_such_attempt", NOT_FOUND, "No such attempt";
    /// The job was purged; `purged` has what is left of it.
    PURGED = "purged", GONE, "Purged";
    /// An attempt has written something, and its log is gone.
    LOG_MISSING = "log_missing", GONE, "The log is gone";
    /// The path is served, but not by this method.
    METHOD_NOT_ALLOWED = "method_not_allowed", METHOD_NOT_ALLOWED, "Method not allowed";
    /// The body came too slowly.
    TOO_SLOW = "too_slow", REQUEST_TIMEOUT, "Too slow";
    /// The job is not where the caller thought.
    STALE = "stale", PRECONDITION_FAILED, "The job has changed";
    /// The body, or a part of it, is larger than the limit.
    TOO_LARGE = "too_large", PAYLOAD_TOO_LARGE, "Too large";
    /// The body says that it is no JSON.
    NOT_JSON = "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE, "Not JSON";
    /// The body is JSON, but not what is wanted here.
    INVALID_BODY = "invalid_body", UNPROCESSABLE_ENTITY, "Invalid body";
    /// The plan is wrong.
    INVALID_PLAN = "invalid_plan", UNPROCESSABLE_ENTITY, "Invalid plan";
    /// The task that was to be inserted or edited is wrong.
    INVALID_TASK = "invalid_task", UNPROCESSABLE_ENTITY, "Invalid task";
    /// No workflow has this name.
    UNKNOWN_WORKFLOW = "unknown_workflow", UNPROCESSABLE_ENTITY, "Unknown workflow";
    /// The key came with another body before.
    KEY_REUSED = "idempotency_key_reused", UNPROCESSABLE_ENTITY, "Idempotency key reused";
    /// The job keeps as many signals as it may, and no task has waited for them.
    TOO_MANY_SIGNALS = "too_many_signals", TOO_MANY_REQUESTS, "Too many signals";
    /// The server contradicted itself.
    INTERNAL = "internal", INTERNAL_SERVER_ERROR, "Internal error";
    /// The job's history cannot be followed; other jobs are not concerned.
    JOB_UNREADABLE = "job_unreadable", INTERNAL_SERVER_ERROR, "The job cannot be read";
    /// A step log is there, and cannot be read.
    LOG_UNREADABLE = "log_unreadable", INTERNAL_SERVER_ERROR, "The log cannot be read";
    /// The engine opens its store.
    STARTING = "starting", SERVICE_UNAVAILABLE, "Starting";
    /// The engine could not be started.
    START_FAILED = "start_failed", SERVICE_UNAVAILABLE, "The start failed";
    /// The engine has been shut down.
    STOPPED = "stopped", SERVICE_UNAVAILABLE, "Stopped";
    /// A write failed: whether it has happened shows after the next start.
    OUTCOME_UNKNOWN = "outcome_unknown", SERVICE_UNAVAILABLE, "Outcome unknown";
    /// The log cannot be read.
    STORE_FAILED = "store_failed", SERVICE_UNAVAILABLE, "The store failed";
}

const fn refusal(word: &'static str, title: &'static str, meaning: &'static str) -> Code {
    Code { word, status: StatusCode::CONFLICT, title, meaning }
}

impl Code {
    /// The codes of commands that the job machine refuses.
    pub const REFUSALS: &'static [Self] = &[
        refusal("not_in_this_status", "Not in this status", {
            "The job's status forbids the command; `allowed` lists those that it does not."
        }),
        refusal("which_task", "Which task", {
            "A skip names no task, and there is not one that it must mean."
        }),
        refusal("task_is_live", "The task runs", "An attempt of the task is alive."),
        refusal("task_is_settled", "The task is settled", "The task is over."),
        refusal("output_is_taken", "The output is taken", {
            "Others take what the task would have given; `dependants` lists them."
        }),
        refusal("would_lose_order", "Order would be lost", {
            "Tasks behind it would no longer wait for those before it."
        }),
        refusal("would_be_a_circle", "A circle", "Tasks would need each other."),
        refusal("other_part", "Another part of the plan", {
            "The work and what is done at the end, in `finally`, need nothing of each other, and \
             their tasks stay apart."
        }),
        refusal("compensated", "What it did is undone", {
            "What the job did is undone, or is being undone, and its work does not run again: fork \
             it."
        }),
        refusal("output_is_missing", "An output is missing", {
            "A task of a fork would take an output that there is not; `dependants` says where."
        }),
        refusal("not_an_edit", "Not an edit", "A fork is edited by commands that edit a plan."),
        refusal("is_instance", "An instance of a task", {
            "The plan speaks of the task that it is of; an instance can be skipped and tried again."
        }),
        refusal("task_is_expanded", "The task has become its instances", {
            "It keeps the list that they are for."
        }),
        refusal("task_exists", "The task exists", {
            "The job has a task of this id, or had one: ids are never used again."
        }),
        refusal("nothing_to_retry", "Nothing to retry", {
            "The task has not failed, and does not wait for its next try."
        }),
    ];

    /// The code of a command that the job machine refused.
    pub fn refused(word: &'static str) -> Self {
        const OTHERS: [Code; 6] = [
            Code::NO_SUCH_TASK,
            Code::NO_SUCH_EVENT,
            Code::INVALID_TASK,
            Code::PURGED,
            Code::KEY_REUSED,
            Code::TOO_MANY_SIGNALS,
        ];
        for other in OTHERS {
            if word == other.word {
                return other;
            }
        }
        let known = Self::REFUSALS.iter().find(|code| code.word == word);
        known.copied().unwrap_or(refusal(word, "Refused", "The job refused the command."))
    }
}
