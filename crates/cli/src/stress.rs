//! `stitchpool stress`: threads use a pool at random, and every byte is looked at again.

mod dice;
mod event_log;
mod exchange;
mod figures;
mod holding;
mod rig;
mod table;
mod worker;

use crate::args::StressArgs;
use crate::progress;
use crate::say::{complain, say};
use anyhow::{Context, Result};
use event_log::Event;
use exchange::Exchange;
use figures::{Figures, Outcome};
use rig::Rig;
use std::time::{Duration, Instant};
use worker::{Until, Worker};

/// Between two rounds all threads stand still, and the pool is checked.
const ROUND: Duration = Duration::from_secs(1);
const SECONDS: f64 = 10.0;
const EVENTS_TOLD: usize = 200;

/// Runs; says whether all was well.
pub fn run(args: &StressArgs) -> Result<bool> {
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..));
    let figures = stress(args, seed)?;
    if args.json {
        say(&(serde_json::to_string(&figures)? + "\n"))?;
    } else {
        say(&format!("{}\n", table::table(&figures)))?;
        figures.failures.iter().for_each(|failure| complain(&format!("stitchpool: {failure}")));
    }
    Ok(figures.ok)
}

fn stress(args: &StressArgs, seed: u64) -> Result<Figures> {
    let rig = Rig::open(args)?;
    let threads = usize::from(args.threads);
    let mut workers: Vec<Worker> =
        (0..threads).map(|index| Worker::new(&rig, index, threads, seed)).collect::<Result<_>>()?;
    let (exchange, start) = (Exchange::default(), Instant::now());
    let mut failures = rounds(args, &rig, &mut workers, &exchange);
    let seconds = start.elapsed().as_secs_f64();
    if let Some(faulty) = &rig.faulty {
        faulty.clear();
    }
    if !failures.is_empty() {
        tell(&workers);
    }
    for worker in &mut workers {
        failures.extend(worker.clear(&rig, &exchange).err().map(|error| format!("{error:#}")));
    }
    let counts = workers.iter().map(|worker| worker.counts).collect();
    for worker in workers {
        failures.extend(worker.end(&rig).err().map(|error| format!("{error:#}")));
    }
    rig.lanes.iter().try_for_each(|lane| lane.finish()).context("the streams do not end")?;
    failures.extend(rig.pool.check().err());
    let (stats, tally) = (rig.pool.stats(), rig.session.kernels.tally()?);
    let (driver, streams) = (rig.session.driver.name(), rig.lanes.len());
    let calls_failed = rig.faulty.as_ref().map_or(0, |faulty| faulty.failed());
    let (session, left) = rig.end();
    if let Some(ledger) = session.host.as_ref().map(|host| host.ledger()) {
        let theirs = (ledger.handles, ledger.reservations, ledger.events);
        if theirs != (left.handles, left.reservations, left.events) {
            failures.push(format!("the pool's calls leave {left:?}, the driver's ledger has {ledger:?}"));
        }
        if ledger.refusals > 0 {
            failures.push(format!("the driver was misused {} times: {:?}", ledger.refusals, ledger.last_refusal));
        }
    }
    let devices = args.devices;
    let outcome =
        Outcome { driver, devices, streams, seconds, seed, counts, stats, tally, left, calls_failed, failures };
    Ok(Figures::new(outcome))
}

/// Plays rounds until time or operations are used up, or something goes wrong.
fn rounds(args: &StressArgs, rig: &Rig, workers: &mut [Worker], exchange: &Exchange) -> Vec<String> {
    let seconds = args.seconds.or(if args.ops.is_some() { None } else { Some(SECONDS) });
    let limit = seconds.map_or(Duration::MAX, Duration::from_secs_f64);
    let start = Instant::now();
    let bar = progress::bar("stress", seconds.map(|seconds| seconds.ceil() as u64));
    loop {
        let left = limit.saturating_sub(start.elapsed());
        let time = Instant::now() + left.min(ROUND);
        let failures = round(args, rig, workers, exchange, time);
        bar.set_position(start.elapsed().as_secs());
        let is_done = args.ops.is_some_and(|ops| workers.iter().map(|worker| worker.counts.ops).sum::<u64>() >= ops);
        if !failures.is_empty() || is_done || start.elapsed() >= limit {
            bar.finish_and_clear();
            return failures;
        }
    }
}

/// Lets all threads run until `time`, then looks at the pool while they stand still.
fn round(args: &StressArgs, rig: &Rig, workers: &mut [Worker], exchange: &Exchange, time: Instant) -> Vec<String> {
    let threads = workers.len() as u64;
    let share = |index: u64| args.ops.map_or(u64::MAX, |ops| ops / threads + u64::from(index < ops % threads));
    let mut failures: Vec<String> = std::thread::scope(|scope| {
        let running = workers.iter_mut().zip(0..).map(|(worker, index)| {
            let until = Until { time, ops: share(index) };
            scope.spawn(move || worker.round(rig, exchange, until))
        });
        let running: Vec<_> = running.collect();
        let ended = running.into_iter().map(|thread| match thread.join() {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(format!("{error:#}")),
            Err(_) => Some("a thread panicked".to_owned()),
        });
        ended.flatten().collect()
    });
    failures.extend(rig.pool.check().err());
    match rig.session.kernels.tally() {
        Ok(tally) if tally.wrong_bytes == 0 && tally.faults.is_empty() => {}
        // The figures tell of it.
        Ok(_) => failures.push("wrong bytes or accesses were seen; the last events are on stderr".to_owned()),
        Err(error) => failures.push(error.to_string()),
    }
    failures
}

/// Tells what was done last.
fn tell(workers: &[Worker]) {
    let mut events: Vec<&Event> = workers.iter().flat_map(|worker| worker.log.events()).collect();
    events.sort_unstable_by_key(|event| event.number);
    for event in &events[events.len().saturating_sub(EVENTS_TOLD)..] {
        complain(&event.to_string());
    }
}
