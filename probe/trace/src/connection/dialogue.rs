//! What the two ends of a connection say to each other: requests and responses in the bytes that are in order.

use super::{Connection, TLS};
use crate::connection_key::ConnectionEnd;
use crate::exchange::{Exchange, Message};
use crate::exchange_sink::ExchangeSink;
use crate::head::{self, Body, Head, Kind};
use crate::packet::Time;
use crate::reader::{FoundMessage, Piece};
use crate::request_record::FinishedExchange;
use crate::stream;
use crate::tcp::{self, Segment};
use crate::writes::Heads;

impl Connection {
    /// Read bytes in order: where messages begin and end.
    #[inline(never)]
    pub(super) fn read(
        &mut self,
        from: ConnectionEnd,
        kind: Kind,
        mut at: u64,
        mut piece: Piece,
        time: Time,
        sink: &mut ExchangeSink,
    ) -> Heads {
        let mut heads = Heads::default();
        let mut is_tls = piece.bytes.starts_with(TLS);
        let is_read = !piece.bytes.is_empty();
        let is_short = !piece.is_cut() && piece.length * 2 < u64::from(self.mss);
        let is_first = is_short && !self.is_read && at == stream::START;
        while piece.length > 0 {
            let reader = &mut self.ways[from].reader;
            let (passed, found) = if reader.begins_message(kind, &piece) {
                let before = (reader.is_open(), reader.is_unwanted());
                let (passed, head) = reader.begin_message(kind, &piece);
                heads.begun += 1;
                self.end_before(before, from, kind, time);
                self.begin_message(kind, at, piece.bytes, time, sink);
                (passed, head.map(FoundMessage::Head))
            } else {
                reader.read_on(kind, &piece)
            };
            piece.pass_bytes(passed);
            at = at.wrapping_add(passed);
            is_tls |= self.ways[from].reader.is_between() && piece.bytes.starts_with(TLS);
            match found {
                None => {}
                Some(FoundMessage::Head(head)) => {
                    heads.note_head(&head);
                    self.take_head(from, kind, head, at, time);
                }
                Some(FoundMessage::Word) => self.exchanges.take_back(),
                Some(FoundMessage::Ended) => self.end_message(from, kind, at, Some(time)),
            }
        }
        self.go_on(from, kind, at, time);
        self.is_read |= is_read;
        self.begins_otherwise |=
            is_first && kind == Kind::Request && self.ways[from].reader.is_lost();
        self.is_tls |= is_tls && self.ways[from].reader.messages == 0;
        heads
    }

    /// The same where the first bytes of a head are all that was captured of a segment.
    #[inline(always)]
    pub(super) fn read_cut_head(
        &mut self,
        from: ConnectionEnd,
        kind: Kind,
        at: u64,
        piece: Piece,
        time: Time,
        sink: &mut ExchangeSink,
    ) -> Heads {
        let reader = &mut self.ways[from].reader;
        let before = (reader.is_open(), reader.is_unwanted());
        let head = reader.begin_cut(kind, &piece);
        self.end_before(before, from, kind, time);
        self.begin_message(kind, at, piece.bytes, time, sink);
        let end = at.wrapping_add(piece.length);
        self.take_head(from, kind, head, end, time);
        self.go_on(from, kind, end, time);
        Heads::ONE_CUT
    }

    /// A message begins: the one before ended, where it was open or left its content out.
    #[inline(always)]
    fn end_before(&mut self, before: (bool, bool), from: ConnectionEnd, kind: Kind, time: Time) {
        match before {
            (true, _) => self.ended_by_next(from, kind, time),
            (false, true) => self.ended_without_content(kind),
            (false, false) => {}
        }
    }

    /// A message whose end only shows by what comes next goes on up to here.
    #[inline(always)]
    fn go_on(&mut self, from: ConnectionEnd, kind: Kind, at: u64, time: Time) {
        if self.ways[from].reader.is_open() {
            self.exchanges.extend_message(kind, at, time);
        }
    }

    /// Without a handshake, the end that sends a request is the client, whatever its port.
    pub(super) fn learn_client(&mut self, from: ConnectionEnd, bytes: &[u8]) {
        if bytes.starts_with(TLS) {
            return;
        }
        if let Some(kind) = head::guess_sender(bytes) {
            let client = match kind {
                Kind::Request => from,
                Kind::Response => from.other_end(),
            };
            (self.client, self.knows_client) = (client, true);
        }
    }

    #[inline(always)]
    fn begin_message(
        &mut self,
        kind: Kind,
        at: u64,
        head: &[u8],
        time: Time,
        sink: &mut ExchangeSink,
    ) {
        if self.exchanges.are_lost(kind) {
            while self.report_oldest(sink) {}
        }
        match kind {
            Kind::Request => {
                if self.exchanges.are_full() {
                    self.give_up_oldest(sink);
                }
                let heard = self.ways[self.client.other_end()].stream.acked;
                let number = self.exchanges.begin_request(at, heard, time);
                sink.note_request(self.number, number, head);
            }
            Kind::Response => self.exchanges.begin_response(at, time),
        }
    }

    #[inline(always)]
    fn take_head(&mut self, from: ConnectionEnd, kind: Kind, head: Head, at: u64, time: Time) {
        let Some(exchange) = self.exchanges.current_exchange(kind) else {
            return;
        };
        let message = exchange.message_mut(kind);
        message.head = head.length.unwrap_or_default() as u32;
        message.is_guessed = head.length.is_none() || head.body.is_none();
        message.is_sized = matches!(head.body, Some(Body::Sized(_)));
        let is_guessed = message.is_guessed;
        let mut body = head.body;
        let mut is_tunnel = false;
        match kind {
            Kind::Request => {
                exchange.method = head.method;
                self.asked_at = time;
            }
            Kind::Response if head.is_interim() => {
                exchange.interim += 1;
                // The reply is still to begin.
                exchange.response = Message::default();
                let _ = self.ways[from].reader.enter_body(Some(Body::None));
                return;
            }
            Kind::Response => {
                exchange.status = head.status;
                let bodiless =
                    exchange.method.is_method("HEAD") || matches!(head.status, 204 | 304);
                is_tunnel = head.opens_tunnel(&exchange.method);
                // A tunnel's first bytes come later: such a head ends with its segment, whatever was captured of it.
                if is_tunnel || (head.length.is_some() && bodiless) {
                    body = Some(Body::None);
                }
            }
        }
        if self.ways[from].reader.enter_body(body).is_some() {
            self.end_message(from, kind, at, Some(time));
        } else if kind == Kind::Request && !is_guessed {
            // Its content may be left out.
            self.await_acknowledgement(from, at, time);
        }
        if is_tunnel {
            for way in &mut self.ways.0 {
                way.reader.enter_tunnel();
            }
        }
    }

    /// The message ends here; no time where its last byte was not seen.
    #[inline(always)]
    pub(super) fn end_message(
        &mut self,
        from: ConnectionEnd,
        kind: Kind,
        at: u64,
        time: Option<Time>,
    ) {
        let Some(exchange) = self.exchanges.current_exchange(kind) else {
            return;
        };
        let message = exchange.message_mut(kind);
        if !message.is_guessed || message.last.is_none() {
            (message.last, message.end) = (time, at);
        }
        message.is_complete = true;
        let end = message.end;
        if kind == Kind::Response && !exchange.request.is_complete {
            return self.answered_early();
        }
        if kind == Kind::Request {
            exchange.acked = None;
            if let Some(time) = time {
                self.await_acknowledgement(from, end, time);
            }
        }
    }

    #[inline(always)]
    fn await_acknowledgement(&mut self, from: ConnectionEnd, end: u64, time: Time) {
        self.exchanges.await_acknowledgement(end);
        let acked = self.ways[from].stream.acked;
        self.exchanges.acknowledge_up_to(acked, time);
    }

    /// The reply was there before the whole request. If nothing of that but its head has come, the client may leave the
    /// content out: it asked whether it is wanted (RFC 9110, section 10.1.1).
    #[cold]
    fn answered_early(&mut self) {
        let client = self.client;
        let way = &mut self.ways[client];
        let current = self.exchanges.current_exchange(Kind::Request);
        let Some(exchange) = current.filter(|current| current.response.is_complete) else {
            return;
        };
        if exchange.request.end_of_head() == Some(way.stream.top) {
            way.reader.leave_unwanted();
            self.expect_content(client, Kind::Request);
        }
    }

    /// The message ended with its head, for another one begins instead of its content.
    #[cold]
    fn ended_without_content(&mut self, kind: Kind) {
        let asked_at = self.asked_at;
        if let Some(message) = self.exchanges.current_message(kind) {
            message.end = message.end_of_head().unwrap_or(message.end);
            message.last = Some(asked_at);
            message.is_complete = true;
        }
    }

    /// The message ended where it was last seen, for another one begins behind it.
    #[inline(always)]
    fn ended_by_next(&mut self, from: ConnectionEnd, kind: Kind, time: Time) {
        let Some(message) = self.exchanges.current_message(kind) else {
            return;
        };
        (message.is_complete, message.is_guessed) = (true, true);
        if kind == Kind::Request {
            let acked = self.ways[from].stream.acked;
            self.exchanges.acknowledge_up_to(acked, time);
        }
    }

    pub(super) fn end_stream(&mut self, from: ConnectionEnd, segment: &Segment) {
        let stream = &self.ways[from].stream;
        let is_reset = segment.has_flags(tcp::RST);
        if stream.is_known && !is_reset && !stream.may_be_at(stream.offset_of(segment.sequence)) {
            // An old one, sent again, of a connection before.
            return;
        }
        self.handshake.fin.get_or_insert(segment.time);
        let way = &mut self.ways[from];
        if is_reset {
            self.is_reset = true;
            way.counts.resets += 1;
        } else if way.has_finished {
            way.counts.repeated_controls += u64::from(segment.length == 0);
        }
        way.has_finished = true;
        if segment.has_flags(tcp::FIN) && way.stream.is_known {
            let end = way.stream.offset_of(segment.sequence);
            way.ends_at = Some(end.wrapping_add(u64::from(segment.length)));
        }
        self.complete_by_end(from);
    }

    /// A message whose end only shows by what comes next is whole when nothing comes any more.
    pub(super) fn complete_by_end(&mut self, from: ConnectionEnd) {
        let kind = self.message_kind(from);
        let way = &self.ways[from];
        // What goes on until the connection closes is whole by a FIN alone: a reset cuts it off.
        let is_cut_off = way.reader.is_until_close() && way.ends_at.is_none();
        let has_come = way.stream.ahead.is_empty() && Some(way.stream.edge) >= way.ends_at;
        let is_whole = has_come && !is_cut_off;
        if way.has_finished && way.reader.is_open() {
            if let Some(message) = self.exchanges.current_message(kind) {
                message.is_complete |= is_whole;
                message.last = message.last.filter(|_| is_whole);
            }
        }
    }

    #[inline]
    pub(super) fn report_finished(&mut self, sink: &mut ExchangeSink) {
        while self.exchanges.is_oldest_done(|| self.is_over()) {
            self.report_oldest(sink);
        }
    }

    /// Until both ends have said all and heard all, more may come of the last exchange: acknowledgements, repeats.
    fn is_over(&self) -> bool {
        let server = &self.ways[self.client.other_end()].stream;
        self.is_reset || (self.is_closed() && server.acked >= server.edge)
    }

    /// Tell the oldest exchange, done or not: false if there is none.
    pub(super) fn report_oldest(&mut self, sink: &mut ExchangeSink) -> bool {
        let edge = |end| self.ways[end].stream.edge;
        let (client, server) = (self.client, self.client.other_end());
        self.exchanges.close_oldest(|kind| match kind {
            Kind::Request => edge(client),
            Kind::Response => edge(server),
        });
        let Some(oldest) = self.exchanges.oldest_exchange() else {
            return false;
        };
        self.hand_over(oldest, sink);
        self.exchanges.drop_oldest();
        true
    }

    /// Tell the oldest exchange although its response may be still to come: false if there is none.
    pub(super) fn give_up_oldest(&mut self, sink: &mut ExchangeSink) -> bool {
        self.exchanges.give_up_oldest();
        self.report_oldest(sink)
    }

    /// Hand an exchange over that is done.
    #[inline(always)]
    fn hand_over(&self, exchange: &Exchange, sink: &mut ExchangeSink) {
        match &mut sink.counted {
            Some(distributions) => distributions.record_exchange(exchange, &self.handshake),
            None => self.keep_whole(exchange, sink),
        }
    }

    #[inline(never)]
    fn keep_whole(&self, exchange: &Exchange, sink: &mut ExchangeSink) {
        let stream = |end| &self.ways[end].stream;
        let (client, server) = (self.client, self.client.other_end());
        sink.kept.push(FinishedExchange {
            key: self.key,
            client,
            connection: self.number,
            handshake: self.handshake,
            mss: self.knows_mss.then_some(self.mss),
            sequence: stream(client).sequence_at(exchange.request.start),
            response_sequence: stream(server).sequence_at(exchange.response.start),
            exchange: *exchange,
            target: sink.targets.take_target((self.number, exchange.number)),
        });
    }
}
