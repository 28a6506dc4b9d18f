//! Schemas say what the engine says: of each input here both must be of one mind.

use annals_engine::Engine;
use annals_engine::log::MemoryDisk;
use annals_tasks_sdk::plan::{Limits, Plan};
use serde_json::{Value, json};

use super::SCHEMAS;

/// Validates by the keywords that the schemas here use, and panics at others: a keyword that
/// nobody looks at would be a claim that nobody has checked.
fn is_valid(root: &Value, schema: &Value, value: &Value) -> bool {
    let all = schema.as_object().expect("a schema");
    all.iter().all(|(keyword, rule)| match keyword.as_str() {
        "$schema" | "$defs" | "title" | "description" | "default" | "examples" | "format"
        | "contentEncoding" => true,
        "$ref" => {
            let place = rule.as_str().and_then(|text| text.strip_prefix('#')).expect("a place");
            is_valid(root, root.pointer(place).expect("it is there"), value)
        }
        "type" => types(rule).any(|name| is_of(name, value)),
        "enum" => list(rule).contains(value),
        "required" => list(rule).iter().all(|name| value.get(name.as_str().unwrap()).is_some()),
        "properties" => rule.as_object().expect("schemas").iter().all(|(name, schema)| {
            value.get(name).is_none_or(|member| is_valid(root, schema, member))
        }),
        "additionalProperties" => members(value).all(|(name, member)| {
            let known = schema.get("properties").is_some_and(|known| known.get(name).is_some());
            known || (rule.is_object() && is_valid(root, rule, member))
        }),
        "maxProperties" => members(value).count() as u64 <= rule.as_u64().unwrap(),
        "items" => items(value).all(|item| is_valid(root, rule, item)),
        "minItems" => !value.is_array() || items(value).count() as u64 >= rule.as_u64().unwrap(),
        "maxLength" => {
            value.as_str().is_none_or(|text| text.len() as u64 <= rule.as_u64().unwrap())
        }
        "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().unwrap()),
        "maximum" => value.as_f64().is_none_or(|number| number <= rule.as_f64().unwrap()),
        "anyOf" => list(rule).iter().any(|schema| is_valid(root, schema, value)),
        "oneOf" => list(rule).iter().filter(|schema| is_valid(root, schema, value)).count() == 1,
        other => panic!("the keyword {other} is not known here"),
    })
}

fn types(rule: &Value) -> impl Iterator<Item = &str> {
    let names = match rule {
        Value::Array(names) => names.as_slice(),
        name => std::slice::from_ref(name),
    };
    names.iter().map(|name| name.as_str().expect("a name"))
}

fn is_of(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other} is no type"),
    }
}

fn list(rule: &Value) -> &Vec<Value> {
    rule.as_array().expect("a list")
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn schema(kind: &str) -> Value {
    let (_, text) = SCHEMAS.iter().find(|(name, _)| *name == kind).expect("it has a schema");
    serde_json::from_str(text).expect("it is JSON")
}

async fn engine(folder: &std::path::Path) -> Engine {
    let supervisor = annals_engine::kinds::Supervisor::Program("/bin/true".into());
    let builder = Engine::open(folder).log(Box::new(MemoryDisk::new().open()));
    builder.supervisor(supervisor).start().await.expect("it starts")
}

fn accepts(engine: &Engine, kind: &str, input: &Value) -> bool {
    let plan = json!({"name": "x", "tasks": [{"id": "a", "kind": kind, "input": input}]});
    let plan = Plan::from_json(&plan.to_string(), &Limits::default());
    plan.is_ok_and(|plan| engine.check(&plan).is_ok())
}

fn good() -> Vec<(&'static str, Value)> {
    vec![
        ("noop", json!(null)),
        ("noop", json!([1, {"a": "b"}])),
        ("sleep", json!({"for": "1h", "until": null})),
        ("sleep", json!({"until": "2030-01-01T00:00:00Z"})),
        ("job", json!({"name": "c", "tasks": [{"id": "x", "kind": "noop"}], "finally": null})),
        (
            "job",
            json!({"name": {"$input": "/n", "default": "c"}, "fail_fast": true,
            "tasks": [{"id": "x", "kind": "job", "input": {"name": "d", "tasks":
                [{"id": "y", "kind": "noop"}]}}]}),
        ),
        ("shell", json!({"script": "true", "argv": null})),
        ("shell", json!({"argv": ["sleep", 5, true], "user": 0, "term_is_success": true})),
        ("shell", json!({"script": "x", "shell": ["python3"], "output": "stdout"})),
        ("shell", json!({"script": "x", "env": {"A": null, "B": [1]}, "inherit_env": ["C"]})),
        ("shell", json!({"script": "x", "cwd": "/", "unless": "y", "user": "ada"})),
        ("http", json!({"url": "http://example.org", "method": "PURGE", "json": null})),
        ("http", json!({"url": "http://example.org", "headers": {"A": ["b", 1], "C": null}})),
        ("http", json!({"url": "http://example.org", "expect": "200-299,404", "text": ""})),
        ("http", json!({"url": "http://example.org", "expect": [200, "404"]})),
        ("http", json!({"url": "http://example.org", "body_base64": "AAEC"})),
        ("http", json!({"url": "http://example.org", "max_response_bytes": 0})),
    ]
}

/// What a schema can know to be wrong. Of texts it knows little: the engine reads them.
fn bad() -> Vec<(&'static str, Value)> {
    let mut headers = serde_json::Map::new();
    (0..101).for_each(|number| drop(headers.insert(format!("h{number}"), json!("x"))));
    vec![
        ("job", json!(null)),
        ("job", json!({})),
        ("job", json!({"name": "c", "tasks": []})),
        ("job", json!({"name": "c", "tasks": {"$output": "b"}})),
        ("job", json!({"workflow": "w", "tasks": []})),
        ("job", json!({"workflow": {"$input": "/w"}})),
        ("sleep", json!({})),
        ("sleep", json!(null)),
        ("sleep", json!({"for": 5})),
        ("sleep", json!({"for": "1h", "until": "2030-01-01T00:00:00Z"})),
        ("sleep", json!({"for": "1h", "untill": null})),
        ("shell", json!({})),
        ("shell", json!("true")),
        ("shell", json!({"script": "a", "argv": ["b"]})),
        ("shell", json!({"script": 1})),
        ("shell", json!({"argv": []})),
        ("shell", json!({"argv": [["a"]]})),
        ("shell", json!({"script": "a", "shell": []})),
        ("shell", json!({"script": "a", "env": ["A"]})),
        ("shell", json!({"script": "a", "user": -1})),
        ("shell", json!({"script": "a", "user": 1.5})),
        ("shell", json!({"script": "a", "output": "stderr"})),
        ("shell", json!({"script": "a", "term_is_success": "yes"})),
        ("shell", json!({"script": "a", "scripts": "b"})),
        ("http", json!({})),
        ("http", json!({"url": null})),
        ("http", json!({"url": 1})),
        ("http", json!({"url": format!("http://example.org/{}", "a".repeat(8192))})),
        ("http", json!({"url": "http://example.org", "method": 1})),
        ("http", json!({"url": "http://example.org", "method": "A".repeat(33)})),
        ("http", json!({"url": "http://example.org", "headers": ["A"]})),
        ("http", json!({"url": "http://example.org", "headers": headers})),
        ("http", json!({"url": "http://example.org", "headers": {"A": {"b": 1}}})),
        ("http", json!({"url": "http://example.org", "expect": 99})),
        ("http", json!({"url": "http://example.org", "expect": 600})),
        ("http", json!({"url": "http://example.org", "expect": []})),
        ("http", json!({"url": "http://example.org", "max_response_bytes": -1})),
        ("http", json!({"url": "http://example.org", "text": 1})),
        ("http", json!({"url": "http://example.org", "body": "x"})),
    ]
}

#[tokio::test]
async fn a_schema_and_the_engine_are_of_one_mind() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    for (wanted, inputs) in [(true, good()), (false, bad())] {
        for (kind, input) in inputs {
            let schema = schema(kind);
            assert_eq!(accepts(&engine, kind, &input), wanted, "the engine, {kind}: {input}");
            assert_eq!(is_valid(&schema, &schema, &input), wanted, "the schema, {kind}: {input}");
        }
    }
}

#[tokio::test]
async fn every_kind_that_comes_with_the_engine_has_a_schema_with_examples() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let names: Vec<_> = engine.kinds().into_iter().map(|kind| kind.name).collect();
    assert_eq!(names, SCHEMAS.map(|(name, _)| name));
    for kind in names {
        let schema = schema(&kind);
        let examples = list(&schema["examples"]);
        assert!(!examples.is_empty());
        for input in examples {
            assert!(accepts(&engine, &kind, input), "{kind}: {input}");
            assert!(is_valid(&schema, &schema, input), "{kind}: {input}");
        }
    }
}

/// A field that the engine takes and the schema does not name would be refused by clients that
/// check before they send.
#[tokio::test]
async fn a_schema_names_the_fields_that_the_engine_knows() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    for kind in ["http", "shell", "sleep", "wait"] {
        let input = json!({"a stranger to all of them": 1});
        let plan = json!({"name": "x", "tasks": [{"id": "a", "kind": kind, "input": input}]});
        let plan = Plan::from_json(&plan.to_string(), &Limits::default()).unwrap();
        let errors = engine.check(&plan).unwrap_err().to_string();
        let known = errors.split_once("known are: ").expect("it lists them").1;
        let known = known.split([')', '\n']).next().unwrap_or_default();
        let mut known: Vec<_> = known.split(", ").map(str::trim).collect();
        known.sort_unstable();
        let schema = schema(kind);
        let named: Vec<_> = members(&schema["properties"]).map(|(name, _)| name).collect();
        assert_eq!(named, known, "{kind}");
    }
}
