//! What a connection hands over of an exchange that is done.

use super::Connection;
use crate::exchange::Exchange;
use crate::findings::Done;
use crate::request_line::FinishedExchange;

impl Connection {
    #[inline(always)]
    pub(super) fn hand_over(&self, exchange: &Exchange, done: &mut Done) {
        match &mut done.counted {
            Some(distributions) => distributions.record_exchange(exchange, &self.handshake),
            None => self.keep_whole(exchange, done),
        }
    }

    #[inline(never)]
    fn keep_whole(&self, exchange: &Exchange, done: &mut Done) {
        let stream = |end| &self.ways[end].stream;
        let (client, server) = (self.client, self.client.other_end());
        done.kept.push(FinishedExchange {
            key: self.key,
            client,
            connection: self.number,
            handshake: self.handshake,
            mss: self.knows_mss.then_some(self.mss),
            sequence: stream(client).sequence_at(exchange.request.start),
            response_sequence: stream(server).sequence_at(exchange.response.start),
            exchange: *exchange,
            target: done.targets.take_target((self.number, exchange.number)),
        });
    }
}
