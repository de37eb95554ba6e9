//! Clients that are idle, slow or many keep nobody else from being answered.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use forebay_broker::control::{Answer, AskError, ControlRequest, Request, Requests, Server, ask};
use forebay_broker::metrics;

/// Long enough for a machine that is busy; a client that was locked out would wait longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A thread that answers as a broker does, one request after another.
struct Broker {
    thread: Option<JoinHandle<()>>,
    ends: Arc<AtomicBool>,
}

impl Broker {
    /// Has `answer` answer all requests; those that it keeps are never answered.
    fn new(requests: Requests, mut answer: impl FnMut(ControlRequest) + Send + 'static) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&ends);
        let thread = thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                if let Some(request) = requests.next(Duration::from_millis(10)) {
                    answer(request);
                }
            }
        });
        Self { thread: Some(thread), ends }
    }

    fn that_answers(requests: Requests) -> Self {
        Self::new(requests, |request| request.answer(Answer::Done("well".into())))
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

/// What a server of metrics says to the bytes `request`.
fn get(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn metrics_of(requests: &Requests) -> SocketAddr {
    metrics::serve("127.0.0.1:0".parse().unwrap(), requests.sender()).unwrap()
}

const GET: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n";

#[test]
fn idle_connections_do_not_keep_metrics_from_others() {
    let requests = Requests::default();
    let address = metrics_of(&requests);
    let _broker = Broker::that_answers(requests);
    let mut idle: Vec<TcpStream> = Vec::new();
    for round in 0..3 {
        for _ in 0..100 {
            let mut stream = TcpStream::connect(address).unwrap();
            // Some say something, and no more.
            if idle.len().is_multiple_of(2) {
                stream.write_all(b"GET /metrics HT").unwrap();
            }
            idle.push(stream);
        }
        let page = get(address, GET);
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{round}: {page}");
        assert!(page.ends_with("\r\n\r\nwell"), "{round}: {page}");
    }
}

#[test]
fn a_request_is_bounded_in_length_and_time() {
    let requests = Requests::default();
    let address = metrics_of(&requests);
    let _broker = Broker::that_answers(requests);
    let long = format!("GET /metrics HTTP/1.1\r\nCookie: {}\r\n\r\n", "c".repeat(100_000));
    assert!(get(address, long.as_bytes()).starts_with("HTTP/1.1 431 "));
    let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(100));
    assert!(get(address, many.as_bytes()).starts_with("HTTP/1.1 431 "));
    assert!(get(address, b"\x16\x03\x01\x02\x00\x01\x00").starts_with("HTTP/1.1 400 "));
    // Who does not go on is told after a time, and not waited for any longer.
    assert!(get(address, b"GET /met").starts_with("HTTP/1.1 408 "));
    // In pieces it is a request all the same.
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    for byte in GET {
        stream.write_all(&[*byte]).unwrap();
    }
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
}

#[test]
fn a_client_that_takes_no_answer_keeps_nobody_waiting() {
    let requests = Requests::default();
    let address = metrics_of(&requests);
    let page = "x".repeat(16 << 20);
    let _broker =
        Broker::new(requests, move |request| request.answer(Answer::Done(page.as_str().into())));
    let slow: Vec<TcpStream> = (0..80)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(GET).unwrap();
            stream
        })
        .collect();
    assert!(get(address, GET).starts_with("HTTP/1.1 "));
    drop(slow);
}

/// A control socket, and the folder it is in.
fn socket() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("control");
    (folder, socket)
}

fn idle(socket: &Path, clients: usize) -> Vec<UnixStream> {
    (0..clients).map(|_| UnixStream::connect(socket).unwrap()).collect()
}

#[test]
fn idle_clients_lock_out_nobody_and_each_of_many_is_answered() {
    let (_folder, socket) = socket();
    let requests = Requests::default();
    let _server = Server::listen(&socket, requests.sender()).unwrap();
    let _broker = Broker::new(requests, |request| {
        thread::sleep(Duration::from_millis(1));
        request.answer(Answer::Done("well".into()));
    });
    let held = idle(&socket, 200);
    assert_eq!(ask(&socket, &Request::Status).unwrap(), "well");
    // Those who lost their places were told why.
    let mut told = String::new();
    (&held[0]).read_to_string(&mut told).unwrap();
    assert!(told.contains("the broker is busy"), "{told}");
    let together = Arc::new(Barrier::new(150));
    let asking: Vec<_> = (0..150)
        .map(|_| {
            let (socket, together) = (socket.clone(), Arc::clone(&together));
            thread::spawn(move || {
                together.wait();
                ask(&socket, &Request::Status)
            })
        })
        .collect();
    for asked in asking {
        match asked.join().unwrap() {
            Ok(answer) => assert_eq!(answer, "well"),
            Err(AskError::Refused(why)) => assert!(why.contains("busy"), "{why}"),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn where_all_places_wait_for_the_broker_others_are_told_that_it_is_busy() {
    let (_folder, socket) = socket();
    let requests = Requests::default();
    let _server = Server::listen(&socket, requests.sender()).unwrap();
    let kept = Arc::new(Mutex::new(Some(Vec::new())));
    let keeps = Arc::clone(&kept);
    let _broker = Broker::new(requests, move |request| match &mut *keeps.lock().unwrap() {
        Some(kept) => kept.push(request),
        None => request.answer(Answer::Done("well".into())),
    });
    let waiting: Vec<UnixStream> = idle(&socket, 64);
    for mut stream in &waiting {
        stream.write_all(b"{\"ask\":\"status\"}\n").unwrap();
    }
    for _ in 0..40 {
        match ask(&socket, &Request::Status) {
            Err(AskError::Refused(why)) => assert!(why.contains("the broker is busy"), "{why}"),
            other => panic!("{other:?}"),
        }
    }
    // Who goes leaves a place when the broker is done with the request.
    drop(waiting);
    kept.lock().unwrap().take();
    assert_eq!(ask(&socket, &Request::Status).unwrap(), "well");
}

#[test]
fn requests_of_clients_that_hang_up_do_not_pile_up() {
    let (_folder, socket) = socket();
    let (sender, requests) = mpsc::channel();
    let _server = Server::listen(&socket, sender).unwrap();
    for _ in 0..300 {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(b"{\"ask\":\"status\"}\n").unwrap();
    }
    // Clients are taken in in order: all the others were before this one.
    let mut last = UnixStream::connect(&socket).unwrap();
    last.set_read_timeout(Some(PATIENCE)).unwrap();
    last.write_all(b"{\"ask\":\"ledger\"}\n").unwrap();
    let mut told = String::new();
    last.read_to_string(&mut told).unwrap();
    assert!(told.contains("the broker is busy"), "{told}");
    assert_eq!(requests.try_iter().count(), 64);
    // There are places again.
    let asking = {
        let socket = socket.clone();
        thread::spawn(move || ask(&socket, &Request::Ledger))
    };
    loop {
        let request = requests.recv_timeout(PATIENCE).unwrap();
        let is_asked = request.kind == Request::Ledger;
        request.answer(Answer::Done("well".into()));
        if is_asked {
            break;
        }
    }
    assert_eq!(asking.join().unwrap().unwrap(), "well");
}

#[test]
fn questions_of_clients_that_hang_up_are_passed_over_and_orders_are_not() {
    let (_folder, socket) = socket();
    let requests = Requests::default();
    let _server = Server::listen(&socket, requests.sender()).unwrap();
    let [mut waits, mut control] = [(); 2].map(|()| UnixStream::connect(&socket).unwrap());
    waits.write_all(b"{\"ask\":").unwrap();
    for request in ["status", "drain", "status"] {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(format!("{{\"ask\":\"{request}\"}}\n").as_bytes()).unwrap();
    }
    // The server answers this itself, after it has accepted those before.
    let mut last = UnixStream::connect(&socket).unwrap();
    last.write_all(b"no request\n").unwrap();
    last.read_exact(&mut [0]).unwrap();
    waits.write_all(b"\"ledger\"}\n").unwrap();
    // Clients that are accepted already are served after a look at who has hung up: once this
    // answer is here, the server knows that the three have.
    control.write_all(b"no request\n").unwrap();
    control.read_exact(&mut [0]).unwrap();
    let next = || requests.next(PATIENCE).unwrap().kind;
    assert_eq!([next(), next()], [Request::Drain, Request::Ledger]);
}

#[test]
fn who_asks_a_broker_that_ends_is_told_so() {
    let (_folder, socket) = socket();
    let requests = Requests::default();
    let _server = Server::listen(&socket, requests.sender()).unwrap();
    let asking = {
        let socket = socket.clone();
        thread::spawn(move || ask(&socket, &Request::Status))
    };
    // The request is in there, or comes when nobody is: it is told either way.
    drop(requests.next(PATIENCE));
    drop(requests);
    let first = asking.join().unwrap().unwrap_err().to_string();
    let second = ask(&socket, &Request::Status).unwrap_err().to_string();
    assert_eq!([first, second], ["the broker has ended", "the broker has ended"]);
    let mut stream = UnixStream::connect(&socket).unwrap();
    stream.write_all(&vec![b'x'; 16_777_217]).unwrap();
    let mut told = String::new();
    stream.read_to_string(&mut told).unwrap();
    assert!(told.contains("more than 16777216 bytes"), "{told}");
}

/// What a client is told.
fn line(stream: &UnixStream) -> String {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut told = String::new();
    BufReader::new(stream).read_line(&mut told).unwrap();
    told
}

#[test]
fn long_requests_are_bounded_together_and_short_ones_are_always_taken() {
    let (_folder, socket) = socket();
    let requests = Requests::default();
    let _server = Server::listen(&socket, requests.sender()).unwrap();
    let (sender, kept) = mpsc::channel();
    let _broker = Broker::new(requests, move |request| match request.kind {
        Request::Ledger => sender.send(request).unwrap(),
        _ => request.answer(Answer::Done("well".into())),
    });
    // Requests without an end: a buffer of 8 MiB for each that is taken.
    let begin = || {
        let mut stream = UnixStream::connect(&socket).unwrap();
        let is_taken = stream.write_all(&vec![b' '; 6 << 20]).is_ok();
        (is_taken, stream)
    };
    let begun: Vec<_> = (0..50).map(|_| begin()).collect();
    for (at, (is_taken, stream)) in begun.iter().enumerate() {
        assert_eq!(*is_taken, at < 4, "{at}");
        if !is_taken {
            let told = line(stream);
            assert!(told.contains("it holds requests of 32 MiB. Try again"), "{told}");
        }
    }
    let mut short = UnixStream::connect(&socket).unwrap();
    short.write_all(&[b' '; 65_000]).unwrap();
    short.write_all(b"{\"ask\":\"status\"}\n").unwrap();
    assert_eq!(line(&short), "{\"done\":\"well\"}\n");
    // Those that wait for the broker count as well.
    for (_, stream) in &begun[..4] {
        let mut stream: &UnixStream = stream;
        stream.write_all(b"{\"ask\":\"ledger\"}\n").unwrap();
    }
    let waiting = [(); 4].map(|()| kept.recv_timeout(PATIENCE).unwrap());
    assert!(!begin().0);
    waiting.into_iter().for_each(|request| request.answer(Answer::Done("late".into())));
    for (_, stream) in &begun[..4] {
        assert_eq!(line(stream), "{\"done\":\"late\"}\n");
    }
    let (is_taken, mut stream) = begin();
    stream.write_all(b"{\"ask\":\"status\"}\n").unwrap();
    assert_eq!((is_taken, line(&stream).as_str()), (true, "{\"done\":\"well\"}\n"));
}
