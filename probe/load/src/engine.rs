//! Which of the engines carries a load.

use anyhow::Context;
use schemars::JsonSchema;
use serde::Serialize;

use super::driver;
use super::epoll::{Epoll, Plain, Tls};
use super::job::{Job, Live, Pace, Window};
use super::plan::{EngineName, Plan};
use super::recorder::Recorder;
use super::ring;
use super::uring::Uring;

/// The way to the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Engine")]
pub struct Choice {
    /// `epoll` or `io_uring`.
    pub name: &'static str,
    pub reason: String,
}

impl Choice {
    /// The engine for the plan; an error when the one that was asked for cannot carry it.
    pub fn for_plan(plan: &Plan) -> Result<Self, String> {
        let choice = |name, reason: &str| Choice {
            name,
            reason: reason.to_owned(),
        };
        if plan.engine == EngineName::Epoll {
            return Ok(choice("epoll", "asked for"));
        }
        let asked = plan.engine == EngineName::IoUring;
        if plan.tls.is_some() {
            return match asked {
                true => Err("--engine io-uring does not speak TLS; leave --engine out".into()),
                false => Ok(choice("epoll", "TLS")),
            };
        }
        if !plan.new_connections {
            return match asked {
                true => Err(
                    "--engine io-uring carries new connections only; add --new-connections".into(),
                ),
                false => Ok(choice("epoll", "connections are kept")),
            };
        }
        match ring::find_obstacle() {
            None => Ok(choice("io_uring", "a new connection for each request")),
            Some(obstacle) if asked => Err(format!("{obstacle}; leave --engine out")),
            Some(obstacle) => Ok(choice("epoll", &obstacle)),
        }
    }
}

/// One thread's engine, connected as far as the plan wants it before the clock starts.
pub enum Worker<'a> {
    Epoll(Box<Epoll<'a, Plain>>),
    Tls(Box<Epoll<'a, Tls<'a>>>),
    Uring(Box<Uring<'a>>),
}

impl<'a> Worker<'a> {
    pub fn new(
        choice: &Choice,
        job: &'a Job<'a>,
        live: &'a Live,
        pool: u32,
    ) -> anyhow::Result<Self> {
        if choice.name == "io_uring" {
            let engine = Uring::new(job, live).context("cannot set io_uring up")?;
            return Ok(Self::Uring(Box::new(engine)));
        }
        if let Some(client) = &job.tls {
            let transport = Tls::new(client);
            let mut engine = Epoll::new(job, live, transport).context("cannot set epoll up")?;
            engine.open_pool(pool);
            return Ok(Self::Tls(Box::new(engine)));
        }
        let mut engine = Epoll::new(job, live, Plain).context("cannot set epoll up")?;
        engine.open_pool(pool);
        Ok(Self::Epoll(Box::new(engine)))
    }

    pub fn run(self, pace: Pace, window: Window) -> Recorder {
        match self {
            Self::Epoll(engine) => carry_requests(*engine, pace, window),
            Self::Tls(engine) => carry_requests(*engine, pace, window),
            Self::Uring(engine) => carry_requests(*engine, pace, window),
        }
    }
}

fn carry_requests<'a>(mut engine: impl driver::Engine<'a>, pace: Pace, window: Window) -> Recorder {
    driver::run(&mut engine, pace, window);
    engine.into_recorder()
}
