//! What the bytes of a connection go through. Each kind has an engine compiled for it: one that speaks TLS costs the
//! other nothing.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags};

use super::{DISCARD, Epoll, READ};
use crate::errors::Failure;
use crate::poller::EventFlags;
use ground::clock;

/// Without a handshake, unless it says otherwise.
pub trait Transport: Sized {
    /// The state of one connection.
    type Session: Default;
    /// Whether a new connection begins with a handshake.
    const SHAKES: bool;

    /// Go on with the handshake; whether it is over.
    #[inline]
    fn advance_handshake(&mut self, _: &OwnedFd, _: &mut Self::Session) -> Result<bool, Failure> {
        Ok(true)
    }

    /// Whether the server has not begun the handshake, as far as the client can tell: nothing was sent to it.
    #[inline]
    fn is_fresh(_: &Self::Session) -> bool {
        false
    }

    /// Whether the socket has not taken all that was accepted.
    #[inline]
    fn has_unsent(_: &Self::Session) -> bool {
        false
    }

    /// Send; how many of the bytes were accepted.
    fn send(
        &mut self,
        socket: &OwnedFd,
        session: &mut Self::Session,
        bytes: &[u8],
    ) -> rustix::io::Result<usize>;

    /// Read what there is of the reply that this slot waits for.
    fn receive_reply(engine: &mut Epoll<'_, Self>, index: u32, flags: EventFlags);

    /// Whether a connection without a request, of which the poller reports something, can still carry one.
    #[inline]
    fn can_outlive(&mut self, _: &OwnedFd, _: &mut Self::Session) -> bool {
        false
    }

    /// The connection is about to be closed.
    #[inline]
    fn close(&mut self, _: &OwnedFd, _: &mut Self::Session) {}
}

/// TCP alone.
pub struct Plain;

impl Transport for Plain {
    type Session = ();
    const SHAKES: bool = false;

    #[inline]
    fn send(&mut self, socket: &OwnedFd, (): &mut (), bytes: &[u8]) -> rustix::io::Result<usize> {
        net::send(socket, bytes, SendFlags::NOSIGNAL)
    }

    fn receive_reply(engine: &mut Epoll<'_, Self>, index: u32, flags: EventFlags) {
        loop {
            let slot = &mut engine.slots[index as usize];
            let Some(socket) = &slot.socket else { return };
            let skippable = slot.reply.skippable_bytes();
            let (wanted, how) = if skippable > 0 {
                (skippable.min(DISCARD as u64) as usize, RecvFlags::TRUNC)
            } else {
                (READ, RecvFlags::empty())
            };
            let count = match net::recv(socket, &mut engine.buffer[..wanted], how) {
                Ok((_, 0)) => return engine.end_of_stream(index),
                Ok((_, count)) => count,
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => continue,
                Err(errno) => return engine.handle_errno(index, errno),
            };
            let now = clock::monotonic_now();
            if slot.reply.is_untouched() {
                slot.exchange.first_byte = now;
            }
            let fed = if skippable > 0 {
                slot.reply.skip_bytes(count as u64);
                Ok(())
            } else {
                slot.reply
                    .feed_all(&engine.buffer[..count], &mut engine.last_head)
            };
            if let Err(breach) = fed {
                return engine.fail_request(index, Failure::Protocol(breach), now);
            }
            let hung_up = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
            if slot.reply.is_done() {
                return engine.complete_request(index, now, hung_up);
            }
            if count < wanted && !hung_up {
                return;
            }
        }
    }
}
