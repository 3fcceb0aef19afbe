//! `stitchpool report`: plays recorded traces and makes a page that shows where memory stood, and when.

mod calls;
mod document;
mod frames;
mod histogram;
mod map;
mod packed;
mod run;
mod sampler;
mod series;
mod span;
mod summary;

use crate::args::ReportArgs;
use crate::replay::{self, script::Script, witness::Witness};
use crate::say::say;
use anyhow::{Context, Result};
use histogram::Histograms;
use run::{Recorder, Run};
use sampler::Sampler;
use std::fs;
use std::path::Path;
use stitchpool_trace::Trace;
use summary::Summary;

/// Plays all files, writes the page, and says whether nothing was refused and nothing was wrong.
pub fn run(args: &ReportArgs) -> Result<bool> {
    let runs = args.replay.files.iter().map(|path| play(args, path)).collect::<Result<Vec<_>>>()?;
    let page = document::document(&runs)?;
    fs::write(&args.output, page).with_context(|| format!("cannot write the page {}", args.output.display()))?;
    let summaries: Vec<&Summary> = runs.iter().map(|run| &run.figures).collect();
    let said = if args.replay.json {
        summaries.iter().map(|summary| Ok(serde_json::to_string(summary)? + "\n")).collect::<Result<String>>()?
    } else {
        format!("{}{}\n", summary::tables(&summaries), args.output.display())
    };
    say(&said)?;
    Ok(runs.iter().all(|run| run.figures.figures.is_good()))
}

/// What is known of a run before it is played, and what is seen while it is.
struct Look {
    recorder: Recorder,
    ordinals: Vec<u32>,
    histograms: Histograms,
    sampler: Sampler,
}

fn play(args: &ReportArgs, path: &Path) -> Result<Run> {
    let look = |trace: &Trace, script: &Script| Look {
        recorder: Recorder::from(&trace.source),
        ordinals: script.ordinals.clone(),
        histograms: Histograms::of(script),
        sampler: Sampler::new(trace, script, &args.replay),
    };
    let (figures, Look { recorder, ordinals, histograms, sampler }) = replay::play(&args.replay, path, look)?;
    Ok(Run::new(Summary::new(figures), recorder, &ordinals, histograms, sampler))
}

impl Witness for Look {
    fn see(&mut self, sight: replay::witness::Sight, rig: &replay::rig::Rig, books: &replay::books::Books) {
        self.sampler.see(sight, rig, books);
    }
}
