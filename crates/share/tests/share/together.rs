//! A group that imports all or nothing: nobody is left behind mapped, and nobody waits without limit.

use crate::bench::{GRANULE, Owner, PATIENCE, READ, Side, eventually, part};
use std::time::{Duration, Instant};
use stitchpool_driver::{ErrorKind, Rights, Verb};
use stitchpool_pool::Block;
use stitchpool_share::{Error, Exporter, Import, Importer, Offer, Result, Together};

const RANKS: u32 = 4;

struct Group {
    owner: Owner,
    exporter: Exporter,
    offer: Offer,
    block: Block,
    ranks: Vec<(Side, Importer)>,
}

impl Group {
    fn new(within: Duration) -> Self {
        let owner = Owner::new();
        let block = owner.block(3);
        let exporter = owner.served();
        let together = Together { ranks: RANKS, within };
        let offer = exporter.offer_together(&[part(block)], Rights::Read, together).unwrap();
        let sides = (0..RANKS).map(|_| Side::new(1));
        let ranks = sides.map(|side| (side.importer(offer.ticket()), side)).map(|(importer, side)| (side, importer));
        Self { ranks: ranks.collect(), owner, exporter, offer, block }
    }

    /// The first `count` ranks import at once.
    fn import(&self, count: usize) -> Vec<Result<Import>> {
        std::thread::scope(|scope| {
            let ticket = self.offer.ticket();
            let ranks = self.ranks[..count].iter().map(|(_, importer)| scope.spawn(|| importer.import(ticket, &READ)));
            let ranks: Vec<_> = ranks.collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        })
    }

    /// No rank has anything mapped, and the exporter knows it.
    #[track_caller]
    fn demand_nothing(&self) {
        assert!(self.ranks.iter().all(|(side, _)| side.imported_bytes() == 0));
        eventually("all have left", || self.exporter.guests().iter().all(|guest| guest.imports == 0));
    }

    fn end(self) {
        let Self { owner, exporter, offer, block, ranks } = self;
        for (side, importer) in ranks {
            drop(importer);
            assert!(side.host.ledger().is_empty());
        }
        drop((offer, exporter));
        owner.end(&[block]);
    }
}

#[test]
fn all_of_a_group_import_or_none_whichever_call_fails_in_one() {
    let group = Group::new(PATIENCE);
    for verb in [Verb::Import, Verb::Reserve, Verb::Map, Verb::SetRights] {
        group.ranks[2].0.faulty.fail(verb, 1, ErrorKind::OutOfMemory);
        let start = Instant::now();
        let outcomes = group.import(4);
        assert!(start.elapsed() < PATIENCE, "{verb}: nobody waits for the deadline");
        for (rank, outcome) in outcomes.into_iter().enumerate() {
            match outcome.unwrap_err() {
                Error::Driver(refusal) if rank == 2 => assert_eq!(refusal.verb, verb),
                Error::CalledOff { why } if rank != 2 => assert!(why.contains(&format!("refused to {verb}")), "{why}"),
                other => panic!("rank {rank}: {other}"),
            }
        }
        group.demand_nothing();
        let imports: Vec<Import> = group.import(4).into_iter().map(Result::unwrap).collect();
        assert!(group.ranks.iter().all(|(side, _)| side.imported_bytes() == 3 * GRANULE));
        drop(imports);
        group.demand_nothing();
    }
    group.end();
}

#[test]
fn a_rank_that_comes_after_the_others_were_called_off_hears_so_at_once() {
    let group = Group::new(PATIENCE);
    let import = |rank: usize| group.ranks[rank].1.import(group.offer.ticket(), &READ);
    let start = Instant::now();
    group.ranks[2].0.faulty.fail(Verb::Map, 1, ErrorKind::OutOfMemory);
    assert!(matches!(import(2).unwrap_err(), Error::Driver(_)));
    for late in [0, 1, 3] {
        let error = import(late).unwrap_err();
        assert!(matches!(&error, Error::CalledOff { why } if why.contains("refused to map")), "{error}");
    }
    assert!(start.elapsed() < PATIENCE);
    group.demand_nothing();
    group.import(4).into_iter().for_each(|outcome| drop(outcome.unwrap()));
    group.end();
}

#[test]
fn a_rank_that_never_comes_costs_the_others_no_more_than_the_time_allowed() {
    let group = Group::new(Duration::from_millis(100));
    let start = Instant::now();
    for outcome in group.import(3) {
        let error = outcome.unwrap_err();
        assert!(matches!(&error, Error::CalledOff { why } if why.contains("3 of 4 processes were ready")), "{error}");
    }
    assert!((100..5000).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    group.demand_nothing();
    group.end();
}

#[test]
fn a_recall_calls_a_group_off_that_is_still_waiting() {
    let group = Group::new(PATIENCE);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| group.import(2));
        eventually("two have begun", || group.exporter.guests().iter().map(|guest| guest.imports).sum::<u32>() == 2);
        group.exporter.recall(&group.offer, PATIENCE).unwrap();
        for outcome in waiting.join().unwrap() {
            let error = outcome.unwrap_err();
            let told = matches!(error, Error::CalledOff { .. } | Error::Stale { .. } | Error::Refused { .. });
            assert!(told, "{error}");
        }
    });
    group.demand_nothing();
    group.end();
}

#[test]
fn a_group_of_none_or_without_time_is_refused() {
    let owner = Owner::new();
    let block = owner.block(1);
    let exporter = Exporter::new(&owner.pool).unwrap();
    for (ranks, within) in [(0, PATIENCE), (257, PATIENCE), (2, Duration::ZERO)] {
        let together = Together { ranks, within };
        let error = exporter.offer_together(&[part(block)], Rights::Read, together).unwrap_err();
        assert!(matches!(error, Error::Argument(_)), "{error}");
    }
    drop(exporter);
    owner.end(&[block]);
}
