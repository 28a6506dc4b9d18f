//! The edge: what happens to every request on its way in, and to every answer on its way out.

use std::any::Any;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::header::ACCEPT_ENCODING;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use tower_http::CompressionLevel;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{DefaultPredicate, Predicate, SizeAbove};
use uuid::Uuid;

use super::problem::{Code, Problem};

/// The id of a request.
pub(super) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest id of a request that is taken from its client.
const REQUEST_ID_MAX: usize = 128;
/// Smaller answers are not compressed, in bytes.
const COMPRESSED_MIN: u64 = 2_048;

/// The id of the request that is being answered, among its extensions.
#[derive(Debug, Clone)]
pub(super) struct RequestId(pub(super) Arc<str>);

/// Puts the edge around routes: what nobody serves is a problem too, and so is a panic.
pub(super) fn around(routes: Router) -> Router {
    routes
        .fallback(no_such_route)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(CatchPanicLayer::custom(panicked))
        .layer(compression())
        .layer(from_fn(identify))
}

/// Large answers are compressed for who asks for that; streams of events never are.
fn compression() -> CompressionLayer<impl Predicate> {
    let large = DefaultPredicate::new().and(SizeAbove::new(COMPRESSED_MIN));
    CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(large)
}

/// Gives the request an id, and problems their JSON.
async fn identify(mut request: Request, next: Next) -> Response {
    let id = request.headers().get(X_REQUEST_ID).and_then(taken).unwrap_or_else(made);
    request.extensions_mut().insert(RequestId(Arc::clone(&id)));
    settle_encoding(request.headers_mut());
    let mut response = next.run(request).await;
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        problem.write(&mut response, &id);
    }
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(X_REQUEST_ID, id);
    }
    let nosniff = HeaderValue::from_static("nosniff");
    response.headers_mut().insert("x-content-type-options", nosniff);
    response
}

/// Leaves of `Accept-Encoding` what is done about it: the layer that compresses would call a
/// request not acceptable that has been carried out.
fn settle_encoding(headers: &mut HeaderMap) {
    let takes_gzip = |part: &str| {
        let (coding, weight) = part.split_once(';').unwrap_or((part, ""));
        let zero = weight.trim().strip_prefix("q=").is_some_and(|q| q.parse() == Ok(0.0));
        matches!(coding.trim().to_ascii_lowercase().as_str(), "gzip" | "x-gzip") && !zero
    };
    let values = headers.get_all(ACCEPT_ENCODING).into_iter().filter_map(|all| all.to_str().ok());
    if values.flat_map(|all| all.split(',')).any(takes_gzip) {
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    } else {
        headers.remove(ACCEPT_ENCODING);
    }
}

/// The id that the client gave, if it can stand in logs and headers. Others are not worth an
/// error: proxies make them.
fn taken(header: &HeaderValue) -> Option<Arc<str>> {
    let id = header.to_str().ok()?;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:+/=@".contains(&byte);
    let valid = (1..=REQUEST_ID_MAX).contains(&id.len()) && id.bytes().all(fits);
    valid.then(|| id.into())
}

fn made() -> Arc<str> {
    Uuid::new_v4().to_string().into()
}

async fn no_such_route(uri: Uri) -> Problem {
    let path: String = uri.path().chars().take(256).collect();
    let detail = format!("nothing is served at {path}; /api/v1/openapi.json lists what is");
    Problem::new(Code::NO_SUCH_ROUTE, detail)
}

/// The router itself adds `Allow`.
async fn method_not_allowed(method: Method) -> Problem {
    let detail = format!("{method} is not served here; the header Allow lists what is");
    Problem::new(Code::METHOD_NOT_ALLOWED, detail)
}

/// What a panic says is for the log of the server, not for clients.
#[expect(clippy::needless_pass_by_value, reason = "this is the signature that is asked for")]
fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    tracing::error!(panic = text, "a handler panicked");
    let detail = "the server made a mistake; its log has more under the id of this request";
    Problem::new(Code::INTERNAL, detail).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::routing::get;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn a_panic_is_a_problem_that_tells_nothing_of_it() {
        async fn panics() -> &'static str {
            panic!("the secret is 42")
        }
        let routes = Router::new().route("/", get(panics));
        let request = Request::builder().uri("/").body(Body::empty()).unwrap();
        let response = around(routes).oneshot(request).await.unwrap();
        assert_eq!(response.status(), 500);
        let id = response.headers()[X_REQUEST_ID].to_str().unwrap().to_owned();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&problem["code"], &problem["request_id"]), (&"internal".into(), &id.into()));
        assert!(!String::from_utf8_lossy(&body).contains("secret"), "{problem}");
    }
}
