//! A store and the server that has it give the same answers.

use crate::common::Place;
use crate::common::server::Server;

/// A store with a job for every way to stand still, and what is asked of them.
fn store() -> (Place, Vec<Vec<String>>) {
    let place = Place::new();
    let plans = [
        (
            "name: fine\nlabels: {env: prod}\ninput: {n: 18446744073709551616}\n\
          tasks: [{id: a, title: Say it, kind: shell, input: {script: \"printf 'a\\\\377\\\\n'; \
          echo b >&2; printf c\"}}, {id: b, kind: noop}]\n",
            0,
        ),
        (
            "name: bad\ntasks: [{id: a, kind: shell, retry: {max_attempts: 2, backoff: {initial: \
          10ms}}, input: {script: \"echo first; echo last >&2; exit 3\"}}, {id: b, kind: noop}]\n",
            1,
        ),
        (
            "name: held\ntasks: [{id: a, kind: shell, on_failure: pause, input: {script: exit 1}}, \
          {id: nap, needs: [], kind: sleep, input: {for: 10ms}}]\n",
            4,
        ),
    ];
    let mut asked: Vec<Vec<String>> = Vec::new();
    let mut ask = |args: &[&str]| asked.push(args.iter().map(|arg| (*arg).to_owned()).collect());
    for (number, (plan, code)) in plans.into_iter().enumerate() {
        let file = format!("plan-{number}.yaml");
        place.write(&file, plan);
        place.annals(&["run", &file]).expect(code);
        let id = place.newest_id();
        ask(&["show", &id]);
        ask(&["show", &id[..30]]);
        ask(&["events", &id]);
        ask(&["events", &id, "--after", "2"]);
        past(&id, &mut ask);
        if code < 4 {
            // One that is paused may go on.
            ask(&["events", &id, "--follow"]);
            ask(&["explain", &id]);
        }
        ask(&["watch", &id]);
        for more in [&[][..], &["--tail", "1"], &["--stream", "stdout"], &["--attempt", "1"]] {
            ask(&[&["logs", &id, "a"], more].concat());
        }
        ask(&["pause", &id, "--dry-run"]);
        ask(&["skip", &id, "nobody"]);
        ask(&["remove", &id, "b", "--dry-run"]);
        ask(&["fork", &id, "--from-task", "nobody"]);
        ask(&["fork", &id, "--from-seq", "99"]);
    }
    place.write("plan.yaml", "name: new\nstart: manual\ntasks: [{id: a, kind: noop}]\n");
    place.annals(&["submit", "plan.yaml"]).expect(0);
    ask(&["show", &place.newest_id()]);
    for more in [
        &[][..],
        &["--limit", "2"],
        &["--status", "failed,paused"],
        &["--status", "failed", "--status", "completed"],
        &["--label", "env:prod"],
        &["--text", "EXIT CODE"],
        &["--workflow", "none"],
        &["--queue", "default"],
        &["--created-after", "2026-01-01T00:00:00Z"],
        &["--finished-before", "2000-01-01T00:00:00Z"],
        &["--created-after", "yesterday"],
        &["--status", "done"],
    ] {
        ask(&[&["list"], more].concat());
    }
    gone(&place, &mut ask);
    (place, asked)
}

/// What is asked of the past of a job.
fn past(id: &str, ask: &mut impl FnMut(&[&str])) {
    for when in [
        ["--at", "3"],
        ["--at", "99"],
        ["--at-time", "2001-01-01T00:00:00Z"],
        ["--at-time", "noon"],
    ] {
        ask(&[&["show", id], &when[..]].concat());
    }
    ask(&["replay", id]);
    ask(&["replay", id, "--after", "3"]);
    ask(&["verify", id]);
    for with in [&["2", "5"][..], &["2"], &["2", "99"], &[id], &[id, "2"]] {
        ask(&[&["diff", id], with].concat());
    }
}

/// A job that was purged, jobs that never were, and what is asked of them.
fn gone(place: &Place, ask: &mut impl FnMut(&[&str])) {
    place.write("gone.yaml", "name: gone\ntasks: [{id: a, kind: noop}]\n");
    place.annals(&["run", "gone.yaml"]).expect(0);
    let gone = place.newest_id();
    place.annals(&["purge", &gone, "--reason", "asked for"]).expect(0);
    for verb in ["show", "events", "replay", "verify", "explain", "watch", "execute", "purge"] {
        ask(&[verb, &gone]);
    }
    ask(&["purge", &gone, "--dry-run"]);
    ask(&["logs", &gone, "a"]);
    ask(&["show", "01890000-0000-7000-8000-000000000000"]);
    ask(&["show", "ffff"]);
    ask(&["show", "0"]);
}

/// What a dry run shows, without when it was and the id that each request to a server has.
fn undated(args: &[String], text: String) -> String {
    if !args.iter().any(|arg| arg == "--dry-run") {
        return text;
    }
    let Ok(mut json) = serde_json::from_str::<serde_json::Value>(&text) else { return text };
    for event in json["events"].as_array_mut().into_iter().flatten() {
        let event = event.as_object_mut().unwrap();
        event.remove("time").expect("an event has a time");
        event.remove("request_id");
    }
    json.to_string()
}

/// What people read of it, without what is to be typed next, which is not the same.
fn unhinted(text: &str) -> String {
    let hints = |line: &&str| !line.contains("`annals ") && !line.contains("  annals ");
    text.lines().filter(hints).flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn answers_are_the_same_byte_by_byte() {
    let (place, asked) = store();
    let all = |json: &[&str]| -> Vec<(Option<i32>, Vec<u8>, Vec<u8>)> {
        let each = asked.iter().map(|args| {
            let args: Vec<&str> =
                args.iter().map(String::as_str).chain(json.iter().copied()).collect();
            let output = place.command(&args).output().unwrap();
            (output.status.code(), output.stdout, output.stderr)
        });
        each.collect()
    };
    let (local, local_json) = (all(&[]), all(&["--json"]));
    let _server = Server::start(&place, &[]);
    let (remote, remote_json) = (all(&[]), all(&["--json"]));
    for (args, (here, there)) in asked.iter().zip(local_json.iter().zip(&remote_json)) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(here.0, there.0, "{args:?}: {} {}", text(&here.2), text(&there.2));
        assert_eq!(undated(args, text(&here.1)), undated(args, text(&there.1)), "{args:?}");
        assert_eq!(text(&here.2), text(&there.2), "{args:?}");
    }
    for (args, (here, there)) in asked.iter().zip(local.iter().zip(&remote)) {
        assert_eq!(here.0, there.0, "{args:?}");
        let is_log = args[0] == "logs";
        let text = |bytes: &[u8]| unhinted(&String::from_utf8_lossy(bytes));
        let same = if is_log { here.1 == there.1 } else { text(&here.1) == text(&there.1) };
        assert!(same, "{args:?}:\n{}\n{}", text(&here.1), text(&there.1));
        assert_eq!(text(&here.2), text(&there.2), "{args:?}");
    }
}

/// What the event log knows to have been written and the step log has no more.
#[test]
fn what_a_log_has_lost_is_told_in_the_same_words() {
    let place = Place::new();
    let script = "echo one; echo two; echo three";
    place.write(
        "p.yaml",
        format!("name: x\ntasks: [{{id: a, kind: shell, input: {{script: '{script}'}}}}]\n"),
    );
    place.annals(&["run", "p.yaml"]).expect(0);
    let id = place.newest_id();
    let file = place.path(&format!("annals-data/steps/{id}/1.1.log"));
    let whole = std::fs::read_to_string(&file).unwrap();
    let all = |args: &[&[&str]]| -> Vec<(Option<i32>, String, String)> {
        let answers = args.iter().map(|args| place.annals(&[&["logs", &id, "a"], *args].concat()));
        answers.map(|answer| (answer.code, answer.stdout, answer.stderr)).collect()
    };
    let ways: [&[&str]; 4] = [&[], &["--tail", "1"], &["--json"], &["--json", "--tail", "0"]];
    let (cut, _) = whole.split_at(whole.find('\n').unwrap() + 9);
    std::fs::write(&file, cut).unwrap();
    let damaged = all(&ways);
    let note = "one\n\n[10 bytes are missing here]\n";
    assert_eq!(damaged[0], (Some(0), note.to_owned(), String::new()));
    assert_eq!(damaged[1], damaged[0]);
    let (first, last) = damaged[2].1.split_once('\n').unwrap();
    assert!(first.contains("\"text\":\"one\""), "{first}");
    assert_eq!(last, "{\"missing_bytes\":10}\n");
    assert_eq!(damaged[3], (Some(0), last.to_owned(), String::new()));
    std::fs::remove_file(&file).unwrap();
    let gone = all(&ways);
    for (code, stdout, stderr) in &gone {
        assert_eq!((*code, stdout.as_str()), (Some(7), ""));
        assert!(stderr.contains("attempt 1 has written 14 bytes, and its log is gone"), "{stderr}");
    }
    let server = Server::start(&place, &[]);
    let told = |all: Vec<(Option<i32>, String, String)>| -> Vec<_> {
        // Only a server gives each request an id.
        let told = |(code, stdout, stderr): (_, String, String)| {
            (code, stdout, stderr.contains("and its log is gone"))
        };
        all.into_iter().map(told).collect()
    };
    assert_eq!(told(all(&ways)), told(gone));
    std::fs::write(&file, cut).unwrap();
    assert_eq!(all(&ways), damaged);
    server.end();
}
