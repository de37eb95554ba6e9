//! A server for many clients of a socket, on one thread that never blocks on one of them.
//!
//! A client sends one request and gets one answer. A [`Protocol`] defines their bytes.
//! Requests go to the broker's own thread, whose answers wake this one by an eventfd, the bell.
//! Everything that a client can hold is bounded: bytes of a request, also of all clients
//! together, time in each state, and the number of clients. When a client connects and all
//! places are taken, the client that has been idle longest loses its place. Only when all of
//! them wait for the broker do new ones wait, in the socket's backlog; after [`FULL`] they get
//! the answer that the broker is busy. A request keeps its place until the broker is done with
//! it, also if the client hangs up, so that no more requests wait for the broker than there are
//! places.
//!
//! After the answer the server reads until the client closes: closing first, with bytes unread,
//! would reset the connection, and the answer could be lost.

use std::io;
use std::mem::{replace, take};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, SocketFlags, accept_with, recv, send, shutdown};

use super::message::{Answer, Request};
use super::queue::{Bell, ControlRequest, Memory};

/// Clients at a time.
pub const MOST_CLIENTS: usize = 64;

/// Further clients, which get the answer that there are too many.
const MOST_TURNED_AWAY: usize = 16;

/// Bytes of a request that each client can send, whatever others do.
const RESERVED: usize = 64 << 10;

/// Bytes that all requests together can have beyond those, until they are answered.
const MOST_MEMORY: usize = 32 << 20;

/// How long all places may be taken until new clients are turned away.
const FULL: Duration = Duration::from_secs(1);

/// How long a client may take to take its answer.
const ANSWERING: Duration = Duration::from_secs(5);

/// For how long, and for how many bytes, a client that was answered is read from.
const LEAVING: Duration = Duration::from_secs(1);
const MOST_LEFT: usize = 64 << 10;

/// How long an answer may not be taken before its client can lose its place.
const SLOW: Duration = Duration::from_millis(500);

/// Until accepting is tried again that failed: most likely no descriptor is left.
const AGAIN: Duration = Duration::from_millis(100);

/// What the bytes of a connection mean.
pub trait Protocol: Send + 'static {
    /// The longest request, in bytes.
    const MOST_REQUEST: usize;
    /// How long a client may take to send its request.
    const ASKING: Duration;
    /// How long the broker may take to answer, where that is bounded.
    const WAITING: Option<Duration>;

    /// What has been received so far comes to. There had to be more after the first `parsed` bytes.
    fn parse(&self, received: &[u8], parsed: usize) -> Parsed;

    /// An answer of the broker.
    fn answer(&self, answer: Answer) -> Vec<u8>;

    /// Why there is none.
    fn refuse(&self, refusal: Refusal) -> Vec<u8>;
}

/// What the bytes of a request come to.
pub enum Parsed {
    /// There have to be more.
    More,
    /// A request to the broker.
    Request(Request),
    /// An answer that needs no broker: of what is wrong with the request.
    Answer(Vec<u8>),
}

/// Why a client gets no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Its request is longer than a request can be.
    #[error("the request has more than {0} bytes")]
    TooLong(usize),
    /// It is long, and others have long ones.
    #[error("the broker is busy: it holds requests of {} MiB. Try again", MOST_MEMORY >> 20)]
    NoMemory,
    /// It takes too long to send one.
    #[error("the request did not come in {} s", .0.as_secs())]
    Late(Duration),
    /// Others want its place.
    #[error("the broker is busy: {MOST_CLIENTS} clients are connected. Try again")]
    Busy,
    /// The broker takes too long.
    #[error("the broker does not answer")]
    NoAnswer,
    /// The broker has ended.
    #[error("the broker has ended")]
    Ended,
}

/// Serves the clients of a socket that listens, on a thread of that name, for ever.
///
/// # Errors
/// The system's, when it has no descriptor or thread left.
pub fn serve(
    name: &str,
    listener: impl Into<OwnedFd>,
    protocol: impl Protocol,
    sender: mpsc::Sender<ControlRequest>,
) -> io::Result<()> {
    let listener = listener.into();
    rustix::io::ioctl_fionbio(&listener, true)?;
    let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let mut server = Server {
        listener,
        bell,
        protocol,
        sender,
        memory: Arc::default(),
        clients: Vec::new(),
        left: Vec::new(),
        full: None,
        again: None,
    };
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        loop {
            server.round();
        }
    })?;
    Ok(())
}

struct Server<P> {
    listener: OwnedFd,
    bell: Arc<OwnedFd>,
    protocol: P,
    sender: mpsc::Sender<ControlRequest>,
    /// The sum of what requests have beyond [`RESERVED`].
    memory: Arc<AtomicUsize>,
    /// The longest here first.
    clients: Vec<Client>,
    /// Requests whose clients have hung up, and which the broker still has.
    left: Vec<mpsc::Receiver<Answer>>,
    /// Since when all places are taken by clients that wait for the broker.
    full: Option<Instant>,
    /// When accepting is tried again.
    again: Option<Instant>,
}

struct Client {
    stream: OwnedFd,
    state: ClientState,
    /// When it came into that state.
    since: Instant,
}

enum ClientState {
    /// It sends its request.
    Asking(Vec<u8>, Memory),
    /// The broker works on it.
    Waiting(Awaited),
    /// It takes the answer: how much of it it has.
    Answering(Vec<u8>, usize),
    /// It has been answered: how much it has sent since.
    Leaving(usize),
    /// It is gone.
    Gone,
}

/// An answer that is waited for.
struct Awaited {
    answer: mpsc::Receiver<Answer>,
    /// Dropped when the client hangs up, which the broker notices.
    _present: Arc<()>,
}

impl<P: Protocol> Server<P> {
    /// Waits until there is something to do, and does it.
    fn round(&mut self) {
        let now = Instant::now();
        let deadline = self.clients.iter().filter_map(Client::deadline::<P>);
        let full = self.full.map(|full| full + FULL).filter(|&end| end > now);
        let deadline = deadline.chain(full).chain(self.again).min();
        let timeout = deadline.map(|end| end.saturating_duration_since(now));
        // Rounded up to what there is: not to come too early, again and again.
        let timeout = timeout.map(|left| left + Duration::from_millis(1));
        let timeout = timeout.and_then(|left| Timespec::try_from(left).ok());
        let accepts = self.again.is_none_or(|again| again <= now)
            && self.full.is_none_or(|full| now >= full + FULL);
        let mut fds = vec![PollFd::new(&self.bell, PollFlags::IN)];
        let wanted = if accepts { PollFlags::IN } else { PollFlags::empty() };
        fds.push(PollFd::new(&self.listener, wanted));
        fds.extend(self.clients.iter().map(|one| PollFd::new(&one.stream, one.wanted())));
        if poll(&mut fds, timeout.as_ref()).is_err() {
            return;
        }
        let is_gone = |fd: &PollFd<'_>| fd.revents().intersects(PollFlags::HUP | PollFlags::ERR);
        let came = fds[1].revents().contains(PollFlags::IN);
        let gone: Vec<bool> = fds[2..].iter().map(is_gone).collect();
        // Before answers are looked for: what rings later is heard in the next round.
        let _ = rustix::io::read(&*self.bell, &mut [0_u8; 8]);
        let now = Instant::now();
        for (client, gone) in self.clients.iter_mut().zip(gone) {
            // It has closed both ways, so it takes no answer.
            if gone && matches!(client.state, ClientState::Waiting(_)) {
                client.change(ClientState::Gone, &mut self.left);
            }
        }
        self.advance_all(now);
        if self.again.is_none_or(|again| again <= now) {
            self.accept(came, now);
        }
    }

    /// Advances all clients, and removes those that have hung up.
    fn advance_all(&mut self, now: Instant) {
        for client in &mut self.clients {
            client.advance(&self.protocol, &self.sender, &self.bell, now, &mut self.left);
        }
        // Those remain whose requests the broker still has.
        self.left.retain(|answer| matches!(answer.try_recv(), Err(mpsc::TryRecvError::Empty)));
        self.clients.retain(|client| !matches!(client.state, ClientState::Gone));
    }

    /// Accepts new clients, of which one `came` before the last poll for hang-ups.
    fn accept(&mut self, mut came: bool, now: Instant) {
        self.again = None;
        // At most as many as have places, so that clients are served in between.
        for _ in 0..MOST_CLIENTS {
            if self.clients.len() + self.left.len() >= MOST_CLIENTS {
                // Requests may have come since: a client that has sent one keeps its place.
                self.advance_all(now);
            }
            let held = self.clients.iter().filter(|one| one.rank(now).is_none()).count();
            let held = held + self.left.len();
            self.full = (held >= MOST_CLIENTS).then(|| self.full.unwrap_or(now));
            let is_busy = self.full.is_some_and(|full| now >= full + FULL);
            // A client is turned away only if it came before the last question whether others
            // have gone.
            if self.full.is_some() && !(is_busy && take(&mut came)) {
                return;
            }
            let stream =
                match accept_with(&self.listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                    Ok(stream) => stream,
                    Err(Errno::AGAIN) => return,
                    Err(Errno::INTR | Errno::CONNABORTED) => continue,
                    Err(_) => {
                        self.again = Some(now + AGAIN);
                        return;
                    }
                };
            let most = if is_busy { MOST_CLIENTS + MOST_TURNED_AWAY } else { MOST_CLIENTS };
            if self.clients.len() + self.left.len() >= most && !self.make_room(now) {
                let _ = send(&stream, &self.protocol.refuse(Refusal::Busy), SendFlags::NOSIGNAL);
                continue;
            }
            let state = if is_busy {
                ClientState::Answering(self.protocol.refuse(Refusal::Busy), 0)
            } else {
                ClientState::Asking(Vec::new(), Memory::of(&self.memory))
            };
            let mut client = Client { stream, state, since: now };
            // Most have sent their request by now.
            client.advance(&self.protocol, &self.sender, &self.bell, now, &mut self.left);
            if !matches!(client.state, ClientState::Gone) {
                self.clients.push(client);
            }
        }
    }

    /// Takes the place of the client that has kept us waiting longest, if one does.
    fn make_room(&mut self, now: Instant) -> bool {
        let ranked = self.clients.iter().enumerate();
        let ranked = ranked.filter_map(|(at, one)| Some((one.rank(now)?, one.since, at)));
        let Some((_, _, at)) = ranked.min() else { return false };
        let client = self.clients.remove(at);
        if matches!(client.state, ClientState::Asking(..)) {
            let _ = send(&client.stream, &self.protocol.refuse(Refusal::Busy), SendFlags::NOSIGNAL);
        }
        true
    }
}

impl Client {
    /// Which clients lose their places first: those that were answered, then those without a
    /// request, then those that do not read their answer. The others stay.
    fn rank(&self, now: Instant) -> Option<u8> {
        match self.state {
            ClientState::Leaving(_) | ClientState::Gone => Some(0),
            ClientState::Asking(..) => Some(1),
            ClientState::Answering(..) if now.duration_since(self.since) >= SLOW => Some(2),
            ClientState::Answering(..) | ClientState::Waiting(_) => None,
        }
    }

    /// What to wait for.
    fn wanted(&self) -> PollFlags {
        match self.state {
            ClientState::Asking(..) | ClientState::Leaving(_) => PollFlags::IN,
            ClientState::Answering(..) => PollFlags::OUT,
            ClientState::Waiting(_) | ClientState::Gone => PollFlags::empty(),
        }
    }

    /// When it has been in its state for long enough.
    fn deadline<P: Protocol>(&self) -> Option<Instant> {
        let longest = match self.state {
            ClientState::Asking(..) => Some(P::ASKING),
            ClientState::Waiting(_) => P::WAITING,
            ClientState::Answering(..) => Some(ANSWERING),
            ClientState::Leaving(_) => Some(LEAVING),
            ClientState::Gone => None,
        };
        longest.map(|longest| self.since + longest)
    }

    /// Does all for it that can be done now.
    fn advance<P: Protocol>(
        &mut self,
        protocol: &P,
        sender: &mpsc::Sender<ControlRequest>,
        bell: &Arc<OwnedFd>,
        now: Instant,
        left: &mut Vec<mpsc::Receiver<Answer>>,
    ) {
        // Each state leads to a later one.
        while let Some(next) = self.step(protocol, sender, bell, now) {
            self.change(next, left);
            self.since = now;
        }
    }

    /// Brings it into another state. If it waits for the broker no more, its place is taken
    /// until the broker is done with its request.
    fn change(&mut self, next: ClientState, left: &mut Vec<mpsc::Receiver<Answer>>) {
        if let ClientState::Waiting(awaited) = replace(&mut self.state, next) {
            left.push(awaited.answer);
        }
    }

    /// The state that it comes into now, if it changes.
    fn step<P: Protocol>(
        &mut self,
        protocol: &P,
        sender: &mpsc::Sender<ControlRequest>,
        bell: &Arc<OwnedFd>,
        now: Instant,
    ) -> Option<ClientState> {
        let is_late = self.deadline::<P>().is_some_and(|deadline| now >= deadline);
        let stream = self.stream.as_fd();
        match &mut self.state {
            ClientState::Asking(received, memory) => {
                let refuse = |refusal| Some(ClientState::Answering(protocol.refuse(refusal), 0));
                if !has_space(received, memory, P::MOST_REQUEST) {
                    return refuse(Refusal::NoMemory);
                }
                let parsed = received.len();
                match recv(stream, spare_capacity(received), RecvFlags::empty()) {
                    Ok((_, 0)) => return Some(ClientState::Gone),
                    Ok(_) => {}
                    Err(Errno::AGAIN | Errno::INTR) if is_late => {
                        return refuse(Refusal::Late(P::ASKING));
                    }
                    Err(Errno::AGAIN | Errno::INTR) => return None,
                    Err(_) => return Some(ClientState::Gone),
                }
                match protocol.parse(received, parsed) {
                    Parsed::Request(request) => {
                        let present = Arc::new(());
                        let held = (take(memory), Bell(Arc::clone(bell)));
                        let (request, answer) = ControlRequest::of_client(request, held, &present);
                        // If the broker has ended, the answer's sender is dropped as well.
                        let _ = sender.send(request);
                        Some(ClientState::Waiting(Awaited { answer, _present: present }))
                    }
                    Parsed::Answer(bytes) => Some(ClientState::Answering(bytes, 0)),
                    Parsed::More if received.len() > P::MOST_REQUEST => {
                        refuse(Refusal::TooLong(P::MOST_REQUEST))
                    }
                    Parsed::More if is_late => refuse(Refusal::Late(P::ASKING)),
                    Parsed::More => None,
                }
            }
            ClientState::Waiting(awaited) => {
                let bytes = match awaited.answer.try_recv() {
                    Ok(answer) => protocol.answer(answer),
                    Err(mpsc::TryRecvError::Disconnected) => protocol.refuse(Refusal::Ended),
                    Err(mpsc::TryRecvError::Empty) if is_late => protocol.refuse(Refusal::NoAnswer),
                    Err(mpsc::TryRecvError::Empty) => return None,
                };
                Some(ClientState::Answering(bytes, 0))
            }
            ClientState::Answering(bytes, sent) => send_answer(stream, bytes, sent, is_late),
            ClientState::Leaving(read) => {
                let mut rest = [0_u8; 4096];
                match recv(stream, &mut rest, RecvFlags::empty()) {
                    Ok((_, 0)) => Some(ClientState::Gone),
                    Ok((_, more)) if *read + more <= MOST_LEFT => {
                        *read += more;
                        None
                    }
                    Err(Errno::AGAIN | Errno::INTR) if !is_late => None,
                    _ => Some(ClientState::Gone),
                }
            }
            ClientState::Gone => None,
        }
    }
}

/// Sends the rest of an answer, of which `sent` bytes are sent. Returns the state after it.
fn send_answer(
    stream: BorrowedFd<'_>,
    bytes: &[u8],
    sent: &mut usize,
    is_late: bool,
) -> Option<ClientState> {
    while *sent < bytes.len() {
        match send(stream, &bytes[*sent..], SendFlags::NOSIGNAL) {
            Ok(more) => *sent += more,
            Err(Errno::AGAIN | Errno::INTR) if !is_late => return None,
            Err(_) => return Some(ClientState::Gone),
        }
    }
    let closed = shutdown(stream, Shutdown::Write);
    Some(closed.map_or(ClientState::Gone, |()| ClientState::Leaving(0)))
}

/// Enlarges a buffer that is full, up to a byte more than the longest request, if the memory
/// for that can be had.
fn has_space(received: &mut Vec<u8>, memory: &mut Memory, longest: usize) -> bool {
    if received.len() < received.capacity() {
        return true;
    }
    let capacity = (2 * received.len()).clamp(4096, longest + 1);
    let fits = memory.grow(capacity.saturating_sub(RESERVED), MOST_MEMORY);
    if fits {
        received.reserve_exact(capacity - received.len());
    }
    fits
}
