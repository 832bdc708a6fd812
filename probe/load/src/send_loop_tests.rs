use std::sync::atomic::AtomicBool;

use super::super::arguments::tests::plan;
use super::super::request;
use super::super::thread_job::Pace;
use super::*;

/// An engine that takes longer to send than the schedule gives it, and hears of nothing but by waiting: of all that
/// was sent, if there are replies.
struct Slow<'a> {
    engine_state: EngineState<'a>,
    launched: usize,
    waited: usize,
    slots: u32,
    asked: Vec<u32>,
    replies: bool,
    enough: usize,
    stop: &'a AtomicBool,
}

/// So many requests before the user wants to stop.
const ENOUGH: usize = 300;

impl<'a> Engine<'a> for Slow<'a> {
    fn engine_state(&mut self) -> &mut EngineState<'a> {
        &mut self.engine_state
    }

    fn take_slot(&mut self) -> u32 {
        self.slots += 1;
        self.slots - 1
    }

    fn launch_request(&mut self, index: u32, _exchange: Exchange, _request: usize) {
        let now = clock::monotonic_now();
        poller::spin_until(now + 20_000);
        self.asked.push(index);
        self.launched += 1;
        let is_enough = self.launched >= self.enough;
        self.stop.store(is_enough, Ordering::Relaxed);
    }

    fn rest_connection(&mut self, _index: u32, _now: Nanoseconds) {}

    fn wait(&mut self, _timeout: Nanoseconds) -> bool {
        self.waited += 1;
        if !self.replies {
            // Where a busy host made it give up all of them, nothing else would end it.
            if self.engine_state.pace.next_due() == clock::NEVER {
                self.stop.store(true, Ordering::Relaxed);
            }
            return false;
        }
        let replied = std::mem::take(&mut self.asked);
        for index in &replied {
            self.engine_state.busy -= 1;
            after_reply(self, *index, clock::monotonic_now(), true);
            send_between(self);
        }
        !replied.is_empty()
    }

    fn give_up(&mut self, _limit: Nanoseconds, _now: Nanoseconds) {}

    fn under_way(&self) -> Vec<Exchange> {
        Vec::new()
    }

    fn close_all(&mut self) {}
}

/// An open loop on it that is behind from the begin, until the user wants to stop: requests begun, waits, places for
/// connections, and what was written down.
fn fall_behind(replies: bool, enough: usize, timeout: &str) -> (usize, usize, u32, Recorder) {
    let line = "http://127.0.0.1/ --mode open --rate 1000000 --duration 100ms --timeout ";
    let plan = plan(&format!("{line}{timeout}")).unwrap();
    let stop = AtomicBool::new(false);
    let job = Job {
        address: "127.0.0.1:80".parse().unwrap(),
        requests: request::build_requests(&plan),
        turn: vec![0],
        tls: None,
        timeout: plan.timeout,
        new_connections: false,
        stop: &stop,
    };
    let live = Live::default();
    let mut engine = Slow {
        engine_state: EngineState::new(&job, &live),
        launched: 0,
        waited: 0,
        slots: 0,
        asked: Vec::new(),
        replies,
        enough,
        stop: &stop,
    };
    let window = Window::new(&plan, clock::monotonic_now());
    let recorder = run(&mut engine, Pace::new(&plan, 0, window), window);
    (engine.launched, engine.waited, engine.slots, recorder)
}

#[test]
fn what_an_open_loop_has_not_begun_when_it_would_be_given_up_is_given_up() {
    let (launched, _, _, recorder) = fall_behind(true, usize::MAX, "10ms");
    // Of 100 ms of requests; the last of them is given up 10 ms after its time.
    assert!(launched < 110 * MILLISECOND as usize / 20_000, "{launched}");
    assert_eq!(recorder.attempted, recorder.errors.unbegun);
    assert_eq!(launched as u64 + recorder.attempted, 100_000);
}

#[test]
fn an_open_loop_that_is_behind_still_hears_of_replies_and_of_the_users_wish_to_stop() {
    let (launched, waited, ..) = fall_behind(false, ENOUGH, "50ms");
    // Of 100,000 that were due. The wish is looked after each millisecond, in which it sends some fifty.
    assert!(launched < 10 * ENOUGH, "{launched}");
    assert!(waited * 50 > launched, "{waited}");
}

#[test]
fn an_open_loop_that_is_behind_reads_replies_instead_of_opening_connections() {
    let (launched, _, slots, _) = fall_behind(true, ENOUGH, "60s");
    assert!(launched >= ENOUGH, "{launched}");
    assert!(u64::from(slots) <= AT_ONCE, "{slots}");
}
