//! The messages in one direction: where each begins and ends, looking at heads and chunk sizes alone.

use super::head::{self, Body, Head, Kind};
use super::preface;
use super::tcp::Segment;
use crate::load::chunked::Chunks;

/// What was found in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A message's head, or what was captured of it, ends here. Say by [`Reader::enter`] how its content ends.
    Head(Head),
    /// The message ended with the byte before.
    Ended,
    /// What seemed to begin a request was another protocol's word.
    Word,
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
    /// The same of which nothing has come, and whose message is answered: it may be left out. Where it is sized, so long.
    Unwanted(Option<u64>),
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
    /// All of a segment.
    #[inline(always)]
    pub fn of(segment: &Segment<'a>) -> Piece<'a> {
        Piece {
            bytes: segment.payload,
            length: u64::from(segment.length),
            begins: true,
        }
    }

    /// Whether less of it was captured than there was.
    pub fn is_cut(&self) -> bool {
        (self.bytes.len() as u64) < self.length
    }

    #[inline]
    pub fn pass(&mut self, count: u64) {
        let skipped = usize::try_from(count).unwrap_or(usize::MAX);
        self.bytes = self.bytes.get(skipped..).unwrap_or_default();
        self.length = self.length.saturating_sub(count);
        self.begins &= count == 0;
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

    /// Whether the message may end without its content, and so where the next one begins.
    pub fn is_unwanted(&self) -> bool {
        matches!(self.state, State::Unwanted(_))
    }

    /// The message is answered, and nothing of its content has come.
    pub fn leave_unwanted(&mut self) {
        match self.state {
            State::Sized(length) => self.state = State::Unwanted(Some(length)),
            State::Chunked(_) => self.state = State::Unwanted(None),
            _ => {}
        }
    }

    /// Content comes all the same.
    fn want(&mut self) {
        if let State::Unwanted(sized) = self.state {
            self.state = sized.map_or(State::Chunked(Chunks::new()), State::Sized);
        }
    }

    /// Whether the message ends where the connection does.
    pub fn is_until_close(&self) -> bool {
        matches!(self.state, State::Open)
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
            State::Cut | State::Lost | State::Unwanted(_) => head::may_begin(kind, bytes),
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
    #[inline(always)]
    pub fn passable(&self, kind: Kind) -> (u64, Option<u8>) {
        match (&self.state, kind) {
            (State::Sized(remaining), _) => (remaining.saturating_sub(1), None),
            (State::Chunked(chunks), _) => (chunks.skippable().saturating_sub(1), None),
            (State::Tunnel, _) | (State::Open, Kind::Response) => (u64::MAX, None),
            (State::Cut | State::Lost, _) => passable_of_cut(kind),
            _ => (0, None),
        }
    }

    /// Bytes that were not captured follow.
    pub fn miss(&mut self, count: u64) {
        self.want();
        match &mut self.state {
            // Also when nothing remains: the end is found when the stream goes on.
            State::Sized(remaining) if count <= *remaining => *remaining -= count,
            State::Chunked(chunks) if count <= chunks.skippable() => chunks.skip(count),
            State::Open | State::Tunnel | State::Cut => {}
            _ => self.state = State::Lost,
        }
    }

    /// Whether a message begins with the next byte. If the one before [is open](Reader::is_open), it ends there.
    #[inline(always)]
    pub fn begins(&self, kind: Kind, piece: &Piece) -> bool {
        let may_begin = match self.state {
            // Behind others, it is known what is spoken.
            State::Idle => self.messages > 0 || head::may_begin_first(kind, piece.bytes),
            // Behind an empty line as well.
            State::Unwanted(_) => is_begin(kind, piece.bytes),
            State::Lost => piece.begins && is_begin(kind, piece.bytes),
            State::Cut => piece.begins,
            _ => false,
        };
        may_begin && head::may_begin(kind, piece.bytes)
    }

    /// Whether a message begins with it of whose head the end was not captured.
    #[inline(always)]
    pub fn begins_cut(&self, kind: Kind, piece: &Piece) -> bool {
        piece.is_cut() && self.begins(kind, piece) && !head::may_end(piece.bytes)
    }

    /// The same where the head before was cut too, so that nothing else is known of where its message ends.
    #[inline(always)]
    pub fn begins_cut_again(&self, kind: Kind, piece: &Piece) -> bool {
        let is_cut_again = matches!(self.state, State::Cut) && piece.is_cut() && piece.begins;
        is_cut_again && !head::may_end(piece.bytes) && head::may_begin(kind, piece.bytes)
    }

    /// A message begins with such a piece: as much of its head as is there.
    #[inline(always)]
    pub fn begin_cut(&mut self, kind: Kind, piece: &Piece) -> Head {
        self.messages = self.messages.saturating_add(1);
        self.state = State::Cut;
        head::cut(kind, piece.bytes)
    }

    /// The same where that is known without looking, and its head read elsewhere.
    #[inline(always)]
    pub fn begin_cut_again(&mut self) {
        self.messages = self.messages.saturating_add(1);
    }

    /// A message begins with it: how many bytes are passed to read its head, and that once it is all there, or cut.
    pub fn begin(&mut self, kind: Kind, piece: &Piece) -> (u64, Option<Head>) {
        let read = match piece.is_cut() && !head::may_end(piece.bytes) {
            true => Ok(None),
            false => head::whole(kind, piece.bytes),
        };
        let (state, passed, head) = match read {
            Ok(Some(head)) => {
                let length = head.length.unwrap_or_default();
                (State::Cut, length as u64, Some(head))
            }
            Ok(None) if !piece.is_cut() && piece.bytes.len() < head::LONGEST => {
                let mut pieces = Vec::new();
                pieces.extend_from_slice(piece.bytes);
                (State::Head(pieces), piece.length, None)
            }
            _ => {
                let head = head::cut(kind, piece.bytes);
                (State::Cut, piece.length, Some(head))
            }
        };
        self.messages = self.messages.saturating_add(1);
        self.state = state;
        (passed, head)
    }

    /// Read on elsewhere, until something is found: how many bytes were passed, and what it was.
    #[inline]
    pub fn read_on(&mut self, kind: Kind, piece: &Piece) -> (u64, Option<Found>) {
        match &mut self.state {
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
        }
    }

    fn read_slowly(&mut self, kind: Kind, piece: Piece) -> (u64, Option<Found>) {
        match &mut self.state {
            State::Idle => {
                let preface = match (kind, self.messages) {
                    (Kind::Request, 0) => preface::length(piece.bytes),
                    _ => 0,
                };
                match preface.max(empty_line(&piece)) {
                    0 => {
                        self.state = State::Lost;
                        (0, None)
                    }
                    length => (length.min(piece.length), None),
                }
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
            State::Unwanted(sized) => {
                // An empty line, or how content begins: that is then so much shorter.
                let passed = match (empty_line(&piece), &sized) {
                    (length, Some(content)) if length >= *content => 0,
                    (length, _) => length,
                };
                *sized = sized.map(|content| content - passed);
                if passed == 0 {
                    self.want();
                }
                (passed, None)
            }
            State::Sized(_) => (0, None),
            State::Lost | State::Cut | State::Open | State::Tunnel => (piece.length, None),
        }
    }

    /// A head goes on that came in part.
    fn read_head(&mut self, kind: Kind, piece: Piece) -> (u64, Option<Found>) {
        let State::Head(pieces) = &mut self.state else {
            return (0, None);
        };
        let before = pieces.len();
        pieces.extend_from_slice(piece.bytes);
        let is_message = head::may_begin(kind, pieces) && head::may_begin_first(kind, pieces);
        if kind == Kind::Request && self.messages == 1 && !is_message {
            self.take_back();
            return (piece.length, Some(Found::Word));
        }
        let (passed, head) = match head::whole(kind, pieces) {
            Ok(Some(head)) => {
                let length = head.length.unwrap_or_default().saturating_sub(before);
                (length as u64, head)
            }
            Ok(None) if !piece.is_cut() && pieces.len() < head::LONGEST => {
                return (piece.length, None);
            }
            _ => (piece.length, head::cut(kind, pieces)),
        };
        self.state = State::Cut;
        (passed, Some(Found::Head(head)))
    }

    /// Read on until something is found, be it where a message begins.
    #[cfg(any(test, fuzzing))]
    pub fn read(&mut self, kind: Kind, piece: &mut Piece) -> (u64, Option<Found>) {
        let (passed, found) = match self.begins(kind, piece) {
            true => {
                let (passed, head) = self.begin(kind, piece);
                (passed, head.map(Found::Head))
            }
            false => self.read_on(kind, piece),
        };
        piece.pass(passed);
        (passed, found)
    }

    /// After a head: how its message goes on. What ends at once is found by this.
    #[inline(always)]
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

    /// Nothing comes any more: whether all that there is of the first request is a word.
    pub fn ends_with_word(&mut self) -> bool {
        let is_word = matches!(&self.state, State::Head(pieces) if !pieces.contains(&b' '));
        let is_alone = is_word && self.messages == 1;
        if is_alone {
            self.take_back();
        }
        is_alone
    }

    /// No message has begun.
    fn take_back(&mut self) {
        self.messages = 0;
        self.state = State::Lost;
    }

    /// Messages are followed no more.
    pub fn tunnel(&mut self) {
        self.state = State::Tunnel;
    }
}

/// Whether a message begins with such bytes where none need begin.
fn is_begin(kind: Kind, bytes: &[u8]) -> bool {
    bytes.len() > 3 && head::may_begin_first(kind, bytes)
}

/// How much of an empty line a piece begins with, such as may stand between messages (RFC 9112, section 2.2): it may end
/// without CR, and in the segment behind.
fn empty_line(piece: &Piece) -> u64 {
    match piece.bytes {
        [b'\n', ..] => 1,
        [b'\r', b'\n', ..] => 2,
        [b'\r'] if piece.length == 1 => 1,
        _ => 0,
    }
}

/// The same of a message whose end only shows by the next one.
#[inline(always)]
pub fn passable_of_cut(kind: Kind) -> (u64, Option<u8>) {
    match kind {
        Kind::Request => (0, None),
        Kind::Response => (u64::MAX, Some(b'H')),
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
