//! What one thread measures. Only requests that were meant to be sent within the window count.

use super::errors::{Errors, Failure, add_fields};
use super::latency_growth::Growth;
use super::reply::Reply;
use super::statuses::{self, Statuses};
use super::thread_job::Window;
use ground::clock::{MILLISECOND, Nanoseconds};
use ground::statistics::Durations;

/// Replies are counted in intervals as long as this, which are joined to samples of the reply rate.
pub const GRAIN: Nanoseconds = 100 * MILLISECOND;
/// The share of the replies that tell whether a server keeps up.
const MOST: f64 = 0.99;

/// The times of one request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exchange {
    /// When it should have been sent: by the schedule, or when the worker's last reply was there.
    pub intended: Nanoseconds,
    /// When the generator turned to it: to connect, or to send on a connection it had.
    pub launched: Nanoseconds,
    /// When its first byte was handed to the kernel, the last time if it was sent again.
    pub sent: Nanoseconds,
    pub first_byte: Nanoseconds,
    /// Whether it is among those that are counted as sent.
    pub is_counted: bool,
}

impl Exchange {
    /// The generator turns to the request: for the first time, or once more because a connection was closed.
    #[inline]
    pub fn launch_at(&mut self, now: Nanoseconds) {
        if self.launched == 0 {
            self.launched = now;
        }
    }
}

/// The life of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Life {
    pub opened: Nanoseconds,
    /// 0 until it is connected.
    pub connected: Nanoseconds,
    /// When the TLS handshake was over; 0 without one.
    pub shaken: Nanoseconds,
    /// This thread's processor time for it.
    pub shaking: Nanoseconds,
    /// Whether a measured request went over it.
    pub counted: bool,
}

/// TLS handshakes of the connections that carried a measured request.
#[derive(Clone, Default)]
pub struct Handshakes {
    /// From connected until the handshake was over.
    pub time: Durations,
    /// The generator's processor time for it.
    pub cpu: Durations,
}

#[derive(Clone, Default)]
pub struct Recorder {
    pub latency: Durations,
    /// Of those of one window; a ramp's steps have each their own.
    pub growth: Growth,
    /// Of the latencies, those of replies that are errors; it takes no memory before there is one.
    pub error_latency: Option<Box<Durations>>,
    pub service: Durations,
    pub connection: Durations,
    pub connect: Durations,
    /// It takes no memory before there is one.
    pub handshakes: Option<Box<Handshakes>>,
    pub first_byte: Durations,
    pub transfer: Durations,
    pub lateness: Durations,
    pub attempted: u64,
    pub sent: u64,
    pub completed: u64,
    pub abandoned: u64,
    /// How long the abandoned one that waited the longest had waited since it was due.
    pub abandoned_after: Nanoseconds,
    /// Requests that were sent again because the server had closed the kept connection.
    pub resent: u64,
    /// Replies with which, or soon after which, the server ended a connection that would have been used again.
    pub unkept: u64,
    pub opened: u64,
    pub concurrent_max: u64,
    pub burst_max: u64,
    pub statuses: Statuses,
    /// Of the replies that were complete within the window, whenever they were asked for.
    pub statuses_in_window: Statuses,
    pub errors: Errors,
    pub sent_bytes: u64,
    pub header_bytes: u64,
    pub body_bytes: u64,
    /// Replies in each interval of [`GRAIN`] since the window's start.
    pub grains: Vec<u32>,
    /// When the first and the last measured request should have been sent.
    pub first_intended: Nanoseconds,
    pub last_intended: Nanoseconds,
    /// When the generator turned to the last of those that are over.
    pub last_launched: Nanoseconds,
    /// When the last measured request was answered or had failed.
    pub last: Nanoseconds,
    /// When the last measured request that was answered had its reply.
    pub last_reply: Nanoseconds,
    /// Processor time of this thread since the window's start, user and system.
    pub cpu: (Nanoseconds, Nanoseconds),
    /// The largest share of the processor that one thread took.
    pub busiest: f64,
    /// Whether every thread ran ahead of ordinary ones.
    pub real_time: bool,
}

impl Recorder {
    /// A request of the window goes out over this connection.
    #[inline]
    pub fn record_sent(&mut self, exchange: &mut Exchange, life: &mut Life, window: &Window) {
        if !window.contains(exchange.intended) {
            return;
        }
        self.sent += u64::from(!exchange.is_counted);
        exchange.is_counted = true;
        if !life.counted {
            life.counted = true;
            self.opened += 1;
            self.connect.record_duration(life.connected - life.opened);
            if life.shaken > 0 {
                let handshakes = self.handshakes.get_or_insert_default();
                let time = life.shaken - life.connected;
                handshakes.time.record_duration(time);
                handshakes.cpu.record_duration(life.shaking);
            }
        }
    }

    #[inline]
    pub fn record_completed(
        &mut self,
        exchange: &Exchange,
        reply: &Reply,
        (last_byte, request_bytes): (Nanoseconds, usize),
        window: &Window,
    ) {
        if window.contains(last_byte) {
            self.statuses_in_window.count_status(reply.status);
            let grain = ((last_byte - window.start) / GRAIN) as usize;
            if self.grains.len() <= grain {
                self.grains.resize(grain + 1, 0);
            }
            self.grains[grain] += 1;
        }
        if !window.contains(exchange.intended) {
            return;
        }
        self.record_attempt(exchange, last_byte);
        self.last_reply = last_byte;
        self.completed += 1;
        let latency = last_byte - exchange.intended;
        self.latency.record_duration(latency);
        self.growth
            .record_latency(exchange.intended - window.start, latency);
        self.service.record_duration(last_byte - exchange.sent);
        self.first_byte
            .record_duration(exchange.first_byte - exchange.sent);
        self.transfer
            .record_duration(last_byte - exchange.first_byte);
        self.statuses.count_status(reply.status);
        if statuses::is_error(reply.status) {
            let errors = self.error_latency.get_or_insert_default();
            errors.record_duration(latency);
        }
        self.sent_bytes += request_bytes as u64;
        self.header_bytes += reply.header_bytes();
        self.body_bytes += reply.body;
    }

    /// Replies that were complete within the window, whenever they were asked for.
    pub fn replies_in_window(&self) -> u64 {
        self.statuses_in_window.count_all()
    }

    /// How long before the window's end, or before the last request was over, the last reply came.
    ///
    /// A request that is lost alone makes no silence: replies to the others go on until the window ends.
    pub fn last_silence(&self, elapsed: Nanoseconds) -> Nanoseconds {
        let since = |at: Nanoseconds| at.saturating_sub(self.first_intended);
        let heard = if self.completed > 0 {
            since(self.last_reply)
        } else {
            0
        };
        since(self.last).min(elapsed).saturating_sub(heard)
    }

    /// Requests that no page was got for: they failed, or an error page came.
    pub fn turned_away(&self) -> u64 {
        self.errors.count_all() + self.statuses.list_errors().values().sum::<u64>()
    }

    /// By how much the last of the replies is later than it would be if the server kept up, where it came at `last`: each
    /// of three tells of no less, and the least is it.
    ///
    /// - The last reply itself, less the quickest one's way: that a server is far away makes its replies no fewer.
    /// - All but the latest 1 %: a few that are late by themselves, as after a packet that was lost, say nothing of a
    ///   server's rate. One that falls behind makes requests wait the longer the later they were due.
    /// - That growth, of all, of the slowest tenth, or of how many are outstanding: pages that take long among some that do
    ///   not have none.
    pub fn reply_lag(&self, last: Nanoseconds) -> Nanoseconds {
        let quickest = self.latency.find_quantile(0.0).unwrap_or(0);
        let most = self.latency.find_quantile(MOST).unwrap_or(0);
        let sending = self.last_intended.saturating_sub(self.first_intended);
        last.saturating_sub(self.last_intended)
            .saturating_sub(quickest)
            .min((most.saturating_sub(quickest) as f64 / MOST) as Nanoseconds)
            .min(self.growth.growth_within(sending))
    }

    /// How long replies took to come, from the first on and an interval after the last included, as one is in the time in
    /// which requests are due. Those that are late by themselves are left out, as in [`Self::reply_lag`].
    pub fn answering_time(&self) -> Nanoseconds {
        let span = self
            .last_intended
            .min(self.last_reply)
            .saturating_sub(self.first_intended)
            + self.reply_lag(self.last_reply);
        // An interval is that of all requests: those between the replies may have failed.
        match self.attempted.checked_sub(1) {
            Some(intervals) if intervals > 0 => span + span / intervals,
            _ => span,
        }
    }

    #[inline]
    fn record_begun(&mut self, exchange: &Exchange) {
        if self.attempted == 0 || exchange.intended < self.first_intended {
            self.first_intended = exchange.intended;
        }
        self.attempted += 1;
    }

    #[inline]
    fn record_attempt(&mut self, exchange: &Exchange, now: Nanoseconds) {
        self.record_begun(exchange);
        self.last_intended = self.last_intended.max(exchange.intended);
        self.last_launched = self.last_launched.max(exchange.launched);
        self.lateness
            .record_duration(exchange.launched.saturating_sub(exchange.intended));
        self.last = now;
    }

    /// The server ended the connection that this reply came over.
    pub fn not_kept(&mut self, exchange: &Exchange, window: &Window) {
        self.unkept += u64::from(window.contains(exchange.intended));
    }

    /// The request was sent again, for the server had closed the connection.
    pub fn sent_again(&mut self, exchange: &Exchange, window: &Window) {
        self.resent += u64::from(window.contains(exchange.intended));
    }

    pub fn record_failed(
        &mut self,
        exchange: &Exchange,
        failure: Failure,
        now: Nanoseconds,
        window: &Window,
    ) {
        if window.contains(exchange.intended) {
            self.record_attempt(exchange, now);
            self.errors.count_failure(failure);
        }
    }

    /// A request still under way when the user ended the run.
    pub fn record_abandoned(&mut self, exchange: &Exchange, now: Nanoseconds, window: &Window) {
        if window.contains(exchange.intended) {
            self.record_begun(exchange);
            self.abandoned += 1;
            let waited = now.saturating_sub(exchange.intended);
            self.abandoned_after = self.abandoned_after.max(waited);
        }
    }

    pub fn record_closed(&mut self, life: &Life, now: Nanoseconds) {
        if life.counted {
            self.connection.record_duration(now - life.opened);
        }
    }

    pub fn merge(&mut self, other: &Self) {
        self.real_time &= other.real_time;
        self.first_intended = match (self.attempted, other.attempted) {
            (0, _) => other.first_intended,
            (_, 0) => self.first_intended,
            _ => self.first_intended.min(other.first_intended),
        };
        self.last_intended = self.last_intended.max(other.last_intended);
        self.last_launched = self.last_launched.max(other.last_launched);
        self.abandoned_after = self.abandoned_after.max(other.abandoned_after);
        for (mine, theirs) in [
            (&mut self.latency, &other.latency),
            (&mut self.service, &other.service),
            (&mut self.connection, &other.connection),
            (&mut self.connect, &other.connect),
            (&mut self.first_byte, &other.first_byte),
            (&mut self.transfer, &other.transfer),
            (&mut self.lateness, &other.lateness),
        ] {
            mine.merge(theirs);
        }
        self.growth.merge(&other.growth);
        if let Some(theirs) = &other.handshakes {
            let mine = self.handshakes.get_or_insert_default();
            mine.time.merge(&theirs.time);
            mine.cpu.merge(&theirs.cpu);
        }
        if let Some(theirs) = &other.error_latency {
            self.error_latency.get_or_insert_default().merge(theirs);
        }
        add_fields! {
            self, other,
            attempted sent completed abandoned resent unkept opened concurrent_max sent_bytes
            header_bytes body_bytes
        }
        self.cpu.0 += other.cpu.0;
        self.cpu.1 += other.cpu.1;
        self.statuses.merge(&other.statuses);
        self.statuses_in_window.merge(&other.statuses_in_window);
        self.grains
            .resize(self.grains.len().max(other.grains.len()), 0);
        for (mine, theirs) in self.grains.iter_mut().zip(&other.grains) {
            *mine += theirs;
        }
        self.errors.merge(&other.errors);
        self.burst_max = self.burst_max.max(other.burst_max);
        self.last = self.last.max(other.last);
        self.last_reply = self.last_reply.max(other.last_reply);
        self.busiest = self.busiest.max(other.busiest);
    }
}

#[cfg(test)]
mod tests {
    use super::super::reply::LastHead;
    use super::*;

    const WINDOW: Window = Window {
        begin: 0,
        start: 100,
        end: 200,
    };

    #[test]
    fn a_reply_after_the_windows_end_is_its_requests_and_not_the_windows() {
        let mut found = Recorder::default();
        for (intended, last_byte, head) in [
            (110, 199, "HTTP/1.1 204 \r\n\r\n"),
            (120, 150, "HTTP/1.1 404 \r\nContent-Length: 0\r\n\r\n"),
            (199, 200, "HTTP/1.1 204 \r\n\r\n"),
        ] {
            let (mut reply, mut last) = (Reply::default(), LastHead::default());
            reply.feed_all(head.as_bytes(), &mut last).unwrap();
            let exchange = Exchange {
                intended,
                launched: intended,
                sent: intended,
                first_byte: last_byte,
                ..Exchange::default()
            };
            found.record_completed(&exchange, &reply, (last_byte, 0), &WINDOW);
        }
        assert_eq!((found.completed, found.replies_in_window()), (3, 2));
        let seen = |statuses: &Statuses| statuses.list_seen().into_values().collect::<Vec<_>>();
        assert_eq!(seen(&found.statuses), [2, 1]);
        let errors = |found: &Recorder| {
            let latency = found.error_latency.as_ref();
            latency.map(|errors| errors.summarize_durations())
        };
        assert_eq!(found.latency.count_all(), 3);
        assert_eq!(errors(&found).map(|errors| errors.count), Some(1));
        assert_eq!(seen(&found.statuses_in_window), [1, 1]);
        let mut both = found.clone();
        both.merge(&found);
        assert_eq!((both.replies_in_window(), both.last_reply), (4, 200));
        let errors = errors(&both).map(|errors| (errors.count, errors.max));
        assert_eq!(errors, Some((2, Some(30))));
    }

    #[test]
    fn silence_is_what_is_left_of_the_window_after_the_last_reply() {
        let silence = |completed, last_reply, last| {
            let found = Recorder {
                completed,
                last_reply,
                last,
                first_intended: 100,
                ..Recorder::default()
            };
            found.last_silence(1000)
        };
        assert_eq!(silence(9, 1090, 1090), 0);
        assert_eq!(silence(9, 1090, 6000), 10, "one that was lost alone");
        assert_eq!(silence(9, 400, 6000), 700);
        assert_eq!(silence(0, 0, 6000), 1000);
        assert_eq!(silence(0, 0, 0), 0, "none was due");
    }

    #[test]
    fn a_thread_whose_requests_were_all_abandoned_began_when_they_were_due() {
        let due = |intended| Exchange {
            intended,
            ..Exchange::default()
        };
        let mut found = Recorder::default();
        found.record_failed(&due(120), Failure::ClientTimeout, 150, &WINDOW);
        let mut other = Recorder::default();
        other.record_abandoned(&due(130), 180, &WINDOW);
        found.merge(&other);
        assert_eq!((found.attempted, found.first_intended), (2, 120));
        assert_eq!((found.abandoned, found.abandoned_after), (1, 50));
        other.merge(&found);
        assert_eq!(other.first_intended, 120);
    }
}
