//! Just enough of HTTP/1.1 (RFC 9112) for Prometheus to fetch one page.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::control::deadline::Deadline;
use crate::control::{Answer, Request, Visit};

/// How long a visitor may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest head of a request, in bytes.
const MOST_HEAD: u64 = 16 << 10;

/// The format of the page: Prometheus' text format.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// There is no listening at that address.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve metrics at {address}: {source}")]
pub struct ServeError {
    address: SocketAddr,
    source: io::Error,
}

/// Serves metrics at `address`, asked for at `entrance`. Gives the address that it is,
/// where the port asked for was 0.
///
/// # Errors
/// The system's, when the address cannot be had.
pub fn serve(address: SocketAddr, entrance: mpsc::Sender<Visit>) -> Result<SocketAddr, ServeError> {
    let failed = |source| ServeError { address, source };
    let listener = TcpListener::bind(address).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    let serve = move || {
        // One after another: there is one Prometheus, or few.
        for stream in listener.incoming() {
            match stream {
                // Who breaks off comes again.
                Ok(stream) => drop(answer(&stream, &entrance)),
                Err(_) => thread::sleep(Duration::from_millis(100)),
            }
        }
    };
    thread::Builder::new().name("forebay-metrics".to_owned()).spawn(serve).map_err(failed)?;
    Ok(bound)
}

fn answer(stream: &TcpStream, entrance: &mpsc::Sender<Visit>) -> io::Result<()> {
    let mut lines = BufReader::new(Deadline::of(stream, PATIENCE).take(MOST_HEAD)).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    // The rest of the head says nothing that matters here, but has to be read before the
    // connection is closed.
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let (status, kind, page) = page(&request, entrance);
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{page}",
        page.len()
    );
    Deadline::of(stream, PATIENCE).write_all(text.as_bytes())
}

fn page(request: &str, entrance: &mpsc::Sender<Visit>) -> (&'static str, &'static str, String) {
    let plain = "text/plain; charset=utf-8";
    let mut words = request.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    if method != "GET" {
        return ("405 Method Not Allowed", plain, "only GET is served here\n".to_owned());
    }
    if path.split('?').next() != Some("/metrics") {
        return ("404 Not Found", plain, "the metrics are at /metrics\n".to_owned());
    }
    let (visit, answer) = Visit::new(Request::Metrics);
    let answered = entrance.send(visit).ok().and_then(|()| answer.recv_timeout(PATIENCE).ok());
    match answered {
        Some(Answer::Done(serde_json::Value::String(text))) => ("200 OK", CONTENT_TYPE, text),
        _ => ("503 Service Unavailable", plain, "the broker does not answer\n".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Requests;

    fn get(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn the_page_is_served_and_nothing_else() {
        let requests = Requests::default();
        let entrance = requests.entrance();
        let address = serve("127.0.0.1:0".parse().unwrap(), entrance).unwrap();
        let broker = thread::spawn(move || {
            let visit = requests.next(Duration::from_secs(10)).unwrap();
            assert_eq!(visit.request, Request::Metrics);
            visit.answer(Answer::Done("up 1\n".into()));
        });
        let page = get(address, "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
        broker.join().unwrap();
        assert!(
            page.starts_with("HTTP/1.1 200 OK\r\n") && page.ends_with("\r\n\r\nup 1\n"),
            "{page}"
        );
        assert!(get(address, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(get(address, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
        assert!(serve(address, Requests::default().entrance()).is_err());
    }
}
