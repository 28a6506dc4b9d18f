//! The words of statuses and the like, for the description of the API. In Rust they are those of
//! the engine.

use std::borrow::Cow;

use annals_engine::job;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

macro_rules! words {
    ($($(#[$docs:meta])* $name:ident = $engine:ty, $about:literal;)+) => {$(
        $(#[$docs])*
        pub struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let words: Vec<&str> = <$engine>::ALL.iter().map(|word| word.as_str()).collect();
                let words = ObjectBuilder::new()
                    .schema_type(Type::String)
                    .description(Some($about))
                    .enum_values(Some(words));
                RefOr::T(Schema::Object(words.build()))
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($name))
            }
        }
    )+};
}

words! {
    /// Where a job stands.
    JobStatus = job::JobStatus, "Where a job stands";
    /// What a job is on its way to.
    Intent = job::Intent, "What a running job is on its way to";
    /// Where a task stands.
    TaskStatus = job::TaskStatus, "Where a task stands";
    /// How an attempt ended.
    AttemptOutcome = job::AttemptOutcome, "How an attempt ended";
}
