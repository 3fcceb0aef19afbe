// Torch's figures, limits and refusals: what the allocator says about itself.

#include "allocator.h"
#include "process.h"
#include "surroundings.h"

#include <c10/util/Exception.h>

#include <cinttypes>
#include <cstdio>

namespace stitchpool {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;
using c10::CachingDeviceAllocator::DeviceStats;

namespace {

constexpr auto kAll = static_cast<size_t>(StatType::AGGREGATE);
constexpr auto kLarge = static_cast<size_t>(StatType::LARGE_POOL);

// A figure that was asked for now and then becomes one with a peak and sums.
void sample(Stat& stat, uint64_t value, uint64_t peak = 0) {
  const auto now = static_cast<int64_t>(value);
  stat.allocated += std::max<int64_t>(0, now - stat.current);
  stat.freed += std::max<int64_t>(0, stat.current - now);
  stat.current = now;
  stat.peak = std::max({stat.peak, now, static_cast<int64_t>(peak)});
}

// One heap serves all sizes; torch's viewers look for what there is under one of its two names.
void sample_large(StatArray& stats, uint64_t value, uint64_t peak = 0) {
  sample(stats[kAll], value, peak);
  sample(stats[kLarge], value, peak);
}

std::string spelled(uint64_t bytes) {
  char text[48];
  if (bytes < (1u << 20)) {
    std::snprintf(text, sizeof text, "%.2f KiB", static_cast<double>(bytes) / 1024);
  } else if (bytes < (1u << 30)) {
    std::snprintf(text, sizeof text, "%.2f MiB", static_cast<double>(bytes) / (1 << 20));
  } else {
    std::snprintf(text, sizeof text, "%.2f GiB", static_cast<double>(bytes) / (1 << 30));
  }
  return text;
}

}  // namespace

DeviceStats Allocator::getDeviceStats(c10::DeviceIndex device) {
  PerDevice& mine = at(device);
  DeviceStats stats = mine.ledger.stats();
  const stitchpool_device_stats held = backing_.stats(device);
  const stitchpool_stats done = backing_.stats();
  std::lock_guard<Spin> lock(mine.sampling);
  DeviceStats& sampled = mine.sampled;
  sample_large(sampled.reserved_bytes, held.physical_bytes, held.physical_peak_bytes);
  sample_large(sampled.segment, done.handles_created - done.handles_released);
  sample_large(sampled.inactive_split_bytes, held.stranded_bytes);
  stats.reserved_bytes = sampled.reserved_bytes;
  stats.segment = sampled.segment;
  stats.inactive_split_bytes = sampled.inactive_split_bytes;
  // Blocks that other streams may still use are active, and nobody's.
  for (const size_t side : {kAll, kLarge}) {
    Stat& active = stats.active_bytes[side];
    active.current += static_cast<int64_t>(held.pending_bytes);
    active.peak = std::max(active.peak, active.current);
  }
  stats.num_sync_all_streams = static_cast<int64_t>(done.cpu_waits - mine.begun.cpu_waits);
  stats.num_device_alloc = static_cast<int64_t>(done.handles_created - mine.begun.handles_created);
  stats.num_device_free = static_cast<int64_t>(done.handles_released - mine.begun.handles_released);
  return stats;
}

void Allocator::resetAccumulatedStats(c10::DeviceIndex device) {
  PerDevice& mine = at(device);
  mine.ledger.reset_accumulated();
  const stitchpool_stats done = backing_.stats();
  std::lock_guard<Spin> lock(mine.sampling);
  mine.begun = done;
  for (StatArray* stats :
       {&mine.sampled.reserved_bytes, &mine.sampled.segment, &mine.sampled.inactive_split_bytes}) {
    for (Stat& stat : *stats) {
      stat.allocated = stat.freed = 0;
    }
  }
}

void Allocator::resetPeakStats(c10::DeviceIndex device) {
  PerDevice& mine = at(device);
  mine.ledger.reset_peaks();
  backing_.reset_peaks(device);
  const uint64_t physical_bytes = backing_.stats(device).physical_bytes;
  std::lock_guard<Spin> lock(mine.sampling);
  sample_large(mine.sampled.reserved_bytes, physical_bytes);
  for (StatArray* stats :
       {&mine.sampled.reserved_bytes, &mine.sampled.segment, &mine.sampled.inactive_split_bytes}) {
    for (Stat& stat : *stats) {
      stat.peak = stat.current;
    }
  }
}

double Allocator::getMemoryFraction(c10::DeviceIndex device) {
  at(device);
  return backing_.limit(device);
}

void Allocator::setMemoryFraction(double fraction, c10::DeviceIndex device) {
  at(device);
  TORCH_CHECK(
      0 < fraction && fraction <= 1, "stitchpool: the memory fraction ", fraction, " is none: above 0, at most 1");
  backing_.set_limit(device, fraction);
}

void Allocator::cacheInfo(c10::DeviceIndex device, size_t* largest_bytes) {
  at(device);
  const stitchpool_device_stats held = backing_.stats(device);
  const uint64_t room_bytes = held.limit_bytes - std::min(held.limit_bytes, held.physical_bytes);
  const uint64_t outside_bytes = held.device_free_bytes == STITCHPOOL_ALL ? room_bytes : held.device_free_bytes;
  // Whatever is free can be stitched into one block.
  *largest_bytes = held.free_bytes + std::min(room_bytes, outside_bytes);
}

std::vector<StreamSegmentSize> Allocator::getExpandableSegmentSizes(c10::DeviceIndex device) {
  at(device);
  std::map<void*, size_t> bytes;
  for (const stitchpool_range& range : backing_.ranges()) {
    if (range.device == device) {
      bytes[range.raw_stream] += range.bytes;
    }
  }
  std::vector<StreamSegmentSize> sizes;
  for (const auto& [stream, held] : bytes) {
    sizes.emplace_back(static_cast<cudaStream_t>(stream), false, held);
  }
  return sizes;
}

void Allocator::emptyCache(MempoolId_t id) {
  if (!initialized() || process::is_fork()) {
    return;
  }
  bool may_wait = id == MempoolId_t{0, 0};
  for (const auto& device : devices_) {
    device->pools.give_back(id, true);
    may_wait &= !device->pools.is_capturing();
  }
  backing_.trim(may_wait);
}

// Whoever can give memory back is asked before a request fails.
bool Allocator::relieve() {
  bool any = false;
  for (const auto& device : devices_) {
    any |= device->pools.give_back({0, 0}, false);
  }
  for (const auto& key : c10::FreeCudaMemoryCallbacksRegistry()->Keys()) {
    any |= c10::FreeCudaMemoryCallbacksRegistry()->Create(key)->Execute();
  }
  return any;
}

void Allocator::attachOutOfMemoryObserver(OutOfMemoryObserver observer) {
  std::lock_guard<std::mutex> lock(observers_mutex_);
  observers_.push_back(std::move(observer));
}

void Allocator::refuse(const Block& request, PerDevice& mine) {
  std::string words = enabled_.load() ? backing_.last_words() : "the driver has no more memory";
  const stitchpool_device_stats held = backing_.stats(request.device);
  const uint64_t total_bytes = backing_.total_bytes(request.device);
  const auto pinned = mine.pools.held_bytes();
  const auto live_bytes = static_cast<uint64_t>(mine.ledger.live_bytes());
  mine.ledger.out_of_memory();
  const uint64_t free_bytes = held.device_free_bytes == STITCHPOOL_ALL ? 0 : held.device_free_bytes;
  if (history_.is_watched()) {
    history_.out_of_memory(request.device, free_bytes, request.requested_bytes, request.stream);
  }
  std::vector<OutOfMemoryObserver> observers;
  {
    std::lock_guard<std::mutex> lock(observers_mutex_);
    observers = observers_;
  }
  for (const OutOfMemoryObserver& observer : observers) {
    observer(request.device, request.requested_bytes, total_bytes, free_bytes);
  }
  c10::reportOutOfMemoryToProfiler(
      static_cast<int64_t>(request.requested_bytes), live_bytes, held.physical_bytes,
      c10::Device(c10::DeviceType::CUDA, request.device));
  std::string graphs;
  if (pinned.first > 0) {
    graphs = " Of the live bytes, graphs and memory pools keep " + spelled(pinned.first) + " pinned, " +
        spelled(pinned.second) + " of that in tensors.";
  }
  std::string asleep;
  if (held.suspended_bytes > 0) {
    asleep = " Suspended blocks, which are not among what it holds, need " + spelled(held.suspended_bytes) +
        " to be resumed.";
  }
  const std::string text = c10::str(
      "CUDA out of memory. Tried to allocate ", spelled(request.requested_bytes), ". GPU ",
      static_cast<int>(request.device), " has a total capacity of ", spelled(total_bytes), ", of which ",
      spelled(free_bytes), " is free; PyTorch has ", spelled(live_bytes), " in tensors, and the pool holds ",
      spelled(held.physical_bytes), " of the ", spelled(held.limit_bytes), " it may.", graphs, asleep, " stitchpool: ",
      words);
  C10_THROW_ERROR(OutOfMemoryError, text);
}

}  // namespace stitchpool
