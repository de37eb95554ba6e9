//! Just enough of HTTP/1.1 (RFC 9112) for Prometheus to fetch one page.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc;
use std::time::Duration;

use crate::control::serve::{self, Parsed, Protocol, Refusal};
use crate::control::{Answer, ControlRequest, Request};

/// The most header fields of a request.
const MOST_FIELDS: usize = 64;

/// The format of the page: Prometheus' text format.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The format of all else.
const PLAIN: &str = "text/plain; charset=utf-8";

/// There is no listening at that address.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve metrics at {address}: {source}")]
pub struct ServeError {
    address: SocketAddr,
    source: io::Error,
}

/// Serves metrics at `address`, asked for at `sender`. Gives the address that it is,
/// where the port asked for was 0.
///
/// # Errors
/// The system's, when the address cannot be had.
pub fn serve(
    address: SocketAddr,
    sender: mpsc::Sender<ControlRequest>,
) -> Result<SocketAddr, ServeError> {
    let failed = |source| ServeError { address, source };
    let listener = TcpListener::bind(address).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    serve::serve("forebay-metrics", listener, Http, sender).map_err(failed)?;
    Ok(bound)
}

/// One request a connection.
struct Http;

impl Protocol for Http {
    const MOST_REQUEST: usize = 8 << 10;
    const ASKING: Duration = Duration::from_secs(2);
    const WAITING: Option<Duration> = Some(Duration::from_secs(5));

    fn parse(&self, received: &[u8], _parsed: usize) -> Parsed {
        let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
        let mut request = httparse::Request::new(&mut fields);
        match request.parse(received) {
            Ok(httparse::Status::Partial) => Parsed::More,
            Ok(httparse::Status::Complete(_)) => {
                let path = request.path.and_then(|path| path.split('?').next());
                match (request.method, path) {
                    (Some("GET"), Some("/metrics")) => Parsed::Request(Request::Metrics),
                    (Some("GET"), _) => refused("404 Not Found", "the metrics are at /metrics"),
                    _ => refused("405 Method Not Allowed", "only GET is served here"),
                }
            }
            Err(httparse::Error::TooManyHeaders) => {
                refused("431 Request Header Fields Too Large", "too many header fields")
            }
            Err(error) => refused("400 Bad Request", &error.to_string()),
        }
    }

    fn answer(&self, answer: Answer) -> Vec<u8> {
        match answer {
            Answer::Done(serde_json::Value::String(page)) => {
                response("200 OK", CONTENT_TYPE, &page)
            }
            _ => self.refuse(Refusal::NoAnswer),
        }
    }

    fn refuse(&self, refusal: Refusal) -> Vec<u8> {
        let status = match refusal {
            Refusal::TooLong(_) => "431 Request Header Fields Too Large",
            Refusal::Late(_) => "408 Request Timeout",
            Refusal::NoMemory | Refusal::Busy | Refusal::NoAnswer | Refusal::Ended => {
                "503 Service Unavailable"
            }
        };
        response(status, PLAIN, &format!("{refusal}\n"))
    }
}

fn refused(status: &str, why: &str) -> Parsed {
    Parsed::Answer(response(status, PLAIN, &format!("{why}\n")))
}

fn response(status: &str, kind: &str, page: &str) -> Vec<u8> {
    // A status of 405 has to say what is allowed (RFC 9110, 15.5.6).
    let allow = if status.starts_with("405") { "Allow: GET\r\n" } else { "" };
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{allow}\
         Connection: close\r\n\r\n{page}",
        page.len()
    );
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
    use std::thread;

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
        let sender = requests.sender();
        let address = serve("127.0.0.1:0".parse().unwrap(), sender).unwrap();
        let broker = thread::spawn(move || {
            let request = requests.next(Duration::from_secs(10)).unwrap();
            assert_eq!(request.kind, Request::Metrics);
            request.answer(Answer::Done("up 1\n".into()));
        });
        let page = get(address, "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
        broker.join().unwrap();
        assert!(
            page.starts_with("HTTP/1.1 200 OK\r\n") && page.ends_with("\r\n\r\nup 1\n"),
            "{page}"
        );
        assert!(get(address, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(get(address, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
        assert!(serve(address, Requests::default().sender()).is_err());
    }
}
