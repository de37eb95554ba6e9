//! A broker as a process of a test, and what it says.

#![allow(dead_code, reason = "each test that includes this module uses its own part of it")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use serde_json::Value;

use super::command::{command, run};
use super::namespace::wait_for;

/// A process that is ended with the test.
pub struct Started {
    child: Option<Child>,
    said: Arc<Mutex<Vec<String>>>,
    listener: Option<JoinHandle<()>>,
}

impl Started {
    /// Starts a process whose standard output and error are kept.
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let (lines, stderr) = (Arc::clone(&said), child.stderr.take().unwrap());
        let listener = thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                lines.lock().unwrap().push(line);
            }
        });
        Self { child: Some(child), said, listener: Some(listener) }
    }

    /// As [`Started::start`], of one that receives from devices: returns when it does.
    pub fn listening(command: Command) -> Self {
        let started = Self::start(command);
        wait_for("it to listen", || started.said().contains("listening on"));
        started
    }

    /// Its process number.
    pub fn id(&self) -> i32 {
        self.child.as_ref().unwrap().id().cast_signed()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) {
        // SAFETY: a signal to a child that was not waited for yet.
        assert_eq!(unsafe { libc::kill(self.id(), signal) }, 0);
    }

    /// What it has said on standard error.
    pub fn said(&self) -> String {
        self.said.lock().unwrap().join("\n")
    }

    /// Waits until it has ended; gives its exit status and standard output.
    pub fn output(&mut self) -> (Option<i32>, Vec<u8>) {
        let output = self.child.take().unwrap().wait_with_output().unwrap();
        self.listener.take().unwrap().join().unwrap();
        (output.status.code(), output.stdout)
    }

    /// What it said in the end, as JSON. It must have ended well.
    pub fn ended(self) -> Value {
        self.ended_with_notices().0
    }

    /// As [`Started::ended`], and all that it has said on standard error. Notices come some time
    /// after what they are about, but all of them come before the end.
    pub fn ended_with_notices(mut self) -> (Value, String) {
        let (status, stdout) = self.output();
        let said = self.said();
        assert_eq!(status, Some(0), "{said}");
        let result = serde_json::from_slice(&stdout);
        (result.unwrap_or_else(|error| panic!("{error}: {said}")), said)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts a broker, and waits until it answers.
pub fn broker(config: &Path, socket: &Path) -> Started {
    broker_by(command(["run", "--json", "-c", config.to_str().unwrap()]), socket)
}

/// As [`broker`], by a command that starts one.
pub fn broker_by(command: Command, socket: &Path) -> Started {
    let mut broker = Started::start(command);
    wait_for("the broker", || {
        let ended = broker.child.as_mut().unwrap().try_wait().unwrap();
        assert!(ended.is_none(), "{}", broker.said());
        ask(socket, &["status"]).is_some()
    });
    broker
}

/// What the broker answers, if it does.
pub fn ask(socket: &Path, words: &[&str]) -> Option<Value> {
    let asked = ["ctl", "--json", "-s", socket.to_str().unwrap()];
    let ran = run(asked.iter().chain(words));
    (ran.status == 0).then(|| serde_json::from_slice(&ran.stdout).unwrap_or(Value::Null))
}

/// A number of an answer.
#[track_caller]
pub fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("no number `{key}` in {value}"))
}

/// Row `stage` of what a broker said.
#[track_caller]
pub fn row<'a>(said: &'a Value, stage: &str) -> &'a Value {
    let rows = said["ledger"].as_array().unwrap();
    rows.iter().find(|row| row["stage"] == stage).unwrap_or_else(|| panic!("no {stage}: {said}"))
}

/// Nothing was lost, doubled, late or torn, as a sink says, and the broker's account closes.
#[track_caller]
pub fn all_well(sent: u64, heard: &Value, said: &Value) {
    assert_eq!(number(heard, "received"), sent, "{heard}\n{said}");
    for wrong in ["lost", "duplicates", "reordered", "torn_flows", "lost_here"] {
        assert_eq!(number(heard, wrong), 0, "{wrong}: {heard}\n{said}");
    }
    assert_eq!(
        (&said["closes"], &said["errors"]),
        (&true.into(), &serde_json::json!([])),
        "{said}"
    );
}
