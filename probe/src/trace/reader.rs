//! The messages in one direction: where each begins and ends, looking at heads and chunk sizes alone.

use super::head::{self, Body, Head, Kind};
use crate::load::chunked::Chunks;

/// What was found in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A message begins with the next byte.
    Begun,
    /// One ended with the byte before, and the next one begins.
    Next,
    /// Its head, or what was captured of it, ends here. Say by [`Reader::enter`] how its content ends.
    Head(Head),
    /// The message ended with the byte before.
    Ended,
}

#[derive(Clone, Debug, Default)]
enum State {
    /// Between messages.
    #[default]
    Idle,
    /// Within a head, of which this much is there.
    Head(Vec<u8>),
    Sized(u64),
    Chunked(Chunks),
    /// Until the connection closes.
    Open,
    /// The head's end was not captured: the message ends where the next one seems to begin.
    Cut,
    /// No longer known where messages begin: the next one is one that begins a segment.
    Lost,
    /// Another protocol from here on.
    Tunnel,
}

#[derive(Debug, Default)]
pub struct Reader {
    state: State,
    messages: u32,
}

/// What of a segment is there to be read.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// What was captured of it.
    pub bytes: &'a [u8],
    /// How long it is.
    pub length: u64,
    /// Whether a segment begins with it.
    pub begins: bool,
}

impl<'a> Piece<'a> {
    fn after(self, count: u64) -> Piece<'a> {
        let skipped = usize::try_from(count).unwrap_or(usize::MAX);
        Piece {
            bytes: self.bytes.get(skipped..).unwrap_or_default(),
            length: self.length.saturating_sub(count),
            begins: self.begins && count == 0,
        }
    }
}

impl Reader {
    /// Messages that have begun.
    pub fn messages(&self) -> u32 {
        self.messages
    }

    pub fn is_between(&self) -> bool {
        matches!(self.state, State::Idle)
    }

    /// Whether the end of the message can only be told by what comes after it.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open | State::Cut)
    }

    /// Whether it is no longer known where messages begin.
    pub fn is_lost(&self) -> bool {
        matches!(self.state, State::Lost)
    }

    /// Bytes that are kept of a head whose end is still to come.
    pub fn held(&self) -> usize {
        match &self.state {
            State::Head(pieces) => pieces.capacity(),
            _ => 0,
        }
    }

    /// Go on at the next message that begins a segment.
    pub fn lose(&mut self) {
        self.state = State::Lost;
    }

    /// Whether a message may begin with a segment of these bytes.
    pub fn may_begin(&self, kind: Kind, bytes: &[u8]) -> bool {
        match self.state {
            State::Idle => true,
            State::Cut | State::Lost => head::may_begin(kind, bytes),
            _ => false,
        }
    }

    /// Whether the message is at its end although its last bytes were not captured. Asked after [`Reader::miss`].
    pub fn ends_unseen(&mut self) -> bool {
        let ends = matches!(self.state, State::Sized(0));
        if ends {
            self.state = State::Idle;
        }
        ends
    }

    /// Bytes that follow and need not be looked at.
    #[inline]
    pub fn skippable(&self) -> u64 {
        match &self.state {
            State::Sized(remaining) => *remaining,
            State::Chunked(chunks) => chunks.skippable(),
            State::Open | State::Tunnel => u64::MAX,
            _ => 0,
        }
    }

    /// How many bytes may follow in which nothing is found, and with which byte a segment may yet begin something.
    pub fn passable(&self, kind: Kind) -> (u64, Option<u8>) {
        match (&self.state, kind) {
            (State::Sized(remaining), _) => (remaining.saturating_sub(1), None),
            (State::Chunked(chunks), _) => (chunks.skippable().saturating_sub(1), None),
            (State::Tunnel, _) | (State::Open, Kind::Response) => (u64::MAX, None),
            (State::Cut | State::Lost, Kind::Response) => (u64::MAX, Some(b'H')),
            _ => (0, None),
        }
    }

    /// Bytes that were not captured follow.
    pub fn miss(&mut self, count: u64) {
        match &mut self.state {
            // Also when nothing remains: the end is found when the stream goes on.
            State::Sized(remaining) if count <= *remaining => *remaining -= count,
            State::Chunked(chunks) if count <= chunks.skippable() => chunks.skip(count),
            State::Open | State::Tunnel | State::Cut => {}
            _ => self.state = State::Lost,
        }
    }

    /// Read on until something is found: how many bytes were passed, and what it was.
    #[inline]
    pub fn read(&mut self, kind: Kind, piece: &mut Piece) -> (u64, Option<Found>) {
        let (passed, found) = match &mut self.state {
            State::Sized(remaining) => {
                let taken = piece.length.min(*remaining);
                *remaining -= taken;
                match *remaining {
                    0 => {
                        self.state = State::Idle;
                        (taken, Some(Found::Ended))
                    }
                    _ => (taken, None),
                }
            }
            _ => self.read_slowly(kind, *piece),
        };
        *piece = piece.after(passed);
        (passed, found)
    }

    fn read_slowly(&mut self, kind: Kind, piece: Piece) -> (u64, Option<Found>) {
        match &mut self.state {
            State::Idle if head::may_begin(kind, piece.bytes) => {
                self.begin();
                (0, Some(Found::Begun))
            }
            // An empty line between messages is allowed for (RFC 9112, section 2.2).
            State::Idle if piece.bytes.starts_with(b"\r\n") => (2, None),
            State::Idle => {
                self.state = State::Lost;
                (0, None)
            }
            State::Lost
                if piece.begins && head::may_begin(kind, piece.bytes) && piece.bytes.len() > 3 =>
            {
                self.begin();
                (0, Some(Found::Begun))
            }
            State::Cut if piece.begins && head::may_begin(kind, piece.bytes) => {
                self.begin();
                (0, Some(Found::Next))
            }
            State::Head(_) => self.read_head(kind, piece),
            State::Chunked(chunks) => match read_chunks(chunks, piece) {
                Some(passed) => {
                    let is_done = chunks.is_done();
                    if is_done {
                        self.state = State::Idle;
                    }
                    (passed, is_done.then_some(Found::Ended))
                }
                // Framing that was not captured, or is none.
                None => {
                    self.state = State::Cut;
                    (0, None)
                }
            },
            State::Sized(_) => (0, None),
            State::Lost | State::Cut | State::Open | State::Tunnel => (piece.length, None),
        }
    }

    fn begin(&mut self) {
        self.messages = self.messages.saturating_add(1);
        self.state = State::Head(Vec::new());
    }

    fn read_head(&mut self, kind: Kind, piece: Piece) -> (u64, Option<Found>) {
        let State::Head(pieces) = &mut self.state else {
            return (0, None);
        };
        let before = pieces.len();
        let is_cut = (piece.bytes.len() as u64) < piece.length;
        let read = if before > 0 {
            pieces.extend_from_slice(piece.bytes);
            head::whole(kind, pieces)
        } else if is_cut && !head::may_end(piece.bytes) {
            Ok(None)
        } else {
            head::whole(kind, piece.bytes)
        };
        match read {
            Ok(Some(head)) => {
                let length = head.length.unwrap_or_default().saturating_sub(before);
                self.state = State::Cut;
                (length as u64, Some(Found::Head(head)))
            }
            Ok(None) if !is_cut && before + piece.bytes.len() < head::LONGEST => {
                if before == 0 {
                    pieces.extend_from_slice(piece.bytes);
                }
                (piece.length, None)
            }
            _ => {
                let head = match before {
                    0 => head::cut(kind, piece.bytes),
                    _ => head::cut(kind, pieces),
                };
                self.state = State::Cut;
                (piece.length, Some(Found::Head(head)))
            }
        }
    }

    /// After a head: how its message goes on. What ends at once is found by this.
    pub fn enter(&mut self, body: Option<Body>) -> Option<Found> {
        self.state = match body {
            Some(Body::None | Body::Sized(0)) => State::Idle,
            Some(Body::Sized(length)) => State::Sized(length),
            Some(Body::Chunked) => State::Chunked(Chunks::new()),
            Some(Body::UntilClose) => State::Open,
            None => State::Cut,
        };
        matches!(self.state, State::Idle).then_some(Found::Ended)
    }

    /// Messages are followed no more.
    pub fn tunnel(&mut self) {
        self.state = State::Tunnel;
    }
}

/// Read on in a chunked body: how many bytes were passed. None when its framing is not there to be read.
fn read_chunks(chunks: &mut Chunks, piece: Piece) -> Option<u64> {
    let passed = chunks.feed(piece.bytes).ok()?.consumed as u64;
    if chunks.is_done() {
        return Some(passed);
    }
    let uncaptured = piece.length - passed.min(piece.length);
    if uncaptured > chunks.skippable() {
        return None;
    }
    chunks.skip(uncaptured);
    Some(passed + uncaptured)
}
