//! Which of the engines carries a load.

use super::arguments::{EngineName, Plan};
use super::epoll;
use super::job::{Job, Live, Pace, Window};
use super::recorder::Recorder;

/// The engine that was taken, and why not the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    pub name: &'static str,
    pub reason: String,
}

impl Choice {
    pub fn for_plan(plan: &Plan) -> Result<Self, String> {
        match plan.engine {
            EngineName::IoUring => Err("--engine io-uring is not built in".into()),
            EngineName::Auto | EngineName::Epoll => Ok(Self {
                name: "epoll",
                reason: "kept connections".into(),
            }),
        }
    }
}

/// One thread's engine, connected as far as the plan wants it before the clock starts.
pub enum Worker<'a> {
    Epoll(Box<epoll::Engine<'a>>),
}

impl<'a> Worker<'a> {
    pub fn new(
        _choice: &Choice,
        job: &'a Job<'a>,
        live: &'a Live,
        pool: u32,
    ) -> anyhow::Result<Self> {
        let mut engine = epoll::Engine::new(job, live)?;
        engine.open_pool(pool);
        Ok(Self::Epoll(Box::new(engine)))
    }

    pub fn run(self, pace: Pace, window: Window) -> Recorder {
        match self {
            Self::Epoll(engine) => engine.run(pace, window),
        }
    }
}
