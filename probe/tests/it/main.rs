//! The probe as its callers see it: each verb run as a program, on the machine that tests.
//!
//! One binary for all: linking one a file took longer than running them.

#[macro_use]
mod support;

mod at;
mod clock;
mod facts;
mod hold;
mod launch;
mod link;
mod load_hostile;
mod load_modes;
mod load_priority;
mod load_support;
mod noise;
mod output;
mod sample;
mod schemas;
mod serve_behaviour;
mod trace_bodies;
mod trace_connections;
mod trace_copies;
mod trace_formats;
mod trace_join;
mod trace_join_cable;
mod trace_join_odd;
mod trace_missed;
mod trace_odd;
mod trace_order;
mod trace_pipelined;
mod trace_protocols;
mod trace_real;
mod trace_requests;
mod trace_segments;
mod trace_support;
mod trace_writes;
mod usage;
