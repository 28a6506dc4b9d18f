//! Where somebody looks, and can be asked: on a terminal.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::common::{Place, signal};
use crate::failed;

const SIZE: Winsize = Winsize { ws_row: 40, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };

/// What whoever sits at a terminal does.
enum Hands<'a> {
    Still,
    /// Press Ctrl-C when there is this file.
    Interrupt(&'a Place, &'a str),
    /// Type this, before they are asked.
    Type(&'a str),
}

/// Runs a command on a terminal; gives its exit code and all that it wrote there.
fn on_a_terminal(mut command: Command, hands: &Hands<'_>) -> (i32, String) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let inside = OpenOptions::new().read(true).write(true).open(name).unwrap();
    tcsetwinsize(inside.as_fd(), SIZE).unwrap();
    if let Hands::Type(text) = hands {
        rustix::io::write(&terminal, text.as_bytes()).unwrap();
    }
    let end = || Stdio::from(inside.try_clone().unwrap());
    command.env("TERM", "xterm").stdin(end()).stdout(end()).stderr(end());
    let mut child = command.spawn().unwrap();
    // The command holds the stdio that it was given, and the terminal ends with the last of it.
    drop(command);
    drop(inside);
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // The end of a terminal is an error.
        let _ = File::from(terminal).read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    });
    if let Hands::Interrupt(place, marker) = hands {
        place.wait_for(marker);
        signal(&child, rustix::process::Signal::INT);
    }
    let code = child.wait().unwrap().code().unwrap();
    (code, reader.join().unwrap())
}

/// What a terminal shows in the end: lines that were not wiped out or written over.
fn staying(written: &str) -> Vec<String> {
    let lines = written.split('\n').map(|line| {
        let last = line.rsplit("\u{1b}[2K").next().unwrap_or_default();
        let last = last.trim_end_matches('\r').rsplit('\r').next().unwrap_or_default();
        strip(last)
    });
    lines.filter(|line| !line.trim().is_empty()).collect()
}

fn strip(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.map(|part| part.split_once(|c: char| c.is_alphabetic()));
    rest.fold(first, |line, part| line + part.map_or("", |(_, text)| text))
}

#[test]
fn what_runs_moves_and_what_is_over_stays() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "name: shown\ntasks:\n  - {id: quick, kind: noop}\n  \
         - {id: slow, kind: shell, input: {script: sleep 0.5}}\n",
    );
    let (code, written) = on_a_terminal(place.command(&["run", "plan.yaml"]), &Hands::Still);
    assert_eq!(code, 0, "{written}");
    assert!(written.contains("1 of 2 tasks"), "how far it is was shown: {written}");
    assert!(written.contains("\u{1b}[32mcompleted"), "in colours: {written}");
    let lines = staying(&written);
    let begins = |start: &str| lines.iter().filter(|line| line.contains(start)).count();
    assert_eq!(begins("quick            completed"), 1, "{lines:#?}");
    assert_eq!(begins("slow             completed"), 1, "{lines:#?}");
    assert_eq!(begins("running"), 0, "{lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with("completed: 2 of 2 tasks")), "{lines:#?}");
}

#[test]
fn no_color_leaves_the_movement_and_takes_the_colours() {
    let (place, id) = failed();
    let mut command = place.command(&["run", "--job", &id]);
    command.env("NO_COLOR", "1");
    let (code, written) = on_a_terminal(command, &Hands::Still);
    assert_eq!(code, 1, "{written}");
    assert!(written.contains("failed"), "{written}");
    let coloured = written.split("\u{1b}[").skip(1).any(|part| {
        let end = part.find(|c: char| c.is_alphabetic());
        end.is_some_and(|end| part[end..].starts_with('m') && end > 1)
    });
    assert!(!coloured, "{written:?}");
}

#[test]
fn ctrl_c_on_a_terminal_says_how_to_go_on() {
    let place = Place::new();
    let dir = place.path("").display().to_string();
    let task = format!("{{id: a, kind: shell, input: {{script: 'touch {dir}/runs; sleep 60'}}}}");
    place.write("plan.yaml", format!("name: long\ntasks: [{task}]\n"));
    let run = place.command(&["run", "plan.yaml"]);
    let (code, written) = on_a_terminal(run, &Hands::Interrupt(&place, "runs"));
    assert_eq!(code, 130, "{written}");
    let lines = staying(&written);
    assert!(lines.iter().any(|line| line.contains("go on:  annals run plan.yaml")), "{lines:#?}");
}

#[test]
fn many_jobs_are_not_cancelled_before_somebody_has_said_so() {
    let place = Place::new();
    place.write("plan.yaml", "name: new\nstart: manual\ntasks: [{id: a, kind: noop}]\n");
    place.annals(&["submit", "plan.yaml"]).expect(0);
    for (typed, status) in [("n\n", "pending"), ("\n", "pending"), ("y\n", "cancelled")] {
        let bulk = place.command(&["bulk", "cancel", "--all"]);
        let (code, written) = on_a_terminal(bulk, &Hands::Type(typed));
        assert_eq!(code, 0, "{written}");
        assert!(written.contains("cancel: 1 of 1 job would accept it. Go on? [y/N]"), "{written}");
        assert_eq!(place.newest()["status"], status, "{typed:?}: {written}");
    }
}
