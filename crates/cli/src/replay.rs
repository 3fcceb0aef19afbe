//! `stitchpool replay`: plays recorded traces through the pool and prints how well it did.

mod books;
mod figures;
mod player;
mod rig;
mod script;
mod table;
mod timing;

use crate::args::ReplayArgs;
use crate::progress;
use anyhow::{Context, Result};
use figures::{Figures, Outcome};
use player::{Manner, Player};
use rig::{Price, Rig};
use script::Script;
use std::path::Path;
use std::time::Duration;
use stitchpool_trace::{Limits, Trace};
use timing::Timing;

/// Plays all files; says whether nothing was refused and nothing was wrong.
pub fn run(args: &ReplayArgs) -> Result<bool> {
    let mut all = Vec::new();
    let mut is_good = true;
    for path in &args.files {
        let figures = replay(args, path).with_context(|| path.display().to_string())?;
        is_good &= figures.is_good();
        if args.json {
            println!("{}", serde_json::to_string(&figures)?);
        }
        all.push(figures);
    }
    if !args.json {
        println!("{}", table::table(&all));
        for figures in all.iter().filter(|figures| !figures.is_good()) {
            let words = [&figures.first_refusal, &figures.first_fault];
            for words in words.into_iter().flatten() {
                eprintln!("stitchpool: {}: {words}", figures.trace);
            }
        }
    }
    Ok(is_good)
}

/// Plays one file.
pub fn replay(args: &ReplayArgs, path: &Path) -> Result<Figures> {
    let trace = Trace::open(path, &Limits::default())?;
    let script = Script::new(&trace, args.scale)?;
    drop(trace);
    let rig = Rig::open(args, &script, Price::OfCard)?;
    let manner = Manner { rounds: args.repeat, is_checked: args.check, lag: Duration::from_millis(args.lag_ms) };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let bar = progress::bar(&name, Some(script.len() * u64::from(args.repeat)));
    let player = Player::play(&script, &rig, manner, &bar)?;
    bar.finish_and_clear();
    let (stats, verbs) = (rig.pool.stats(), figures::verbs(&rig));
    let books = player.end()?;
    let (driver, tally) = (rig.session.driver.name(), rig.session.kernels.tally()?);
    // The second run needs the memory of the first.
    drop(rig);
    let timing = Timing::of(&script, &Rig::open(args, &script, Price::OfClock)?)?;
    let outcome = Outcome { driver, books, stats, verbs, tally, timing };
    Ok(Figures::new(path.display().to_string(), &script, outcome))
}
