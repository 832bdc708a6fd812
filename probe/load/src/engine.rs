//! Which of the engines carries a load.

use anyhow::Context;
use schemars::JsonSchema;
use serde::Serialize;

use super::epoll::{Epoll, Plain, Tls, Transport};
use super::plan::{EngineName, Plan};
use super::recorder::Recorder;
use super::send_loop;
use super::thread_job::{Job, Live, Pace, Window};
use super::uring::{self, Uring};

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
        let unfit = if plan.tls.is_some() {
            Some(("TLS", "does not speak TLS; leave --engine out"))
        } else if !plan.new_connections {
            let remedy = "carries new connections only; add --new-connections";
            Some(("connections are kept", remedy))
        } else {
            None
        };
        match unfit {
            Some((_, remedy)) if asked => return Err(format!("--engine io-uring {remedy}")),
            Some((reason, _)) => return Ok(choice("epoll", reason)),
            None => {}
        }
        match uring::find_obstacle() {
            None => Ok(choice("io_uring", "a new connection for each request")),
            Some(obstacle) if asked => Err(format!("{obstacle}; leave --engine out")),
            Some(obstacle) => Ok(choice("epoll", &obstacle)),
        }
    }
}

/// One thread's engine, connected as far as the plan wants it before the clock starts. It carries requests once.
pub type Worker<'a> = Box<dyn FnOnce(Pace, Window) -> Recorder + 'a>;

pub fn prepare_worker<'a>(
    choice: &Choice,
    job: &'a Job<'a>,
    live: &'a Live,
    pool: u32,
) -> anyhow::Result<Worker<'a>> {
    if choice.name == "io_uring" {
        let engine = Uring::new(job, live).context("cannot set io_uring up")?;
        return Ok(wrap_engine(engine));
    }
    match &job.tls {
        Some(client) => prepare_epoll(job, live, Tls::new(client), pool),
        None => prepare_epoll(job, live, Plain, pool),
    }
}

fn prepare_epoll<'a, T: Transport + 'a>(
    job: &'a Job<'a>,
    live: &'a Live,
    transport: T,
    pool: u32,
) -> anyhow::Result<Worker<'a>> {
    let mut engine = Epoll::new(job, live, transport).context("cannot set epoll up")?;
    engine.open_pool(pool);
    Ok(wrap_engine(engine))
}

fn wrap_engine<'a>(mut engine: impl send_loop::Engine<'a> + 'a) -> Worker<'a> {
    Box::new(move |pace, window| send_loop::run(&mut engine, pace, window))
}
