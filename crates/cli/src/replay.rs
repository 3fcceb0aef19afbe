//! `stitchpool replay`: plays recorded traces through the pool and prints how well it did.

pub mod books;
pub mod figures;
mod player;
pub mod rig;
pub mod script;
mod table;
mod timing;
pub mod witness;

use crate::args::ReplayArgs;
use crate::progress;
use crate::say::{complain, say};
use anyhow::{Context, Result};
use figures::{Figures, Outcome};
use player::{Audience, Manner, Player};
use rig::{Price, Rig};
use script::Script;
use std::path::Path;
use std::time::Duration;
use stitchpool_trace::{Limits, Trace};
use timing::Timing;
use witness::Witness;

/// Plays all files; says whether nothing was refused and nothing was wrong.
pub fn run(args: &ReplayArgs) -> Result<bool> {
    let mut all = Vec::new();
    let mut is_good = true;
    for path in &args.files {
        let (figures, ()) = play(args, path, |_, _| ())?;
        is_good &= figures.is_good();
        if args.json {
            say(&(serde_json::to_string(&figures)? + "\n"))?;
        }
        all.push(figures);
    }
    if !args.json {
        say(&format!("{}\n", table::table(&all)))?;
        for figures in all.iter().filter(|figures| !figures.is_good()) {
            let words = [&figures.first_refusal, &figures.first_fault];
            for words in words.into_iter().flatten() {
                complain(&format!("stitchpool: {}: {words}", figures.trace));
            }
        }
    }
    Ok(is_good)
}

/// Plays a file before a witness, who is called in when it is known what will be played.
pub fn play<W: Witness>(
    args: &ReplayArgs,
    path: &Path,
    call: impl FnOnce(&Trace, &Script) -> W,
) -> Result<(Figures, W)> {
    play_file(args, path, call).with_context(|| path.display().to_string())
}

fn play_file<W: Witness>(
    args: &ReplayArgs,
    path: &Path,
    call: impl FnOnce(&Trace, &Script) -> W,
) -> Result<(Figures, W)> {
    let trace = Trace::open(path, &Limits::default())?;
    let script = Script::new(&trace, args.scale)?;
    let mut witness = call(&trace, &script);
    drop(trace);
    let rig = Rig::open(args, &script, Price::OfCard)?;
    let manner = Manner { rounds: args.repeat, is_checked: args.check, lag: Duration::from_millis(args.lag_ms) };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let bar = progress::bar(&name, Some(script.len() * u64::from(args.repeat)));
    let player = Player::play(&script, &rig, manner, Audience { bar: &bar, witness: &mut witness })?;
    bar.finish_and_clear();
    // Asking for the figures asks the driver too, which is not part of the run.
    let (verbs, stats) = (figures::verbs(&rig), rig.pool.stats());
    let books = player.end()?;
    let (driver, tally) = (rig.session.driver.name(), rig.session.kernels.tally()?);
    // The second run needs the memory of the first.
    drop(rig);
    let timing = Timing::of(&script, &Rig::open(args, &script, Price::OfClock)?)?;
    let outcome = Outcome { driver, books, stats, verbs, tally, timing };
    Ok((Figures::new(path.display().to_string(), &script, outcome), witness))
}
