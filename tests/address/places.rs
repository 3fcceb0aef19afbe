//! Other places behind the same address.

use crate::rig::{HERE, Rig};
use stitchpool::driver::{Address, DeviceId, Link, RawStream};
use stitchpool::{Piece, Placement, Pool, Request, Scope, Settings, StreamId};

fn everywhere(rig: &Rig) -> Settings {
    let devices = rig.devices().into_iter().chain([DeviceId::HOST]).collect();
    Settings { devices, poison: false, ..Settings::default() }
}

fn peers(rig: &Rig) -> Vec<DeviceId> {
    let reachable = |device: &DeviceId| rig.driver.link(HERE, *device).unwrap() != Link::None;
    rig.devices().into_iter().filter(reachable).filter(|&device| device != HERE).collect()
}

fn ended(rig: &Rig, pool: Pool, id: StreamId, stream: RawStream, blocks: &[Address]) {
    blocks.iter().for_each(|&at| pool.free(at).unwrap());
    pool.retire(id).unwrap();
    drop(pool);
    rig.end(stream);
}

pub(crate) fn memory_migrates_to_every_place_and_back_under_its_address(rig: &Rig) {
    let pool = rig.pool(everywhere(rig));
    let stream = rig.stream(HERE);
    let id = pool.register(stream).unwrap();
    let bytes = 2 * rig.gib;
    let block = pool.alloc(&Request::new(bytes, id).exclusive()).unwrap().address;
    rig.fill(stream, block, bytes, 7);
    for place in peers(rig).into_iter().chain([DeviceId::HOST]) {
        let (there_ms, _) = Rig::timed(|| pool.migrate(Scope::Block(block), place).unwrap());
        assert!(pool.segments(block, bytes).unwrap().iter().all(|segment| segment.device == place));
        rig.verify(stream, block, bytes, 7);
        rig.finish(stream);
        rig.assert_right();
        let (back_ms, _) = Rig::timed(|| pool.migrate(Scope::Block(block), HERE).unwrap());
        rig.verify(stream, block, bytes, 7);
        rig.finish(stream);
        rig.assert_right();
        rig.say(&format!("2 GiB to {place} in {there_ms:.1} ms, back in {back_ms:.1} ms, memory made anew"));
    }
    ended(rig, pool, id, stream, &[block]);
}

pub(crate) fn two_buffers_are_exchanged_and_nothing_is_copied(rig: &Rig) {
    let pool = rig.pool(everywhere(rig));
    let stream = rig.stream(HERE);
    let id = pool.register(stream).unwrap();
    let bytes = 2 * rig.gib;
    let far = peers(rig).first().copied().unwrap_or(HERE);
    let one = pool.alloc(&Request::new(bytes, id).exclusive()).unwrap().address;
    let two = Request::new(bytes, id).placed(Placement::Home(far)).exclusive();
    let two = pool.alloc(&two).unwrap().address;
    rig.fill(stream, one, bytes, 1);
    rig.fill(stream, two, bytes, 2);
    rig.finish(stream);
    let layouts = [one, two].map(|at| pool.segments(at, bytes).unwrap().len());
    if layouts[0] != layouts[1] {
        rig.say(&format!("handles differ ({layouts:?}): skipped"));
        return ended(rig, pool, id, stream, &[one, two]);
    }
    let mut best_ms = f64::INFINITY;
    for turn in 0..6_u64 {
        let (ms, ()) = Rig::timed(|| pool.exchange(Scope::Block(one), Scope::Block(two)).unwrap());
        best_ms = best_ms.min(ms);
        let (in_one, in_two) = if turn % 2 == 0 { (2, 1) } else { (1, 2) };
        rig.verify(stream, one, bytes, in_one);
        rig.verify(stream, two, bytes, in_two);
        rig.finish(stream);
        rig.assert_right();
    }
    rig.say(&format!("2 GiB here with 2 GiB on {far}, {} handles each: {best_ms:.1} ms", layouts[0]));
    ended(rig, pool, id, stream, &[one, two]);
}

pub(crate) fn a_block_spills_over_to_the_host_and_kernels_cross_the_seam(rig: &Rig) {
    let home_bytes = rig.gib / 2;
    let pool = rig.pool(everywhere(rig));
    pool.set_limit(HERE, Some(home_bytes)).unwrap();
    let stream = rig.stream(HERE);
    let id = pool.register(stream).unwrap();
    let mut order = vec![HERE];
    order.extend(peers(rig));
    order.iter().skip(1).for_each(|&peer| pool.set_limit(peer, Some(home_bytes / 2)).unwrap());
    order.push(DeviceId::HOST);
    let bytes = 2 * home_bytes;
    let block = pool.alloc(&Request::new(bytes, id).placed(Placement::Spill(order))).unwrap().address;
    let on = |device| {
        let segments = pool.segments(block, bytes).unwrap();
        segments.iter().filter(|segment| segment.device == device).map(|segment| segment.bytes).sum::<u64>()
    };
    let (home, host) = (on(HERE), on(DeviceId::HOST));
    assert!(home > 0 && host > 0 && home <= home_bytes, "{home} at home, {host} on the host");
    rig.fill(stream, block, bytes, 5);
    rig.verify(stream, block, bytes, 5);
    rig.finish(stream);
    rig.assert_right();
    rig.say(&format!("{home} bytes at home, {} on peers, {host} on the host", bytes - home - host));
    ended(rig, pool, id, stream, &[block]);
}

pub(crate) fn remote_parts_cost_what_the_link_gives(rig: &Rig) {
    let Some(&peer) = peers(rig).first() else { return rig.say("no peer: skipped") };
    let bytes = 8 * rig.gib;
    let stripe = rig.granule().max(bytes / 4096);
    let rules = [0_u64, 12, 25, 50, 100].map(|remote| {
        // The remote stripes are spread over the range.
        let device = |index: u64| if index * remote / 100 < (index + 1) * remote / 100 { peer } else { HERE };
        let mut shards: Vec<Piece> = Vec::new();
        for index in 0..bytes / stripe {
            match shards.last_mut() {
                Some(last) if last.device == device(index) => last.bytes += stripe,
                _ => shards.push(Piece { device: device(index), bytes: stripe }),
            }
        }
        (format!("{remote} % remote"), Placement::Shards(shards))
    });
    read_each(rig, peer, bytes, &rules);
}

pub(crate) fn dealt_and_weighted_ranges_are_read_at_the_links_speed(rig: &Rig) {
    let Some(&peer) = peers(rig).first() else { return rig.say("no peer: skipped") };
    let bytes = 8 * rig.gib;
    let deal = |stripe_bytes| Placement::RoundRobin { devices: vec![HERE, peer], stripe_bytes };
    let rules = [
        ("round robin, stripes of a granule".to_owned(), deal(rig.granule())),
        ("round robin, 32 stripes".to_owned(), deal(bytes / 32)),
        ("weighted 1 to 1".to_owned(), Placement::Weighted(vec![(HERE, 1), (peer, 1)])),
        ("weighted 7 to 1".to_owned(), Placement::Weighted(vec![(HERE, 7), (peer, 1)])),
    ];
    read_each(rig, peer, bytes, &rules);
}

/// Says how fast kernels read a range under each rule, beside the plain copy to the peer.
fn read_each(rig: &Rig, peer: DeviceId, bytes: u64, rules: &[(String, Placement)]) {
    let pool = rig.pool(everywhere(rig));
    let stream = rig.stream(HERE);
    let id = pool.register(stream).unwrap();
    let (copy_ms, _) = rig.copy_ms(HERE, peer, bytes);
    for ((name, rule), seed) in rules.iter().zip(0..) {
        let block = pool.alloc(&Request::new(bytes, id).placed(rule.clone())).unwrap().address;
        let segments = pool.segments(block, bytes).unwrap();
        let far_bytes = segments.iter().filter(|segment| segment.device == peer).map(|segment| segment.bytes);
        let expected = rule.pieces(bytes, rig.granule()).unwrap();
        let expected_bytes = expected.iter().filter(|piece| piece.device == peer).map(|piece| piece.bytes);
        assert_eq!(far_bytes.sum::<u64>(), expected_bytes.sum::<u64>(), "{name}");
        rig.fill(stream, block, bytes, seed);
        rig.finish(stream);
        let tries = (0..3).map(|_| {
            let (ms, ()) = Rig::timed(|| {
                rig.verify(stream, block, bytes, seed);
                rig.finish(stream);
            });
            ms
        });
        let ms = tries.fold(f64::INFINITY, f64::min);
        rig.say(&format!(
            "{name}: read at {:.0} GB/s; the plain copy over the link {:.0} GB/s",
            bytes as f64 / ms / 1e6,
            bytes as f64 / copy_ms / 1e6
        ));
        pool.free(block).unwrap();
        pool.trim_and_wait().unwrap();
    }
    rig.assert_right();
    ended(rig, pool, id, stream, &[]);
}
