#include "ledger.h"

#include <mutex>

namespace stitchpool {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;
using c10::CachingDeviceAllocator::DeviceStats;

namespace {

Change::Side side_of(const Block& block) {
  return {1, static_cast<int64_t>(block.bytes), static_cast<int64_t>(block.requested_bytes)};
}

void move(Stat& stat, int64_t up, int64_t down) {
  stat.current += up - down;
  stat.peak = std::max(stat.peak, stat.current);
  stat.allocated += up;
  stat.freed += down;
}

void move(StatArray& stats, bool is_small, int64_t up, int64_t down) {
  move(stats[static_cast<size_t>(StatType::AGGREGATE)], up, down);
  move(stats[static_cast<size_t>(is_small ? StatType::SMALL_POOL : StatType::LARGE_POOL)], up, down);
}

template <typename Act>
void each(DeviceStats& stats, Act act) {
  for (StatArray* array : {&stats.allocation, &stats.allocated_bytes, &stats.requested_bytes}) {
    for (Stat& stat : *array) {
      act(stat);
    }
  }
}

size_t thread_number() {
  static std::atomic<size_t> next{0};
  thread_local const size_t mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

}  // namespace

void Change::Side::add(const Side& other) {
  blocks += other.blocks;
  bytes += other.bytes;
  requested_bytes += other.requested_bytes;
}

Change Change::alloc(const Block& block) {
  return {side_of(block), {}};
}

Change Change::free(const Block& block) {
  return {{}, side_of(block)};
}

void Ledger::note(const Change& change, bool is_small) {
  Slip& slip = slips_[thread_number() % kSlips];
  // Once its slip is begun a thread goes on with it: every look at a taken ledger slows its holder.
  if (slip.changes.load(std::memory_order_relaxed) == 0 && spin_.try_lock()) {
    enter(change, is_small);
    spin_.unlock();
    return;
  }
  std::lock_guard<Spin> own(slip.spin);
  Change& mine = is_small ? slip.small : slip.large;
  mine.up.add(change.up);
  mine.down.add(change.down);
  if (slip.changes.fetch_add(1, std::memory_order_relaxed) + 1 >= kSlipChanges) {
    enter_slip(slip);
  }
}

void Ledger::enter(const Change& change, bool is_small) {
  move(stats_.allocation, is_small, change.up.blocks, change.down.blocks);
  move(stats_.allocated_bytes, is_small, change.up.bytes, change.down.bytes);
  move(stats_.requested_bytes, is_small, change.up.requested_bytes, change.down.requested_bytes);
}

// The slip's lock is held.
void Ledger::enter_slip(Slip& slip) {
  std::lock_guard<Spin> lock(spin_);
  enter(slip.small, true);
  enter(slip.large, false);
  slip.small = slip.large = {};
  slip.changes.store(0, std::memory_order_relaxed);
}

void Ledger::enter_slips() {
  for (Slip& slip : slips_) {
    if (slip.changes.load(std::memory_order_relaxed) > 0) {
      std::lock_guard<Spin> own(slip.spin);
      enter_slip(slip);
    }
  }
}

void Ledger::out_of_memory() {
  std::lock_guard<Spin> lock(spin_);
  ++stats_.num_ooms;
}

DeviceStats Ledger::stats() {
  enter_slips();
  std::lock_guard<Spin> lock(spin_);
  DeviceStats stats = stats_;
  // A block is active as long as it is allocated; the caller adds what waits for other streams.
  stats.active = stats.allocation;
  stats.active_bytes = stats.allocated_bytes;
  return stats;
}

int64_t Ledger::live_bytes() {
  return stats().allocated_bytes[static_cast<size_t>(StatType::AGGREGATE)].current;
}

void Ledger::reset_accumulated() {
  enter_slips();
  std::lock_guard<Spin> lock(spin_);
  each(stats_, [](Stat& stat) { stat.allocated = stat.freed = 0; });
  stats_.num_ooms = 0;
}

void Ledger::reset_peaks() {
  enter_slips();
  std::lock_guard<Spin> lock(spin_);
  each(stats_, [](Stat& stat) { stat.peak = stat.current; });
}

}  // namespace stitchpool
