// Torch's memory snapshot: segments with their blocks, and the history of events.

#include "allocator.h"

#include <algorithm>
#include <limits>

namespace stitchpool {

using c10::CachingDeviceAllocator::BlockInfo;
using c10::CachingDeviceAllocator::SegmentInfo;

namespace {

// What a snapshot shows of a block that is live, or freed and pending; the block itself may go meanwhile.
struct Standing {
  uintptr_t address;
  size_t bytes;
  size_t requested_bytes;
  bool is_live;
  History::Context context;
};

SegmentInfo segment(c10::DeviceIndex device, uintptr_t address, size_t bytes, void* stream, MempoolId_t id) {
  SegmentInfo info;
  info.device = device;
  info.address = address;
  info.total_size = bytes;
  info.stream = stream;
  info.is_large = true;
  info.owner_private_pool_id = id;
  return info;
}

void append(SegmentInfo& segment, size_t bytes, const Standing* standing) {
  if (bytes == 0) {
    return;
  }
  BlockInfo block;
  block.size = bytes;
  if (standing != nullptr) {
    block.requested_size = standing->requested_bytes;
    block.allocated = standing->is_live;
    block.active = true;
    block.context_when_allocated = standing->context;
    segment.requested_size += standing->is_live ? standing->requested_bytes : 0;
    segment.allocated_size += standing->is_live ? bytes : 0;
    segment.active_size += bytes;
  }
  segment.blocks.push_back(std::move(block));
}

// Fills a segment: the blocks from `at` on that lie in it, in address order, and what is free between them.
void fill(SegmentInfo& segment, const std::vector<Standing>& standing, size_t& at) {
  const uintptr_t end = segment.address + segment.total_size;
  uintptr_t reached = segment.address;
  while (at < standing.size() && standing[at].address < reached) {
    ++at;
  }
  for (; at < standing.size() && standing[at].address + standing[at].bytes <= end; ++at) {
    append(segment, standing[at].address - reached, nullptr);
    append(segment, standing[at].bytes, &standing[at]);
    reached = standing[at].address + standing[at].bytes;
  }
  append(segment, end - reached, nullptr);
}

// Cuts ranges where segments of private pools stand in them, so that each is shown with its owner.
std::vector<SegmentInfo> cut(const std::vector<stitchpool_range>& ranges, std::vector<SegmentInfo> owned) {
  const auto by_address = [](const SegmentInfo& one, const SegmentInfo& other) { return one.address < other.address; };
  std::sort(owned.begin(), owned.end(), by_address);
  std::vector<SegmentInfo> segments;
  auto next = owned.begin();
  for (const stitchpool_range& range : ranges) {
    const auto device = static_cast<c10::DeviceIndex>(range.device);
    uintptr_t from = reinterpret_cast<uintptr_t>(range.address);
    const uintptr_t end = from + range.bytes;
    const auto rest = [&](uintptr_t to) {
      if (from < to) {
        segments.push_back(segment(device, from, to - from, range.raw_stream, {0, 0}));
        segments.back().is_expandable = true;
      }
    };
    // Memory of the driver's or another allocator's, and what sleeps, lies in no range.
    for (; next != owned.end() && next->address < from; ++next) {
      segments.push_back(std::move(*next));
    }
    for (; next != owned.end() && next->address + next->total_size <= end; ++next) {
      rest(next->address);
      from = next->address + next->total_size;
      segments.push_back(std::move(*next));
    }
    rest(end);
  }
  segments.insert(segments.end(), std::make_move_iterator(next), std::make_move_iterator(owned.end()));
  std::sort(segments.begin(), segments.end(), by_address);
  return segments;
}

}  // namespace

SnapshotInfo Allocator::snapshot(MempoolId_t id, bool with_traces) {
  SnapshotInfo info;
  info.config_metadata.garbage_collection_threshold = 0;
  info.config_metadata.max_split_size = std::numeric_limits<size_t>::max();
  info.config_metadata.pinned_num_register_threads = 1;
  info.config_metadata.expandable_segments = false;
  info.config_metadata.release_lock_on_malloc = false;
  info.config_metadata.pinned_use_host_register = false;
  info.config_metadata.graph_capture_record_stream_reuse = false;
  info.config_metadata.last_allocator_settings = "backend:stitchpool";
  info.config_metadata.roundup_power2_divisions.assign(16, 0);
  info.device_traces.resize(devices_.size());
  if (!initialized()) {
    return info;
  }
  std::vector<Standing> standing;
  std::vector<SegmentInfo> owned;
  blocks_.each([&](const Block& block) {
    const auto address = reinterpret_cast<uintptr_t>(block.address);
    standing.push_back({address, block.bytes, block.requested_bytes, true, block.context});
    if (block.source == Source::kPlain) {
      owned.push_back(segment(block.device, address, block.bytes, block.stream, {0, 0}));
    }
  });
  history_.each_pending([&](const History::Pending& pending) {
    standing.push_back({pending.entry.addr_, pending.bytes, pending.entry.size_, false, pending.entry.context_});
  });
  std::sort(standing.begin(), standing.end(), [](auto& one, auto& other) { return one.address < other.address; });
  for (size_t device = 0; device < devices_.size(); ++device) {
    for (const GraphPools::Shown& shown : devices_[device]->pools.segments()) {
      owned.push_back(
          segment(static_cast<c10::DeviceIndex>(device), shown.address, shown.bytes, shown.stream, shown.id));
    }
  }
  info.segments = cut(backing_.ranges(), std::move(owned));
  if (with_traces) {
    info.device_traces = history_.entries(static_cast<int>(devices_.size()), info.segments);
    info.external_annotations = history_.annotations();
  }
  size_t at = 0;
  for (SegmentInfo& one : info.segments) {
    fill(one, standing, at);
  }
  if (id != MempoolId_t{0, 0}) {
    const auto others = [&](const SegmentInfo& one) { return one.owner_private_pool_id != id; };
    info.segments.erase(std::remove_if(info.segments.begin(), info.segments.end(), others), info.segments.end());
  }
  return info;
}

bool Allocator::isHistoryEnabled() {
  return history_.is_recording();
}

void Allocator::recordHistory(bool enabled, c10::CachingDeviceAllocator::CreateContextFn recorder, size_t entries_max,
                              c10::CachingDeviceAllocator::RecordContext when, bool clear,
                              const std::vector<std::string>& skipped) {
  history_.record({enabled, recorder, entries_max, when, clear, skipped});
}

void Allocator::recordAnnotation(const std::vector<std::pair<std::string, std::string>>& pairs) {
  if (history_.is_recording()) {
    history_.annotate(surroundings::current_device(), pairs);
  }
}

void Allocator::pushCompileContext(std::string& text) {
  History::push_compile_context(text);
}

void Allocator::popCompileContext() {
  History::pop_compile_context();
}

void Allocator::setUserMetadata(const std::string& metadata) {
  History::user_metadata() = metadata;
}

std::string Allocator::getUserMetadata() {
  return History::user_metadata();
}

void Allocator::attachAllocatorTraceTracker(c10::CachingDeviceAllocator::AllocatorTraceTracker tracker) {
  history_.listen(std::move(tracker));
}

}  // namespace stitchpool
