//! TLS over TCP, by rustls without buffers of its own: all connections of a thread share one for what comes and one for
//! what goes, and keep only the part of a record that is not whole.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags};
use rustls::Error;
use rustls::client::UnbufferedClientConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};

use super::Epoll;
use super::transport::Transport;
use crate::errors::Failure;
use crate::poller::EventFlags;
use crate::trusted_roots::{self, Agreement, Client};
use ground::clock::{self, Nanoseconds};

/// The longest record with its head: RFC 8446, section 5.2.
const RECORD: usize = 5 + (16 << 10) + 256;
/// As much is read at once.
const READ: usize = 64 << 10;
/// As much is encrypted at once.
const PIECE: usize = 64 << 10;
/// Room for as much as one encryption makes of a piece, and for any message of a handshake.
const SPARE: usize = PIECE + 8 * 512;

/// One connection's TLS.
pub struct Session {
    connection: Box<UnbufferedClientConnection>,
    /// What came of a record that is not whole.
    incoming: Vec<u8>,
    /// What the socket has not taken.
    unsent: Vec<u8>,
    is_greeted: bool,
    is_shaken: bool,
    /// Whether the server has said that nothing more comes.
    is_closed: bool,
}

impl Session {
    pub fn new(client: &Client) -> Result<Self, Error> {
        Ok(Self {
            connection: Box::new(client.new_connection()?),
            incoming: Vec::new(),
            unsent: Vec::new(),
            is_greeted: false,
            is_shaken: false,
            is_closed: false,
        })
    }

    /// Put what is kept of a record at the beginning of the buffer; how long that is.
    pub fn restore_incoming(&self, buffer: &mut [u8]) -> usize {
        buffer[..self.incoming.len()].copy_from_slice(&self.incoming);
        self.incoming.len()
    }

    /// Handle bytes that came, those kept before at their beginning. What has to be answered is added to `outgoing`, and
    /// `read` is called with each record's content.
    pub fn process_records(
        &mut self,
        bytes: &mut [u8],
        outgoing: &mut Vec<u8>,
        mut read: impl FnMut(&[u8]) -> Result<(), &'static str>,
    ) -> Result<(), Failure> {
        let mut at = 0;
        loop {
            let UnbufferedStatus {
                mut discard, state, ..
            } = self.connection.process_tls_records(&mut bytes[at..]);
            let mut goes_on = true;
            match state? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        discard += record.discard;
                        read(record.payload).map_err(Failure::Protocol)?;
                    }
                }
                ConnectionState::EncodeTlsData(mut data) => {
                    append_written(outgoing, |room| match data.encode(room) {
                        Err(EncodeError::InsufficientSize(need)) => Err(Some(need.required_size)),
                        other => other.map_err(|_| None),
                    });
                }
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::PeerClosed => self.is_closed = true,
                ConnectionState::WriteTraffic(_) => {
                    self.is_shaken = true;
                    goes_on = false;
                }
                _ => goes_on = false,
            }
            at += discard;
            if !goes_on {
                break;
            }
        }
        self.incoming.clear();
        self.incoming.extend_from_slice(&bytes[at..]);
        Ok(())
    }

    /// Encrypt, behind what `outgoing` holds.
    fn encrypt_content(&mut self, content: &[u8], outgoing: &mut Vec<u8>) -> Result<(), Failure> {
        let state = self.connection.process_tls_records(&mut []).state;
        let mut is_done = false;
        if let Ok(ConnectionState::WriteTraffic(mut traffic)) = state {
            is_done = append_written(outgoing, |room| {
                traffic.encrypt(content, room).map_err(needed_room)
            });
        }
        match is_done {
            true => Ok(()),
            false => Err(Failure::Tls("the server broke the protocol of TLS")),
        }
    }

    /// Say that nothing more comes, or why the connection is broken off.
    pub fn write_farewell(&mut self, outgoing: &mut Vec<u8>) {
        if !self.unsent.is_empty() {
            return;
        }
        loop {
            match self.connection.process_tls_records(&mut []).state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    append_written(outgoing, |room| match data.encode(room) {
                        Err(EncodeError::InsufficientSize(need)) => Err(Some(need.required_size)),
                        other => other.map_err(|_| None),
                    });
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => {}
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    append_written(outgoing, |room| {
                        traffic.queue_close_notify(room).map_err(needed_room)
                    });
                    return;
                }
                _ => return,
            }
        }
    }

    pub fn read_agreement(&self) -> Agreement {
        let suite = self.connection.negotiated_cipher_suite();
        let group = self.connection.negotiated_key_exchange_group();
        let version = self.connection.protocol_version();
        Agreement {
            version: version.and_then(|version| version.as_str()),
            cipher: suite.and_then(|suite| suite.suite().as_str()),
            key_exchange: group.and_then(|group| group.name().as_str()),
        }
    }

    /// Send what is unsent, as far as the socket takes it.
    fn flush_unsent(&mut self, socket: &OwnedFd) -> rustix::io::Result<()> {
        let mut sent = 0;
        let result = loop {
            if sent == self.unsent.len() {
                break Ok(());
            }
            match net::send(socket, &self.unsent[sent..], SendFlags::NOSIGNAL) {
                Ok(count) => sent += count,
                Err(Errno::INTR) => {}
                Err(errno) => break Err(errno),
            }
        };
        self.unsent.drain(..sent);
        result
    }

    /// Send, and keep what the socket does not take.
    fn send(&mut self, socket: &OwnedFd, bytes: &[u8]) -> rustix::io::Result<()> {
        if !self.unsent.is_empty() {
            self.unsent.extend_from_slice(bytes);
            return self.flush_unsent(socket);
        }
        let sent = loop {
            match net::send(socket, bytes, SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                other => break other,
            }
        };
        match sent {
            Ok(count) if count == bytes.len() => Ok(()),
            Ok(count) => {
                self.unsent.extend_from_slice(&bytes[count..]);
                Err(Errno::AGAIN)
            }
            Err(errno) => {
                self.unsent.extend_from_slice(bytes);
                Err(errno)
            }
        }
    }
}

fn needed_room(error: EncryptError) -> Option<usize> {
    match error {
        EncryptError::InsufficientSize(need) => Some(need.required_size),
        EncryptError::EncryptExhausted => None,
    }
}

/// Have `write` fill the room behind what there is; whether it did. Its error tells how much room it needs, if that would
/// help.
fn append_written(
    to: &mut Vec<u8>,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>,
) -> bool {
    let before = to.len();
    let mut room = SPARE;
    loop {
        to.resize(before + room, 0);
        match write(&mut to[before..]) {
            Ok(written) => {
                to.truncate(before + written);
                return true;
            }
            Err(Some(needed)) if needed > room => room = needed,
            Err(_) => {
                to.truncate(before);
                return false;
            }
        }
    }
}

/// TLS for all connections of a thread.
pub struct Tls<'a> {
    client: &'a Client,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    /// When bytes came the last time: before they are decrypted, as without TLS.
    read_at: Nanoseconds,
}

impl<'a> Tls<'a> {
    pub fn new(client: &'a Client) -> Self {
        Self {
            client,
            incoming: vec![0; RECORD + READ],
            outgoing: Vec::new(),
            read_at: 0,
        }
    }

    /// Read once, and handle it; how many bytes came.
    fn read(
        &mut self,
        socket: &OwnedFd,
        session: &mut Session,
        read: impl FnMut(&[u8]) -> Result<(), &'static str>,
    ) -> Result<usize, Failure> {
        let kept = session.restore_incoming(&mut self.incoming);
        let count = loop {
            let room = &mut self.incoming[kept..kept + READ];
            match net::recv(socket, room, RecvFlags::empty()) {
                Ok((_, count)) => break count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        };
        if count == 0 {
            return Ok(0);
        }
        self.read_at = clock::monotonic_now();
        self.outgoing.clear();
        let bytes = &mut self.incoming[..kept + count];
        let processed = session.process_records(bytes, &mut self.outgoing, read);
        self.send_outgoing(socket, session)?;
        processed.map(|()| count)
    }

    /// Send what rustls wants to have sent.
    fn send_outgoing(&mut self, socket: &OwnedFd, session: &mut Session) -> Result<(), Failure> {
        if self.outgoing.is_empty() {
            return Ok(());
        }
        match session.send(socket, &self.outgoing) {
            Ok(()) | Err(Errno::AGAIN) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn begin_handshake(&mut self, socket: &OwnedFd) -> Result<Session, Failure> {
        let mut session = Session::new(self.client)?;
        self.outgoing.clear();
        session.process_records(&mut [], &mut self.outgoing, |_| Ok(()))?;
        self.send_outgoing(socket, &mut session)?;
        Ok(session)
    }
}

const AGAIN: Failure = Failure::System(libc::EAGAIN);

impl Transport for Tls<'_> {
    type Session = Option<Session>;
    const SHAKES: bool = true;

    fn advance_handshake(
        &mut self,
        socket: &OwnedFd,
        slot: &mut Self::Session,
    ) -> Result<bool, Failure> {
        let session = match slot {
            None => {
                // The answer takes a way there and back, so it is not looked for at once.
                let session = slot.insert(self.begin_handshake(socket)?);
                session.is_greeted = session.unsent.is_empty();
                return Ok(false);
            }
            Some(session) => match session.flush_unsent(socket) {
                Ok(()) | Err(Errno::AGAIN) => session,
                Err(errno) => return Err(errno.into()),
            },
        };
        session.is_greeted |= session.unsent.is_empty();
        while session.is_greeted && !session.is_shaken {
            match self.read(socket, session, |_| Err("a reply before the request")) {
                Ok(0) => return Err(Failure::Tls("closed in the handshake")),
                Ok(_) => {}
                Err(AGAIN) => break,
                Err(failure) => return Err(failure),
            }
        }
        Ok(session.is_shaken && session.unsent.is_empty())
    }

    fn is_fresh(session: &Self::Session) -> bool {
        session.as_ref().is_none_or(|session| !session.is_greeted)
    }

    fn has_unsent(session: &Self::Session) -> bool {
        session
            .as_ref()
            .is_some_and(|session| !session.unsent.is_empty())
    }

    fn send(
        &mut self,
        socket: &OwnedFd,
        session: &mut Self::Session,
        bytes: &[u8],
    ) -> rustix::io::Result<usize> {
        let Some(session) = session else {
            return Err(Errno::NOTCONN);
        };
        session.flush_unsent(socket)?;
        let piece = &bytes[..bytes.len().min(PIECE)];
        if piece.is_empty() {
            return Ok(0);
        }
        self.outgoing.clear();
        if session.encrypt_content(piece, &mut self.outgoing).is_err() {
            return Err(Errno::PROTO);
        }
        // What is encrypted is accepted: what the socket does not take goes first the next time.
        match session.send(socket, &self.outgoing) {
            Ok(()) | Err(Errno::AGAIN) => Ok(piece.len()),
            Err(errno) => Err(errno),
        }
    }

    fn receive_reply(engine: &mut Epoll<'_, Self>, index: u32, flags: EventFlags) {
        loop {
            let slot = &mut engine.slots[index as usize];
            let (Some(socket), Some(session)) = (&slot.socket, &mut slot.session) else {
                return;
            };
            let was_untouched = slot.reply.is_untouched();
            let (reply, last_head) = (&mut slot.reply, &mut engine.last_head);
            let read = engine.transport.read(socket, session, |content| {
                reply.feed_all(content, last_head)
            });
            let now = engine.transport.read_at;
            if was_untouched {
                slot.exchange.first_byte = now;
            }
            let hung_up = session.is_closed
                || flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
            let count = match read {
                // RFC 9112, section 9.8: only the server's own word tells an end from a cut.
                Ok(0) if slot.reply.skippable_bytes() == u64::MAX => {
                    let cut = Failure::Tls("cut off without a word");
                    return engine.fail_request(index, cut, clock::monotonic_now());
                }
                Ok(0) => return engine.end_of_stream(index),
                Ok(count) => count,
                Err(AGAIN) => return,
                Err(Failure::System(number)) => {
                    return engine.handle_errno(index, Errno::from_raw_os_error(number));
                }
                Err(failure) => return engine.fail_request(index, failure, clock::monotonic_now()),
            };
            if slot.reply.is_done() {
                return engine.complete_request(index, now, hung_up);
            }
            if session.is_closed {
                return engine.end_of_stream(index);
            }
            if count < READ && !hung_up {
                return;
            }
        }
    }

    /// The server may send tickets and new keys at any time.
    fn can_outlive(&mut self, socket: &OwnedFd, session: &mut Self::Session) -> bool {
        let Some(session) = session else { return false };
        loop {
            match self.read(socket, session, |_| Err("a reply before the request")) {
                Ok(count) if count > 0 && !session.is_closed => {}
                Err(AGAIN) => return true,
                _ => return false,
            }
        }
    }

    fn close(&mut self, socket: &OwnedFd, slot: &mut Self::Session) {
        if let Some(mut session) = slot.take() {
            self.outgoing.clear();
            session.write_farewell(&mut self.outgoing);
            let _ = self.send_outgoing(socket, &mut session);
        }
    }
}

/// Connect once, before anything is measured: an error if the server's certificate is refused, or it does not speak
/// TLS, for then every request would fail. None if no handshake came about for any other reason, which is counted
/// when requests are sent.
pub fn try_handshake(
    client: &Client,
    address: SocketAddr,
    timeout: Nanoseconds,
) -> Result<Option<Agreement>, String> {
    let timeout = Duration::from_nanos(timeout);
    let stream = TcpStream::connect_timeout(&address, timeout).and_then(|stream| {
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(stream)
    });
    let (Ok(mut stream), Ok(mut session)) = (stream, Session::new(client)) else {
        return Ok(None);
    };
    let mut buffer = vec![0; 64 << 10];
    let mut filled = 0;
    loop {
        let mut outgoing = Vec::new();
        let processed = session.process_records(&mut buffer[..filled], &mut outgoing, |_| Ok(()));
        if processed.is_err() {
            session.write_farewell(&mut outgoing);
        }
        let _ = stream.write_all(&outgoing);
        match processed {
            Err(Failure::Certificate(reason)) => {
                return Err(format!(
                    "{address} has a {reason}; {}",
                    trusted_roots::choose_remedy(reason)
                ));
            }
            Err(Failure::Tls(trusted_roots::NOT_TLS)) => {
                return Err(format!(
                    "{address} does not speak TLS; write the URL with http://, or name its port for https://"
                ));
            }
            Err(_) => return Ok(None),
            Ok(()) if session.is_shaken => break,
            Ok(()) => {}
        }
        let kept = session.restore_incoming(&mut buffer);
        match stream.read(&mut buffer[kept..]) {
            Ok(0) | Err(_) => return Ok(None),
            Ok(count) => filled = kept + count,
        }
    }
    let mut outgoing = Vec::new();
    session.write_farewell(&mut outgoing);
    let _ = stream.write_all(&outgoing);
    Ok(Some(session.read_agreement()))
}
