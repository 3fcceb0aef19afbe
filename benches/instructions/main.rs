//! Instructions of a pair on the hit path, counted by valgrind: a count does not depend on what else
//! the machine does. Fails where one is more than a twentieth above what is written down here; says so and
//! passes where there is no valgrind. `cargo bench --bench instructions`.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

#[path = "../speed/churn.rs"]
mod churn;
#[path = "../speed/contender.rs"]
#[allow(dead_code)]
mod contender;

use churn::{Churn, Sizes};
use contender::{Contender, Stitchpool};
use std::hint::black_box;
use std::process::{Command, ExitCode};

/// What is played, and how many instructions a pair took when that was last looked at (Rust 1.95,
/// x86-64). Lower them when they fall.
const SCENARIOS: &[Scenario] = &[
    Scenario { name: "pair", play: pairs, bound: 153 },
    Scenario { name: "churn", play: churn_mixed, bound: 1019 },
    Scenario { name: "growth", play: churn_many, bound: 1207 },
];
const PAIRS: u64 = 10_000;
/// Above the bound by more than this, in per cent, is a failure.
const TOLERANCE: u64 = 5;

struct Scenario {
    name: &'static str,
    play: fn(),
    bound: u64,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(scenario) = SCENARIOS.iter().find(|scenario| arguments.get(1).is_some_and(|name| name == scenario.name))
    {
        (scenario.play)();
        return ExitCode::SUCCESS;
    }
    if !cfg!(target_arch = "x86_64") || Command::new("valgrind").arg("--version").output().is_err() {
        println!("no valgrind here, or no x86-64: instructions are not counted");
        return ExitCode::SUCCESS;
    }
    let mut code = ExitCode::SUCCESS;
    for Scenario { name, bound, .. } in SCENARIOS {
        let counted = count(name) / PAIRS;
        let verdict = if counted * 100 > bound * (100 + TOLERANCE) { "TOO MANY" } else { "ok" };
        println!("{name:8} {counted:5} instructions a pair, {bound} written down: {verdict}");
        if verdict != "ok" {
            code = ExitCode::FAILURE;
        }
    }
    code
}

/// Instructions inside `measured`.
fn count(scenario: &str) -> u64 {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*measured*"]);
    let output = valgrind.arg(std::env::current_exe().unwrap()).arg(scenario).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let counted = said.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    counted.unwrap_or_else(|| panic!("valgrind said: {said}"))
}

#[inline(never)]
fn measured(mut pair: impl FnMut()) {
    (0..PAIRS).for_each(|_| pair());
}

fn pairs() {
    let mut pool = Stitchpool::with_room(1 << 30);
    measured(|| {
        let block = pool.alloc(black_box(1 << 20));
        pool.free(black_box(block));
    });
}

fn churn_mixed() {
    let mut churn = Churn::<Stitchpool>::settled(2_000, Sizes::MIXED);
    measured(|| churn.step());
}

fn churn_many() {
    let mut churn = Churn::<Stitchpool>::settled(50_000, Sizes::SMALL);
    measured(|| churn.step());
}
