//! `kill -9` at any moment, of the real binary on a real store: in its start, amid a step, in
//! recovery. What has completed stays, what was alive is a numbered loss, and the next start
//! goes on.

mod common;

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use annals_engine::log::{self, EventLog, Options, Position, RedbLog};
use common::{Place, finish, signal, until};
use fastrand::Rng;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// How many times a run of steps is killed in all.
const KILLS: usize = 50;
/// How many first starts are killed.
const FIRST_STARTS: u64 = 100;
const STEPS: usize = 12;
/// More kills in a row than the engine bears without suspecting the task would be its own topic.
const EARLY_IN_A_ROW_MAX: u32 = 3;

/// Says that it starts, unless something of another attempt is alive, which it reports; leaves
/// processes behind, below it and in sessions of their own; says that it ends.
const SCRIPT: &str = r#"
for file in $(grep -alz "^KILL_TEST=$KILL_TEST" /proc/[0-9]*/environ 2>/dev/null || true); do
    env=$(tr '\0' '\n' < $file 2>/dev/null) || continue
    case "$env" in
        *"ANNALS_OUTPUT=$ANNALS_OUTPUT"*) ;;
        *"KILL_TEST=$KILL_TEST"*) echo "$ANNALS_TASK $ANNALS_ATTEMPT $file" >> $DIR/leftovers ;;
    esac
done
echo "$ANNALS_JOB start $ANNALS_TASK $ANNALS_ATTEMPT" >> $DIR/marks
if [ $BREEDS = true ]; then
    sleep 300 &
    setsid sleep 300 &
    (setsid sh -c 'trap "" TERM HUP; sleep 300 & wait' &)
fi
sleep 0.03
echo "$ANNALS_JOB end $ANNALS_TASK $ANNALS_ATTEMPT" >> $DIR/marks
"#;

/// Without this, that nothing was left over could mean that nobody looked.
#[test]
fn the_steps_see_what_is_left_over() {
    let house = House::new();
    let mut decoy = Command::new("sleep");
    decoy.arg("300").env("KILL_TEST", &house.mark).env("ANNALS_OUTPUT", "of another attempt");
    let mut decoy = decoy.spawn().unwrap();
    until("the decoy to bear its mark", || bearing("KILL_TEST", &house.mark).len() == 1);
    house.place.annals(&["run", "plan.json"]).expect(0);
    decoy.kill().unwrap();
    decoy.wait().unwrap();
    let seen = house.place.read("leftovers");
    let file = format!("/proc/{}/environ", decoy.id());
    assert_eq!(seen.lines().filter(|line| line.ends_with(&file)).count(), STEPS, "{seen}");
}

#[test]
fn killed_runs_go_on_until_the_plan_is_done() {
    let mut house = House::new();
    let mut rng = Rng::with_seed(0x00a2_2a15);
    let mut kills = 0;
    while kills < KILLS {
        kills += usize::from(house.run_and_kill(&mut rng));
    }
    house.place.annals(&["run", "plan.json"]).expect(0);
    assert_eq!(house.place.read("leftovers"), "", "an attempt began beside what another left");
    until("what is marked to be gone", || bearing("KILL_TEST", &house.mark).is_empty());
    let jobs = house.jobs();
    let lost: usize = jobs.iter().map(|id| house.check(id)).sum();
    println!("{kills} kills, {} jobs, {lost} lost attempts", jobs.len());
    assert!(lost > KILLS / 4, "kills that hit no attempt prove little: {lost}");
    assert!(lost <= KILLS);
    let report = house.place.json(&["verify"]);
    assert_eq!(report["sound"], true, "{report}");
}

/// Runs of a plan of steps, and what they leave in a folder.
struct House {
    place: Place,
    mark: String,
    early_in_a_row: u32,
}

impl House {
    fn new() -> Self {
        let place = Place::new();
        let mark = format!("kill-{}", place.path("").display());
        let task = |number: usize| {
            let env = json!({
                "DIR": place.path(""),
                "KILL_TEST": mark,
                "BREEDS": number.is_multiple_of(3),
            });
            let input = json!({"script": SCRIPT, "env": env});
            json!({"id": step(number), "kind": "shell", "input": input})
        };
        let tasks: Vec<Value> = (0..STEPS).map(task).collect();
        place.write("plan.json", json!({"name": "kills", "tasks": tasks}).to_string());
        Self { place, mark, early_in_a_row: 0 }
    }

    /// Starts a run and kills it at some moment; whether it was still there to be killed.
    fn run_and_kill(&mut self, rng: &mut Rng) -> bool {
        let before = self.last_begun();
        let mut run = self.place.command(&["run", "plan.json"]);
        // The supervisors of attempts inherit this, and the attempts do not.
        run.env("KILL_TEST_RUN", &self.mark);
        let mut run = run.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let early = self.early_in_a_row < EARLY_IN_A_ROW_MAX && rng.u8(..3) == 0;
        if early {
            self.early_in_a_row += 1;
            // While it starts, opens the store, recovers it, or ends leftovers.
            std::thread::sleep(Duration::from_micros(rng.u64(..250_000)));
        } else {
            self.early_in_a_row = 0;
            // Amid the steps: some way behind the first that has completed.
            while self.last_begun() == before && run.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_micros(rng.u64(..90_000)));
        }
        if rng.u8(..4) == 0 && run.try_wait().unwrap().is_none() {
            self.kill_supervisors(&run);
        }
        kill(run)
    }

    /// The job and the step that were begun last; another one once that has completed.
    fn last_begun(&self) -> Option<String> {
        let marks = self.place.read("marks");
        let start = marks.lines().rev().find(|line| line.contains(" start "))?;
        start.rsplit_once(' ').map(|(step, _attempt)| step.to_owned())
    }

    /// Has the run leave its steps without supervisors, as if memory had run out for all of them:
    /// the next start alone can end what they have begun.
    fn kill_supervisors(&self, run: &Child) {
        // It must not live to see them go: that would be a crash of the step, and no loss.
        signal(run, Signal::STOP);
        let stat = format!("/proc/{}/stat", run.id());
        let stopped = |stat: &str| [") T ", ") Z "].iter().any(|state| stat.contains(state));
        until("the run to stop", || stopped(&std::fs::read_to_string(&stat).unwrap()));
        for process in bearing("KILL_TEST_RUN", &self.mark) {
            if process != run.id() {
                let pid = Pid::from_raw(process.cast_signed()).unwrap();
                // It may have ended by itself.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }

    /// The ids of all jobs. All of them are over, as their plan says.
    fn jobs(&self) -> Vec<String> {
        let list = self.place.json(&["list"]);
        let id = |job: &Value| {
            assert_eq!(job["status"], "completed", "{job}");
            job["id"].as_str().unwrap().to_owned()
        };
        list["items"].as_array().unwrap().iter().map(id).collect()
    }

    /// Checks a job, and says how many of its attempts were lost.
    fn check(&self, id: &str) -> usize {
        let marks = self.marks(id);
        let job = self.place.json(&["show", id]);
        let tasks = job["tasks"].as_array().unwrap();
        assert_eq!(tasks.len(), STEPS);
        let mut all_lost = 0;
        for task in tasks {
            let outcomes: Vec<&str> = task["attempts"]
                .as_array()
                .unwrap()
                .iter()
                .map(|attempt| attempt["outcome"].as_str().unwrap())
                .collect();
            let (end, lost) = outcomes.split_last().expect("each step has run");
            assert_eq!(*end, "completed", "{task}");
            assert!(lost.iter().all(|outcome| *outcome == "lost"), "{task}");
            all_lost += lost.len();
            let begun = &marks[task["id"].as_str().unwrap()];
            // The attempt that completed has begun, and others may have been killed before.
            assert_eq!(begun.last(), Some(&outcomes.len()), "{task}");
            assert!(begun.is_sorted_by(|a, b| a < b), "{begun:?}");
        }
        self.completed_once(id);
        all_lost
    }

    /// Which attempts of each step have begun. None did once a later step had.
    fn marks(&self, id: &str) -> BTreeMap<String, Vec<usize>> {
        let mut begun: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for line in self.place.read("marks").lines() {
            let [job, what, task, attempt] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{line:?} is no mark");
            };
            if job != id {
                continue;
            }
            let last = begun.last_key_value().map_or("", |(last, _)| last);
            assert!(task >= last, "{task} ran again after {last}");
            if what == "start" {
                begun.entry(task.into()).or_default().push(attempt.parse().unwrap());
            }
        }
        begun
    }

    /// The log holds one success of each step, and none of its attempts begins behind it.
    fn completed_once(&self, id: &str) {
        let events = self.place.annals(&["events", id, "--json"]).expect(0).stdout;
        let mut completed: BTreeMap<String, usize> = BTreeMap::new();
        for line in events.lines() {
            let event: Value = serde_json::from_str(line).unwrap();
            let task = event["data"]["task"].as_str().unwrap_or_default().to_owned();
            match event["type"].as_str().unwrap() {
                "TaskCompleted" => *completed.entry(task).or_default() += 1,
                "AttemptStarted" => assert!(!completed.contains_key(&task), "{event}"),
                _ => {}
            }
        }
        assert_eq!(completed, (0..STEPS).map(|number| (step(number), 1)).collect());
    }
}

fn step(number: usize) -> String {
    format!("step-{number:02}")
}

/// Kills a run; whether it was still there. One that was not must have succeeded.
fn kill(mut run: Child) -> bool {
    run.kill().unwrap();
    let answer = finish(run);
    if answer.code.is_some() {
        answer.expect(0);
        return false;
    }
    true
}

/// The processes that have this in their environment.
fn bearing(name: &str, value: &str) -> Vec<u32> {
    let wanted = format!("{name}={value}");
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let pid = entry.unwrap().file_name().to_str()?.parse().ok()?;
        // One that ends meanwhile is none.
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let bears = environment.split(|byte| *byte == 0).any(|found| found == wanted.as_bytes());
        bears.then_some(pid)
    });
    processes.collect()
}

/// The store is made, the job submitted and the first step begun within the first moments.
#[test]
fn a_killed_first_start_is_no_obstacle() {
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for lane in 0..2 {
            scope.spawn(move || (lane..FIRST_STARTS).step_by(2).for_each(first_start));
        }
    });
    println!("{FIRST_STARTS} first starts in {:?}", begun.elapsed());
}

fn first_start(seed: u64) {
    let place = Place::new();
    let tasks = json!([{"id": "a", "kind": "noop"}, {"id": "b", "kind": "noop"}]);
    place.write("plan.json", json!({"name": "first", "tasks": tasks}).to_string());
    let mut run = place.command(&["run", "plan.json"]);
    let run = run.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_micros(Rng::with_seed(seed).u64(..50_000)));
    let killed = kill(run);
    let second = place.start(&["run", "plan.json"]);
    let answer = finish(second);
    assert_eq!(answer.code, Some(0), "seed {seed}: {answer:?}");
    let (submitted, completed) = ends(&place);
    // A first start that had come to its end, or been killed behind it, has left a job of its own.
    assert!(submitted == 1 || submitted == 2, "seed {seed}, killed: {killed}: {submitted} jobs");
    assert_eq!(submitted, completed, "seed {seed}");
}

/// How many jobs a store has whose log is sound, and how many of them have completed.
fn ends(place: &Place) -> (usize, usize) {
    let options = Options { create: false, ..Options::default() };
    let log = RedbLog::open(&place.path("annals-data"), &options).unwrap();
    let reader = log.reader();
    let found = log::verify(&*reader).unwrap();
    assert!(found.damage.is_empty(), "{:?}", found.damage);
    let rows = reader.rows(Position(1), 1_000).unwrap();
    let events: Vec<_> = rows.iter().flat_map(|row| &row.events).collect();
    let count = |name| events.iter().filter(|event| event.event.type_name() == name).count();
    (count("JobSubmitted"), count("JobCompleted"))
}
