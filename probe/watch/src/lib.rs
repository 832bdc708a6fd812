//! What a machine is and what happens on it: facts, samples, noise, clocks, and what may run on which CPU.

pub mod bystanders;
pub mod clock;
pub mod cpuset;
pub mod facts;
mod irq;
pub mod noise;
pub mod sample;
#[cfg(test)]
mod sample_kernel;
mod threads;
