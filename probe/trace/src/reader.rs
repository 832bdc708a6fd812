//! The messages in one direction: where each begins and ends, looking at heads and chunk sizes alone.

use super::head::{self, Body, Head, Kind};
use super::proxy_protocol;
use super::tcp::Segment;
use ground::chunked::Chunks;

/// What was found in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundMessage {
    /// A message's head, or what was captured of it, ends here. Say by [`MessageReader::enter_body`] how its content ends.
    Head(Head),
    /// The message ended with the byte before.
    Ended,
    /// What seemed to begin a request was another protocol's word.
    Word,
}

#[derive(Clone, Debug, Default)]
enum ReaderState {
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
pub struct MessageReader {
    state: ReaderState,
    /// How many have begun.
    pub messages: u32,
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
    pub fn from_segment(segment: &Segment<'a>) -> Piece<'a> {
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
    pub fn pass_bytes(&mut self, count: u64) {
        let skipped = usize::try_from(count).unwrap_or(usize::MAX);
        self.bytes = self.bytes.get(skipped..).unwrap_or_default();
        self.length = self.length.saturating_sub(count);
        self.begins &= count == 0;
    }
}

impl MessageReader {
    pub fn is_between(&self) -> bool {
        matches!(self.state, ReaderState::Idle)
    }

    /// Whether the end of the message can only be told by what comes after it.
    pub fn is_open(&self) -> bool {
        matches!(self.state, ReaderState::Open | ReaderState::Cut)
    }

    /// Whether the message may end without its content, and so where the next one begins.
    pub fn is_unwanted(&self) -> bool {
        matches!(self.state, ReaderState::Unwanted(_))
    }

    /// The message is answered, and nothing of its content has come.
    pub fn leave_unwanted(&mut self) {
        match self.state {
            ReaderState::Sized(length) => self.state = ReaderState::Unwanted(Some(length)),
            ReaderState::Chunked(_) => self.state = ReaderState::Unwanted(None),
            _ => {}
        }
    }

    /// Content comes all the same.
    fn expect_content(&mut self) {
        if let ReaderState::Unwanted(sized) = self.state {
            self.state = sized.map_or(ReaderState::Chunked(Chunks::default()), ReaderState::Sized);
        }
    }

    /// Whether the message ends where the connection does.
    pub fn is_until_close(&self) -> bool {
        matches!(self.state, ReaderState::Open)
    }

    /// Whether it is no longer known where messages begin.
    pub fn is_lost(&self) -> bool {
        matches!(self.state, ReaderState::Lost)
    }

    /// Bytes that are kept of a head whose end is still to come.
    pub fn held_bytes(&self) -> usize {
        match &self.state {
            ReaderState::Head(pieces) => pieces.capacity(),
            _ => 0,
        }
    }

    /// Go on at the next message that begins a segment.
    pub fn lose_track(&mut self) {
        self.state = ReaderState::Lost;
    }

    /// Whether a message may begin with a segment of these bytes.
    pub fn may_begin(&self, kind: Kind, bytes: &[u8]) -> bool {
        match self.state {
            ReaderState::Idle => true,
            ReaderState::Cut | ReaderState::Lost | ReaderState::Unwanted(_) => {
                head::may_begin(kind, bytes)
            }
            _ => false,
        }
    }

    /// Whether the message is at its end although its last bytes were not captured. Asked after [`MessageReader::miss_bytes`].
    pub fn ends_unseen(&mut self) -> bool {
        let ends = matches!(self.state, ReaderState::Sized(0));
        if ends {
            self.state = ReaderState::Idle;
        }
        ends
    }

    /// Bytes that follow and need not be looked at.
    #[inline]
    pub fn skippable_bytes(&self) -> u64 {
        match &self.state {
            ReaderState::Sized(remaining) => *remaining,
            ReaderState::Chunked(chunks) => chunks.skippable_bytes(),
            ReaderState::Open | ReaderState::Tunnel => u64::MAX,
            _ => 0,
        }
    }

    /// How many bytes may follow in which nothing is found, and with which byte a segment may yet begin something.
    #[inline(always)]
    pub fn passable_bytes(&self, kind: Kind) -> (u64, Option<u8>) {
        match (&self.state, kind) {
            (ReaderState::Sized(remaining), _) => (remaining.saturating_sub(1), None),
            (ReaderState::Chunked(chunks), _) => (chunks.skippable_bytes().saturating_sub(1), None),
            (ReaderState::Tunnel, _) | (ReaderState::Open, Kind::Response) => (u64::MAX, None),
            (ReaderState::Cut | ReaderState::Lost, _) => passable_of_cut(kind),
            _ => (0, None),
        }
    }

    /// Bytes that were not captured follow.
    pub fn miss_bytes(&mut self, count: u64) {
        self.expect_content();
        match &mut self.state {
            // Also when nothing remains: the end is found when the stream goes on.
            ReaderState::Sized(remaining) if count <= *remaining => *remaining -= count,
            ReaderState::Chunked(chunks) if count <= chunks.skippable_bytes() => {
                chunks.skip_content(count)
            }
            ReaderState::Open | ReaderState::Tunnel | ReaderState::Cut => {}
            _ => self.state = ReaderState::Lost,
        }
    }

    /// Whether a message begins with the next byte. If the one before [is open](Reader::is_open), it ends there.
    #[inline(always)]
    pub fn begins_message(&self, kind: Kind, piece: &Piece) -> bool {
        let may_begin = match self.state {
            // Behind others, it is known what is spoken.
            ReaderState::Idle => self.messages > 0 || head::may_begin_first(kind, piece.bytes),
            // Behind an empty line as well.
            ReaderState::Unwanted(_) => is_begin(kind, piece.bytes),
            ReaderState::Lost => piece.begins && is_begin(kind, piece.bytes),
            ReaderState::Cut => piece.begins,
            _ => false,
        };
        may_begin && head::may_begin(kind, piece.bytes)
    }

    /// Whether a message begins with it of whose head the end was not captured.
    #[inline(always)]
    pub fn begins_cut(&self, kind: Kind, piece: &Piece) -> bool {
        piece.is_cut() && self.begins_message(kind, piece) && !head::may_end(piece.bytes)
    }

    /// The same where the head before was cut too, so that nothing else is known of where its message ends.
    #[inline(always)]
    pub fn begins_cut_again(&self, kind: Kind, piece: &Piece) -> bool {
        let is_cut_again = matches!(self.state, ReaderState::Cut) && piece.is_cut() && piece.begins;
        is_cut_again && !head::may_end(piece.bytes) && head::may_begin(kind, piece.bytes)
    }

    /// A message begins with such a piece: as much of its head as is there.
    #[inline(always)]
    pub fn begin_cut(&mut self, kind: Kind, piece: &Piece) -> Head {
        self.messages = self.messages.saturating_add(1);
        self.state = ReaderState::Cut;
        head::read_cut(kind, piece.bytes)
    }

    /// The same where that is known without looking, and its head read elsewhere.
    #[inline(always)]
    pub fn begin_cut_again(&mut self) {
        self.messages = self.messages.saturating_add(1);
    }

    /// A message begins with it: how many bytes are passed to read its head, and that once it is all there, or cut.
    pub fn begin_message(&mut self, kind: Kind, piece: &Piece) -> (u64, Option<Head>) {
        let read = match piece.is_cut() && !head::may_end(piece.bytes) {
            true => Ok(None),
            false => head::read_whole(kind, piece.bytes),
        };
        let (state, passed, head) = match read {
            Ok(Some(head)) => {
                let length = head.length.unwrap_or_default();
                (ReaderState::Cut, length as u64, Some(head))
            }
            Ok(None) if !piece.is_cut() && piece.bytes.len() < head::LONGEST => {
                let pieces = piece.bytes.to_vec();
                (ReaderState::Head(pieces), piece.length, None)
            }
            _ => {
                let head = head::read_cut(kind, piece.bytes);
                (ReaderState::Cut, piece.length, Some(head))
            }
        };
        self.messages = self.messages.saturating_add(1);
        self.state = state;
        (passed, head)
    }

    /// Read on elsewhere, until something is found: how many bytes were passed, and what it was.
    #[inline]
    pub fn read_on(&mut self, kind: Kind, piece: &Piece) -> (u64, Option<FoundMessage>) {
        match &mut self.state {
            ReaderState::Sized(remaining) => {
                let taken = piece.length.min(*remaining);
                *remaining -= taken;
                match *remaining {
                    0 => {
                        self.state = ReaderState::Idle;
                        (taken, Some(FoundMessage::Ended))
                    }
                    _ => (taken, None),
                }
            }
            _ => self.read_slowly(kind, *piece),
        }
    }

    fn read_slowly(&mut self, kind: Kind, piece: Piece) -> (u64, Option<FoundMessage>) {
        match &mut self.state {
            ReaderState::Idle => {
                let preface = match (kind, self.messages) {
                    (Kind::Request, 0) => proxy_protocol::preface_length(piece.bytes),
                    _ => 0,
                };
                match preface.max(empty_line(&piece)) {
                    0 => {
                        self.state = ReaderState::Lost;
                        (0, None)
                    }
                    length => (length.min(piece.length), None),
                }
            }
            ReaderState::Head(_) => self.read_head(kind, piece),
            ReaderState::Chunked(chunks) => match read_chunks(chunks, piece) {
                Some(passed) => {
                    let is_done = chunks.is_done();
                    if is_done {
                        self.state = ReaderState::Idle;
                    }
                    (passed, is_done.then_some(FoundMessage::Ended))
                }
                // Framing that was not captured, or is none.
                None => {
                    self.state = ReaderState::Cut;
                    (0, None)
                }
            },
            ReaderState::Unwanted(sized) => {
                // An empty line, or how content begins: that is then so much shorter.
                let passed = match (empty_line(&piece), &sized) {
                    (length, Some(content)) if length >= *content => 0,
                    (length, _) => length,
                };
                *sized = sized.map(|content| content - passed);
                if passed == 0 {
                    self.expect_content();
                }
                (passed, None)
            }
            ReaderState::Sized(_) => (0, None),
            ReaderState::Lost | ReaderState::Cut | ReaderState::Open | ReaderState::Tunnel => {
                (piece.length, None)
            }
        }
    }

    /// A head goes on that came in part.
    fn read_head(&mut self, kind: Kind, piece: Piece) -> (u64, Option<FoundMessage>) {
        let ReaderState::Head(pieces) = &mut self.state else {
            return (0, None);
        };
        let before = pieces.len();
        pieces.extend_from_slice(piece.bytes);
        let is_message = head::may_begin(kind, pieces) && head::may_begin_first(kind, pieces);
        if kind == Kind::Request && self.messages == 1 && !is_message {
            self.take_back();
            return (piece.length, Some(FoundMessage::Word));
        }
        let (passed, head) = match head::read_whole(kind, pieces) {
            Ok(Some(head)) => {
                let length = head.length.unwrap_or_default().saturating_sub(before);
                (length as u64, head)
            }
            Ok(None) if !piece.is_cut() && pieces.len() < head::LONGEST => {
                return (piece.length, None);
            }
            _ => (piece.length, head::read_cut(kind, pieces)),
        };
        self.state = ReaderState::Cut;
        (passed, Some(FoundMessage::Head(head)))
    }

    /// Read on until something is found, be it where a message begins.
    #[cfg(any(test, fuzzing))]
    pub fn read(&mut self, kind: Kind, piece: &mut Piece) -> (u64, Option<FoundMessage>) {
        let (passed, found) = match self.begins_message(kind, piece) {
            true => {
                let (passed, head) = self.begin_message(kind, piece);
                (passed, head.map(FoundMessage::Head))
            }
            false => self.read_on(kind, piece),
        };
        piece.pass_bytes(passed);
        (passed, found)
    }

    /// After a head: how its message goes on. What ends at once is found by this.
    #[inline(always)]
    pub fn enter_body(&mut self, body: Option<Body>) -> Option<FoundMessage> {
        self.state = match body {
            Some(Body::None | Body::Sized(0)) => ReaderState::Idle,
            Some(Body::Sized(length)) => ReaderState::Sized(length),
            Some(Body::Chunked) => ReaderState::Chunked(Chunks::default()),
            Some(Body::UntilClose) => ReaderState::Open,
            None => ReaderState::Cut,
        };
        matches!(self.state, ReaderState::Idle).then_some(FoundMessage::Ended)
    }

    /// Nothing comes any more: whether all that there is of the first request is a word.
    pub fn ends_with_word(&mut self) -> bool {
        let is_word = matches!(&self.state, ReaderState::Head(pieces) if !pieces.contains(&b' '));
        let is_alone = is_word && self.messages == 1;
        if is_alone {
            self.take_back();
        }
        is_alone
    }

    /// No message has begun.
    fn take_back(&mut self) {
        self.messages = 0;
        self.state = ReaderState::Lost;
    }

    /// Messages are followed no more.
    pub fn enter_tunnel(&mut self) {
        self.state = ReaderState::Tunnel;
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
    let passed = chunks.feed_bytes(piece.bytes).ok()?.consumed as u64;
    if chunks.is_done() {
        return Some(passed);
    }
    let uncaptured = piece.length - passed.min(piece.length);
    if uncaptured > chunks.skippable_bytes() {
        return None;
    }
    chunks.skip_content(uncaptured);
    Some(passed + uncaptured)
}
