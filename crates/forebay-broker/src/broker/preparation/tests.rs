//! Requests for a change while others are under way.

use forebay_jit::{Backend, Isa, Options};

use super::*;
use crate::control::Request;

type Done = mpsc::Sender<Result<Prepared, String>>;

/// A preparation that was begun that long ago, and what it waits for.
fn preparation(age: Duration, requests: Vec<ControlRequest>) -> (Done, Preparation) {
    let (done, prepared) = mpsc::channel();
    let begun = Instant::now().checked_sub(age).unwrap();
    let cancel = Cancel::default();
    (done, Preparation { cancel, prepared, thread: None, requests, begun, is_late: false })
}

/// Begins with what is asked for, of a file that is not there.
fn begin(reloads: &mut Reloads) -> Begun {
    let filters = Options::new(Backend::Auto, None).unwrap();
    let options = CodeOptions { filters, isa: Isa::Scalar };
    reloads.begin(PathBuf::from("/no/such/file"), options, 1 << 30, InUse::default())
}

/// What is said of the next that is ready.
fn next(reloads: &mut Reloads) -> String {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        assert!(Instant::now() < end, "nothing is ready");
        match reloads.prepared() {
            Some((prepared, _)) => return prepared.err().unwrap(),
            None => thread::yield_now(),
        }
    }
}

#[test]
fn one_that_is_late_keeps_nobody_waiting_and_comes_in_when_it_ends() {
    let (request, _answer) = ControlRequest::new(Request::Reload);
    let (done, late) = preparation(LONG, vec![request]);
    let mut reloads = Reloads { under_way: Some(late), ..Reloads::default() };
    let (told, requests) = reloads.prepared().unwrap();
    assert_eq!((told.err().unwrap().as_str(), requests.len()), (LATE, 1));
    assert!(reloads.prepared().is_none(), "once");
    assert!(matches!(begin(&mut reloads), Begun::Nothing), "nobody asks");
    done.send(Err("of the late one".to_owned())).unwrap();
    assert_eq!(next(&mut reloads), "of the late one");
    assert!(reloads.prepared().is_none());
}

#[test]
fn one_is_cancelled_by_the_next_and_who_waited_gets_that() {
    let (request, _answer) = ControlRequest::new(Request::Reload);
    let (done, last) = preparation(Duration::ZERO, vec![request]);
    let cancel = last.cancel.clone();
    let mut reloads = Reloads { under_way: Some(last), ..Reloads::default() };
    let (request, _answer) = ControlRequest::new(Request::Reload);
    reloads.ask(Some(request));
    assert!(matches!(begin(&mut reloads), Begun::Another) && cancel.is_cancelled());
    assert!(done.send(Err("of the first".to_owned())).is_err(), "nobody takes it");
    assert_eq!(reloads.under_way.as_ref().unwrap().requests.len(), 2);
    let told = next(&mut reloads);
    assert!(told.contains("/no/such/file"), "{told}");
}

#[test]
fn sixteen_wait_for_a_change_and_further_ones_are_refused() {
    let mut reloads = Reloads::default();
    let ask = |reloads: &mut Reloads| {
        let (request, answer) = ControlRequest::new(Request::Reload);
        reloads.ask(Some(request));
        answer
    };
    let is_refused = |answer: &mpsc::Receiver<Answer>| matches!(answer.try_recv(), Ok(Answer::Refused(why)) if why == OTHERS_WAIT);
    let waiting: Vec<_> = (0..16).map(|_| ask(&mut reloads)).collect();
    assert!(is_refused(&ask(&mut reloads)));
    // Also with those who wait for what is being prepared.
    assert!(matches!(begin(&mut reloads), Begun::Another));
    assert!(is_refused(&ask(&mut reloads)));
    assert_eq!(reloads.under_way.as_ref().unwrap().requests.len(), 16);
    assert!(waiting.iter().all(|answer| answer.try_recv().is_err()));
}

#[test]
fn the_end_cancels_what_is_under_way() {
    let (_done, last) = preparation(Duration::ZERO, Vec::new());
    let cancel = last.cancel.clone();
    drop(Reloads { under_way: Some(last), ..Reloads::default() });
    assert!(cancel.is_cancelled());
}

#[test]
fn requests_without_a_pause_do_not_keep_a_change_from_its_end() {
    let (_done, first) = preparation(Duration::ZERO, Vec::new());
    let mut reloads = Reloads { under_way: Some(first), ..Reloads::default() };
    let mut kept = Vec::new();
    for _ in 0..MOST_CANCELLED {
        reloads.ask(None);
        assert!(matches!(begin(&mut reloads), Begun::Another));
        let (done, slow) = preparation(Duration::ZERO, Vec::new());
        reloads.under_way = Some(slow);
        kept.push(done);
    }
    reloads.ask(None);
    assert!(matches!(begin(&mut reloads), Begun::Nothing));
    let last = reloads.under_way.as_ref().unwrap();
    assert!(!last.cancel.is_cancelled());
    kept.pop().unwrap().send(Err("its end".to_owned())).unwrap();
    assert_eq!(next(&mut reloads), "its end");
    // What was asked for in the meantime comes then.
    assert!(matches!(begin(&mut reloads), Begun::Another));
}

#[test]
fn not_any_number_of_them_may_hang() {
    let mut reloads = Reloads::default();
    let mut hanging = Vec::new();
    for late in 0..=MOST_OVERTAKEN {
        if late > 0 {
            reloads.ask(None);
            assert!(matches!(begin(&mut reloads), Begun::Another));
        }
        let (_, mut last) = preparation(LONG, Vec::new());
        let (release, hangs) = mpsc::channel::<()>();
        last.thread = Some(thread::spawn(move || {
            let _ = hangs.recv();
        }));
        last.is_late = true;
        reloads.under_way = Some(last);
        hanging.push(release);
    }
    let (request, _answer) = ControlRequest::new(Request::Reload);
    reloads.ask(Some(request));
    match begin(&mut reloads) {
        Begun::TooMany(requests) => assert_eq!(requests.len(), 1),
        _ => panic!("another thread that hangs"),
    }
    // One that ends makes room.
    drop(hanging.remove(0));
    let end = Instant::now() + Duration::from_secs(20);
    while !reloads.overtaken[0].is_finished() {
        assert!(Instant::now() < end, "it does not end");
        thread::yield_now();
    }
    reloads.ask(None);
    assert!(matches!(begin(&mut reloads), Begun::Another));
}
