//! What is written about the API for others: it must be that of the code.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use annals::http::{Code, document};
use serde_json::Value;

use crate::face::Face;

/// Compares a document with the one that is committed; writes it where `ANNALS_WRITE_DOCS` is set.
#[track_caller]
fn committed(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    if std::env::var_os("ANNALS_WRITE_DOCS").is_some() {
        std::fs::write(&path, text).expect("it can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == text,
        "docs/{name} is not that of the code: run this test with ANNALS_WRITE_DOCS=1, and look \
         at what has changed"
    );
}

fn described() -> Value {
    serde_json::to_value(document()).expect("it is JSON")
}

#[test]
fn the_description_of_the_api_is_committed() {
    let text = serde_json::to_string_pretty(&described()).expect("it is JSON");
    committed("openapi.json", &format!("{text}\n"));
}

#[test]
fn the_codes_of_problems_are_described() {
    let mut text = String::from(
        "# Problems\n\nErrors of the API are RFC 9457 problem details. `code` is for programs and \
         never changes its meaning; `detail` is for people.\n",
    );
    for code in Code::ALL.iter().chain(Code::REFUSALS) {
        let Code { word, status, meaning, .. } = code;
        let (status, meaning) = (status.as_u16(), meaning.trim());
        writeln!(text, "\n## {word}\n\n{status}. {meaning}").expect("a string takes it");
    }
    committed("problems.md", &text);
}

#[tokio::test]
async fn the_description_is_served_as_it_is() {
    let face = Face::new().await;
    assert_eq!(face.get("/api/v1/openapi.json").await.with_status(200), described());
}

/// A reference to a schema that is not there breaks every generator.
#[test]
fn every_reference_leads_somewhere_and_every_operation_has_a_name() {
    let document = described();
    let mut references = BTreeSet::new();
    collect(&document, &mut references);
    assert!(references.len() > 10, "{references:?}");
    for reference in references {
        let place = reference.strip_prefix('#').expect("a place in the document");
        assert!(document.pointer(place).is_some(), "{reference}");
    }
    let mut names = BTreeSet::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("operations") {
            let name = operation["operationId"].as_str().unwrap_or_default().to_owned();
            assert!(!name.is_empty() && names.insert(name), "{method} {path}");
            assert!(operation["responses"].get("default").is_some(), "{method} {path}");
            let parameters = operation["parameters"].as_array();
            let is_declared = |name: &str| {
                parameters.is_some_and(|all| {
                    all.iter().any(|one| one["name"] == name && one["in"] == "path")
                })
            };
            for segment in path.split('/').filter_map(|part| part.strip_prefix('{')) {
                assert!(is_declared(segment.trim_end_matches('}')), "{method} {path} {segment}");
            }
        }
    }
}

/// Fields that nobody knows are refused, and it is said so of all that is sent.
#[test]
fn what_is_sent_is_described_to_the_last_field() {
    let document = described();
    let (mut sent, mut seen) = (BTreeSet::new(), BTreeSet::new());
    for item in document["paths"].as_object().expect("paths").values() {
        for operation in item.as_object().expect("operations").values() {
            collect(&operation["requestBody"], &mut sent);
        }
    }
    while let Some(reference) = sent.pop_first() {
        let place = reference.strip_prefix('#').expect("a place in the document");
        let schema = document.pointer(place).expect("a schema");
        if schema.get("properties").is_some() {
            assert_eq!(schema["additionalProperties"], false, "{reference}");
        }
        let mut further = BTreeSet::new();
        collect(schema, &mut further);
        seen.insert(reference);
        sent.extend(further.difference(&seen).cloned());
    }
    assert!(seen.len() > 10, "{seen:?}");
}

fn collect(value: &Value, references: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get("$ref") {
                references.insert(reference.clone());
            }
            members.values().for_each(|member| collect(member, references));
        }
        Value::Array(elements) => elements.iter().for_each(|each| collect(each, references)),
        _ => {}
    }
}
