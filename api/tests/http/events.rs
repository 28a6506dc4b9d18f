//! What has happened, in pages and as it happens: each event once, in order, to the end.

use annals_engine::job::{Command, JobStatus, PauseMode};
use annals_engine::log::MemoryDisk;
use annals_engine::{Ask, JobHandle};
use serde_json::{Value, json};

use crate::face::ask;
use crate::live::{Frame, Live, Reader, stream_of, within};

const CHAIN: &str = r#"{"id": "a", "kind": "noop"}, {"id": "b", "kind": "noop"}"#;

fn path(job: &JobHandle) -> String {
    format!("/api/v1/jobs/{}/events", job.id())
}

/// The events of a job as the log has them: numbers, types and hashes.
async fn logged(job: &JobHandle) -> Vec<(u64, String, String)> {
    let events = within(job.history(0, usize::MAX)).await.unwrap();
    let hex = |hash: [u8; 32]| hash.map(|byte| format!("{byte:02x}")).concat();
    let each = events.into_iter();
    each.map(|logged| {
        (logged.recorded.seq, logged.recorded.event.type_name().into(), hex(logged.hash))
    })
    .collect()
}

/// The same of frames.
fn streamed(frames: &[Frame]) -> Vec<(u64, String, String)> {
    let events = frames.iter().filter(|frame| frame.id.is_some());
    events
        .map(|frame| {
            let event = frame.json();
            assert_eq!(
                (event["seq"].as_u64(), event["type"].as_str()),
                (Some(frame.number()), Some(&*frame.event))
            );
            (frame.number(), frame.event.clone(), event["hash"].as_str().unwrap().into())
        })
        .collect()
}

/// Makes sure that a stream has ended as a job's does.
fn ends(frames: &[Frame], job: &JobHandle, status: JobStatus, seq: u64) {
    let (last, others) = frames.split_last().expect("frames");
    assert_eq!((last.event.as_str(), &last.id), ("end", &None));
    let id = job.id().to_string();
    assert_eq!(last.json(), json!({"job_id": id, "status": status.as_str(), "seq": seq}));
    assert!(others.iter().all(|frame| frame.id.is_some()), "only events have ids");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_the_history_in_its_order() {
    let live = Live::new().await;
    let job = live.done(r#"{"id": "c", "kind": "count", "input": 30}"#).await;
    let all = logged(&job).await;
    for limit in [1, 7, 1_000] {
        let (mut seen, mut next) = (Vec::new(), Some("0".to_owned()));
        while let Some(after) = next {
            let answer = live.get(&format!("{}?limit={limit}&after={after}", path(&job))).await;
            assert_eq!(
                (answer.status.as_u16(), answer.header("cache-control")),
                (200, Some("no-cache"))
            );
            let page = answer.json();
            let items = page["items"].as_array().unwrap();
            assert!((1..=limit).contains(&items.len()));
            seen.extend(items.iter().map(|event| {
                let text = |name| event[name].as_str().unwrap().to_owned();
                (event["seq"].as_u64().unwrap(), text("type"), text("hash"))
            }));
            next = page["next_cursor"].as_str().map(str::to_owned);
            let link =
                next.as_ref().map(|next| format!("<?limit={limit}&after={next}>; rel=\"next\""));
            assert_eq!(answer.header("link"), link.as_deref());
        }
        assert_eq!(seen, all, "{limit}");
    }
    let first = live.get(&path(&job)).await.json()["items"][0].clone();
    assert_eq!((&first["type"], &first["actor"]), (&"JobSubmitted".into(), &"tester".into()));
    assert!(first.get("job_id").is_none());
    let beyond = live.get(&format!("{}?after=99999", path(&job))).await.json();
    assert_eq!(beyond, json!({"items": []}));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_asked_for_is_refused() {
    let live = Live::new().await;
    let job = live.done(CHAIN).await;
    let events = path(&job);
    for query in ["after=-1", "after=x", "limit=0", "limit=1001", "after=1&after=2", "from=1"] {
        live.get(&format!("{events}?{query}")).await.problem(400, "bad_query");
    }
    let nobody = "/api/v1/jobs/0197f0c2-7b3e-7c11-9f0e-1d2c3b4a5968/events";
    live.get(nobody).await.problem(404, "no_such_job");
    live.answer(stream_of(nobody, None)).await.problem(404, "no_such_job");
    for id in ["x", "-1", "1.5", "18446744073709551616", "1 2"] {
        live.answer(stream_of(&events, Some(id))).await.problem(400, "bad_header");
        live.answer(stream_of("/api/v1/events", Some(id))).await.problem(400, "bad_header");
    }
    live.answer(stream_of(&format!("{events}?limit=5"), None)).await.problem(400, "bad_query");
    // Whoever asks for a page has no last frame.
    let page = crate::face::with(ask("GET", &events), "last-event-id", "x");
    assert_eq!(live.answer(page).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_the_log_from_any_id_on() {
    let live = Live::new().await;
    let job = live.done(r#"{"id": "c", "kind": "count", "input": 300}"#).await;
    let all = logged(&job).await;
    let head = all.len() as u64;
    let mut follower = live.follow(&path(&job), None).await;
    let frames = follower.rest().await;
    assert!(streamed(&frames) == all, "{} frames", frames.len());
    ends(&frames, &job, JobStatus::Completed, head);
    assert_eq!(follower.reader.retry.as_deref(), Some("1000"));
    assert_eq!(follower.reader.last, Some(head.to_string()));
    for (after, last, from) in [
        ("?after=290", None, 290),
        ("?after=290", Some("5"), 5),
        ("?after=0", Some("0"), 0),
        ("", Some("128"), 128),
        ("", Some(""), 0),
        ("?after=7", Some(""), 7),
    ] {
        let frames = live.follow(&format!("{}{after}", path(&job)), last).await.rest().await;
        assert!(streamed(&frames) == all[from..], "{after} {last:?}");
    }
    // Whoever has seen the end is not to come again; whoever asks for it anew is told once more.
    for id in [head.to_string(), u64::MAX.to_string()] {
        let answer = live.answer(stream_of(&path(&job), Some(&id))).await;
        assert_eq!((answer.status.as_u16(), answer.text.as_str()), (204, ""));
    }
    for after in [head, u64::MAX] {
        let frames = live.follow(&format!("{}?after={after}", path(&job)), None).await.rest().await;
        assert_eq!(frames.len(), 1);
        ends(&frames, &job, JobStatus::Completed, head);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_byte_a_proxy_cuts_at_the_whole_is_the_log() {
    let live = Live::new().await;
    let job = live.submit(r#"{"id": "c", "kind": "count", "input": 1000}"#).await;
    for seed in 0..6 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut seen, mut last, mut cuts) = (Vec::<Frame>::new(), None::<String>, 0);
        loop {
            let mut follower = live.follow(&path(&job), last.as_deref()).await;
            let most = random.usize(1..40_000);
            let is_over = follower.take_bytes(most).await;
            while let Some(frame) = follower.reader.next() {
                seen.push(frame);
            }
            last = follower.reader.last.or(last);
            if seen.last().is_some_and(|frame| frame.event == "end") {
                break;
            }
            assert!(!is_over, "a stream that is not cut goes to the end");
            cuts += 1;
        }
        let all = logged(&job).await;
        assert!(all.len() > 1_000 && cuts > 3, "{} events, {cuts} cuts", all.len());
        assert!(streamed(&seen) == all, "seed {seed}");
        ends(&seen, &job, JobStatus::Completed, all.len() as u64);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_come_when_they_happen_and_the_end_waits_for_the_last() {
    let live = Live::new().await;
    let job = live.submit(r#"{"id": "g", "kind": "gate"}"#).await;
    let mut follower = live.follow(&path(&job), None).await;
    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.push(follower.next().await.unwrap());
    }
    let names: Vec<&str> = seen.iter().map(|frame| frame.event.as_str()).collect();
    assert_eq!(names, ["JobSubmitted", "JobStarted", "AttemptStarted"]);
    assert_eq!(seen[2].json()["data"]["task"], "g");
    let command = |command| job.command(command, Ask::default());
    within(command(Command::Pause { mode: PauseMode::Drain })).await.unwrap();
    assert_eq!(follower.next().await.unwrap().event, "PauseRequested");
    within(command(Command::Resume)).await.unwrap();
    assert_eq!(follower.next().await.unwrap().event, "JobResumed");
    live.open_gate();
    let rest = follower.rest().await;
    let names: Vec<&str> = rest.iter().map(|frame| frame.event.as_str()).collect();
    assert_eq!(names, ["TaskCompleted", "JobCompleted", "end"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_ahead_waits_for_more_or_for_the_end() {
    let live = Live::new().await;
    let job = live.submit(r#"{"id": "g", "kind": "gate"}, {"id": "n", "kind": "noop"}"#).await;
    let seq = |snapshot: &annals_engine::runtime::Snapshot| snapshot.job.seq();
    let mut now = within(job.snapshot()).await.unwrap();
    while now.job.live().count() == 0 {
        within(job.changed(seq(&now))).await.unwrap();
        now = within(job.snapshot()).await.unwrap();
    }
    let head = seq(&now);
    let mut near = live.follow(&path(&job), Some(&(head + 2).to_string())).await;
    let mut far = live.follow(&path(&job), Some(&u64::MAX.to_string())).await;
    live.open_gate();
    let end = within(job.ended()).await.unwrap().job.seq();
    let frames = near.rest().await;
    assert_eq!(streamed(&frames), logged(&job).await[usize::try_from(head).unwrap() + 2..]);
    ends(&frames, &job, JobStatus::Completed, end);
    let frames = far.rest().await;
    assert_eq!(frames.len(), 1);
    ends(&frames, &job, JobStatus::Completed, end);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_opened_again_has_another_end() {
    let live = Live::new().await;
    let job = live.done(r#"{"id": "f", "kind": "fragile"}"#).await;
    let mut first = live.follow(&path(&job), None).await;
    let frames = first.rest().await;
    let failed = within(job.snapshot()).await.unwrap().job;
    ends(&frames, &job, JobStatus::Failed, failed.seq());
    within(job.command(Command::Execute { paused: false }, Ask::default())).await.unwrap();
    let end = within(job.ended()).await.unwrap().job;
    let more = live.follow(&path(&job), first.reader.last.as_deref()).await.rest().await;
    ends(&more, &job, JobStatus::Completed, end.seq());
    let all = [frames, more].concat();
    assert_eq!(streamed(&all), logged(&job).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_interrupts_its_streams_and_the_next_one_goes_on() {
    let mut live = Live::new().await;
    let job =
        live.submit(r#"{"id": "c", "kind": "count", "input": 40}, {"id": "g", "kind": "gate"}"#);
    let id = job.await.id();
    let (mut seen, mut last) = (Vec::new(), None::<String>);
    for _ in 0..3 {
        let job = live.engine.job(id);
        let mut follower = live.follow(&path(&job), last.as_deref()).await;
        let mut whole = live.follow("/api/v1/events", None).await;
        // The shutdown and the start before have made at least one.
        seen.extend(follower.next().await);
        live.state.ending().cancel();
        let rest = follower.rest().await;
        assert!(rest.iter().all(|frame| frame.event != "end"), "it has not ended");
        assert!(whole.rest().await.iter().all(|frame| frame.id.is_some()));
        seen.extend(rest);
        last = follower.reader.last;
        live = live.restarted().await;
    }
    live.open_gate();
    let job = live.engine.job(id);
    seen.extend(live.follow(&path(&job), last.as_deref()).await.rest().await);
    let end = within(job.ended()).await.unwrap().job;
    assert_eq!(streamed(&seen), logged(&job).await);
    ends(&seen, &job, JobStatus::Completed, end.seq());
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_do_not_read_slow_nobody_and_miss_nothing() {
    let live = Live::new().await;
    let job = live.submit(r#"{"id": "c", "kind": "count", "input": 400}"#).await;
    let mut slow = Vec::new();
    for _ in 0..200 {
        let mut follower = live.follow(&path(&job), None).await;
        // The beginning, and then nothing more for as long as anything happens.
        let first = follower.next().await;
        slow.push((follower, first));
    }
    let frames = live.follow(&path(&job), None).await.rest().await;
    let end = within(job.ended()).await.unwrap().job;
    ends(&frames, &job, JobStatus::Completed, end.seq());
    let other = live.done(CHAIN).await;
    assert_eq!(live.get(&path(&other)).await.status, 200);
    let all = logged(&job).await;
    for (mut follower, first) in slow {
        let frames: Vec<Frame> = first.into_iter().chain(follower.rest().await).collect();
        assert!(streamed(&frames) == all, "{} frames", frames.len());
        ends(&frames, &job, JobStatus::Completed, end.seq());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_larger_than_a_page_comes_whole() {
    let live = Live::new().await;
    let text = "line\r\n\u{2028} ".repeat(60_000);
    let tasks = (0..4).map(|number| {
        json!({"id": format!("t{number}"), "kind": "gate", "input": {"text": text}}).to_string()
    });
    live.open_gate();
    let job = live.done(&tasks.collect::<Vec<_>>().join(",")).await;
    let frames = live.follow(&path(&job), None).await.rest().await;
    assert_eq!(streamed(&frames), logged(&job).await);
    let outputs = frames.iter().filter(|frame| frame.event == "TaskCompleted");
    assert!(outputs.into_iter().all(|frame| frame.json()["data"]["output"]["text"] == *text));
    // A page of JSON is cut by its size, and says so.
    let page = live.get(&path(&job)).await.json();
    assert!(page["items"].as_array().unwrap().len() < frames.len());
    assert!(page["next_cursor"].is_string());
}

/// How much memory this process takes, in bytes.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * rustix::param::page_size()
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_do_not_take_a_large_event_hold_one_text_of_it() {
    const EACH: usize = (2 << 20) - 100;
    let live = Live::new().await;
    let task = json!({"id": "n", "kind": "noop", "input": {"text": "x".repeat(EACH)}}).to_string();
    let job = live.done(&task).await;
    let whole = live.follow(&path(&job), None).await.rest().await;
    let before = resident();
    let mut slow = Vec::new();
    for _ in 0..100 {
        let mut follower = live.follow(&path(&job), None).await;
        // The first part of the first event.
        follower.chunk().await;
        slow.push(follower);
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 40 * EACH, "{grown} bytes more, of 100 times {EACH} or more");
    for mut follower in slow {
        assert!(follower.rest().await == whole);
    }
}

fn positions(items: &[Value]) -> Vec<u64> {
    items.iter().map(|event| event["position"].as_u64().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_log_has_the_events_of_all_jobs_in_order() {
    let live = Live::new().await;
    let jobs = [live.done(CHAIN).await, live.done(CHAIN).await, live.done(CHAIN).await];
    let mut items: Vec<Value> = Vec::new();
    loop {
        let after = items.last().map_or(0, |event| event["position"].as_u64().unwrap());
        let page = live.get(&format!("/api/v1/events?limit=7&after={after}")).await.json();
        items.extend(page["items"].as_array().unwrap().iter().cloned());
        if page.get("next_cursor").is_none() {
            break;
        }
        assert_eq!(page["next_cursor"], items.last().unwrap()["position"].to_string());
    }
    assert!(positions(&items).is_sorted_by(|a, b| a < b));
    for job in &jobs {
        let id = job.id().to_string();
        let its: Vec<&Value> = items.iter().filter(|event| event["job_id"] == *id).collect();
        let all = live.get(&path(job)).await.json();
        let all = all["items"].as_array().unwrap();
        assert_eq!(its.len(), all.len());
        for (event, alone) in its.into_iter().zip(all) {
            let mut event = event.clone();
            event.as_object_mut().unwrap().remove("job_id");
            assert_eq!(event, *alone);
        }
    }
    // As a stream: from anywhere, also from the middle of a row, and on with what comes.
    let middle = items[5]["position"].as_u64().unwrap();
    let mut follower = live.follow("/api/v1/events?after=1", Some(&middle.to_string())).await;
    let more = live.done(CHAIN).await;
    let end = within(more.history(0, 100)).await.unwrap().last().unwrap().position.0;
    let mut seen = Vec::new();
    while seen.last() != Some(&end) {
        let frame = follower.next().await.unwrap();
        assert_eq!(frame.json()["position"], frame.number());
        assert_eq!(frame.json()["type"], *frame.event);
        seen.push(frame.number());
    }
    let page = live.get(&format!("/api/v1/events?limit=1000&after={middle}")).await.json();
    assert_eq!(seen, positions(page["items"].as_array().unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_is_told_before_a_stream_is_promised_and_hides_nothing_else() {
    let disk = MemoryDisk::new();
    let live = Live::in_memory(&disk).await;
    let job = live.done(CHAIN).await;
    let good = live.done(CHAIN).await;
    let place = within(job.history(0, 1)).await.unwrap()[0].position;
    disk.damage(place, |bytes| *bytes.last_mut().unwrap() ^= 1);
    // The whole log goes on behind it.
    let page = live.get("/api/v1/events?limit=1000").await.with_status(200);
    assert_eq!(page["damaged"][0]["from"], place.0, "{page}");
    let mut reader = live.follow("/api/v1/events", None).await;
    let told = reader.next().await.unwrap();
    assert_eq!((&*told.event, told.id.as_deref()), ("damage", None));
    assert_eq!(told.json(), page["damaged"][0]);
    let mut seen = Vec::new();
    for _ in page["items"].as_array().unwrap() {
        seen.push(reader.next().await.unwrap().number());
    }
    assert_eq!(seen, positions(page["items"].as_array().unwrap()));
    for request in [ask("GET", &path(&job)), stream_of(&path(&job), None)] {
        let answer = live.answer(request).await;
        assert!(matches!(answer.status.as_u16(), 500 | 503), "{}", answer.text);
    }
    let frames = live.follow(&path(&good), None).await.rest().await;
    assert_eq!(streamed(&frames), logged(&good).await);
}

#[test]
fn the_reader_of_these_tests_reads_as_browsers_do() {
    let mut reader = Reader::default();
    reader.take(b"retry: 5\n\n:\n\nid: 1\nevent: a\ndata: x\ndata:y\n\nid: 2\ndata: cut");
    let frame = reader.next().unwrap();
    assert_eq!((frame.id.as_deref(), &*frame.event, &*frame.data), (Some("1"), "a", "x\ny"));
    assert_eq!((reader.next(), reader.last.as_deref()), (None, Some("1")));
}
