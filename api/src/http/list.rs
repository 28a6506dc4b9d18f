//! Lists of jobs.

use axum::http::header::LINK;
use axum::http::{HeaderValue, Uri};
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::json;
use super::extract::Running;
use super::problem::Problem;
use super::query::{Asked, FromQuery, Parameters, bad_query};
use super::state::AppState;
use crate::dto;
use crate::list::{BadCursor, BadFilter, Cursor, Filter, LIMIT_MAX, page};

/// How many items a page has where nothing else is asked for.
const LIMIT: usize = 100;

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(list))
}

const KNOWN: [&str; Filter::NAMES.len() + 2] = {
    let mut known = ["limit"; Filter::NAMES.len() + 2];
    // No iterator can be used in a constant.
    let mut index = 0;
    while index < Filter::NAMES.len() {
        known[index] = Filter::NAMES[index];
        index += 1;
    }
    known[index + 1] = "cursor";
    known
};

/// A page that is asked for.
struct Wish {
    filter: Filter,
    from: Option<Cursor>,
    limit: usize,
}

impl FromQuery for Wish {
    const KNOWN: &'static [&'static str] = &KNOWN;

    fn read(parameters: &Parameters) -> Result<Self, Problem> {
        let mut filter = Filter::default();
        for name in Filter::NAMES {
            let mut values = parameters.all(name);
            let added = values.try_for_each(|value| filter.add(name, value));
            added.map_err(|BadFilter { detail, .. }| bad_query(detail))?;
        }
        let cursor = parameters.text("cursor")?.map(|text| Cursor::read(text, &filter));
        let from = cursor.transpose().map_err(|bad: BadCursor| bad_query(bad.to_string()))?;
        Ok(Self { filter, from, limit: limit(parameters)? })
    }
}

/// How many items a page is to have.
pub(super) fn limit(parameters: &Parameters) -> Result<usize, Problem> {
    let limit = parameters.number("limit")?.unwrap_or(LIMIT);
    if (1..=LIMIT_MAX).contains(&limit) {
        return Ok(limit);
    }
    Err(bad_query(format!("`limit` must be between 1 and {LIMIT_MAX}")))
}

/// Jobs, the newest first.
///
/// A job is listed if everything holds that is asked for. A page may have fewer items than `limit`,
/// even none, and yet be followed by others: the list is at its end where `next_cursor` is left
/// out. Jobs that are submitted meanwhile do not disturb it.
#[utoipa::path(get, path = "/jobs", operation_id = "listJobs", tag = "jobs",
    params(
        ("id" = Option<String>, Query, description = "With an id that begins so"),
        ("status" = Option<Vec<dto::JobStatus>>, Query,
            description = "One of these: repeated, or with commas between them"),
        ("workflow" = Option<String>, Query, description = "Made by this workflow"),
        ("label" = Option<Vec<String>>, Query,
            description = "`KEY:VALUE`; may be repeated, then all must be there"),
        ("queue" = Option<String>, Query, description = "In this queue"),
        ("forked_from" = Option<String>, Query, format = Uuid,
            description = "Forked from this job"),
        ("created_after" = Option<String>, Query, format = DateTime,
            description = "Submitted at this time or later"),
        ("created_before" = Option<String>, Query, format = DateTime,
            description = "Submitted before this time"),
        ("finished_after" = Option<String>, Query, format = DateTime,
            description = "Ended at this time or later"),
        ("finished_before" = Option<String>, Query, format = DateTime,
            description = "Ended before this time"),
        ("text" = Option<String>, Query,
            description = "In the name or in the error's message, in upper or lower case"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000,
            description = "At most so many; 100 where it is left out"),
        ("cursor" = Option<String>, Query,
            description = "`next_cursor` of the page before, with the same filter"),
    ),
    responses((status = 200, description = "A page", body = dto::JobList,
        headers(("Link" = String, description = "`rel=\"next\"`: the next page")))))]
async fn list(
    Asked(Wish { filter, from, limit }): Asked<Wish>,
    engine: Running,
    uri: Uri,
) -> Result<Response, Problem> {
    let page = page(&engine.0, &filter, from, limit).await?;
    let list = dto::JobList::of(&page, &filter);
    let mut response = json(list.to_json());
    if let Some(cursor) = &list.next_cursor {
        link_next(&mut response, &uri, "cursor", cursor);
    }
    Ok(response)
}

/// Adds where the next page is: the same request with another parameter, relative to its address,
/// so that it holds wherever the routes are mounted.
pub(super) fn link_next(response: &mut Response, uri: &Uri, name: &str, value: &str) {
    let others = uri.query().unwrap_or_default().split('&');
    let others = others.filter(|pair| !pair.is_empty() && pair.split('=').next() != Some(name));
    let mut link = String::from("<?");
    for pair in others {
        link.push_str(pair);
        link.push('&');
    }
    if let Ok(link) = HeaderValue::try_from(format!("{link}{name}={value}>; rel=\"next\"")) {
        response.headers_mut().insert(LINK, link);
    }
}
