#include "history.h"

#include <algorithm>

namespace stitchpool {

namespace {

std::vector<std::string>& compile_contexts() {
  thread_local std::vector<std::string> contexts;
  return contexts;
}

constexpr uint32_t bit(History::Entry::Action action) {
  return 1u << static_cast<unsigned>(action);
}

using Ranges = std::map<uintptr_t, stitchpool_range>;

// Calls `tell` with every part of `ranges` that is not in `others` on behalf of the same stream and device.
template <typename Tell>
void each_part_missing(const Ranges& ranges, const Ranges& others, Tell tell) {
  for (const auto& [address, range] : ranges) {
    uintptr_t from = address;
    const uintptr_t end = address + range.bytes;
    auto other = others.upper_bound(address);
    if (other != others.begin()) {
      --other;
    }
    for (; other != others.end() && other->first < end; ++other) {
      const uintptr_t covered = other->first + other->second.bytes;
      if (covered <= from || other->second.device != range.device || other->second.raw_stream != range.raw_stream) {
        continue;
      }
      if (from < other->first) {
        tell(range, from, other->first);
      }
      from = std::max(from, covered);
    }
    if (from < end) {
      tell(range, from, end);
    }
  }
}

bool is_of_addresses(const History::Entry& entry) {
  return entry.action_ == History::Entry::SEGMENT_MAP || entry.action_ == History::Entry::SEGMENT_UNMAP;
}

// Puts an entry into a list; one of addresses in parts that no border lies in.
void put(std::vector<History::Entry>& list, const History::Entry& entry, const std::vector<uintptr_t>& borders) {
  size_t from = entry.addr_;
  const size_t end = entry.addr_ + entry.size_;
  if (is_of_addresses(entry)) {
    for (auto border = std::upper_bound(borders.begin(), borders.end(), from);
         border != borders.end() && *border < end; ++border) {
      list.push_back(entry);
      list.back().addr_ = from;
      list.back().size_ = *border - from;
      from = *border;
    }
  }
  list.push_back(entry);
  if (is_of_addresses(entry)) {
    list.back().addr_ = from;
    list.back().size_ = end - from;
  }
}

// A block that is a segment by itself.
Block whole(const Block& block) {
  Block segment;
  segment.address = block.address;
  segment.bytes = segment.requested_bytes = block.bytes;
  segment.device = block.device;
  segment.stream = block.stream;
  segment.pool_id = block.pool_id;
  return segment;
}

}  // namespace

void History::push_compile_context(std::string& text) {
  compile_contexts().push_back(text);
}

void History::pop_compile_context() {
  if (!compile_contexts().empty()) {
    compile_contexts().pop_back();
  }
}

std::string& History::user_metadata() {
  thread_local std::string metadata;
  return metadata;
}

void History::record(const Wishes& wishes) {
  TORCH_CHECK(
      wishes.when == Level::NEVER || wishes.recorder != nullptr,
      "stitchpool: stacks are wanted, but there is nobody to record them");
  std::lock_guard<std::mutex> lock(mutex_);
  skipped_ = 0;
  for (const std::string& action : wishes.skipped) {
    skipped_ |= bit(c10::CachingDeviceAllocator::parseTraceEntryAction(action));
  }
  entries_max_ = std::max<size_t>(1, wishes.entries_max);
  recorder_.store(wishes.enabled ? wishes.recorder : nullptr);
  level_.store(wishes.enabled ? wishes.when : Level::NEVER);
  if (!wishes.enabled || wishes.clear) {
    rings_.clear();
    annotations_.clear();
    pending_.clear();
  }
  if (wishes.enabled && backing_.is_open()) {
    // What is there already is in the snapshot, and needs no entry.
    segments_.clear();
    for (const stitchpool_range& range : backing_.ranges()) {
      segments_.emplace(reinterpret_cast<uintptr_t>(range.address), range);
    }
  }
  recording_.store(wishes.enabled);
  watched_.store(wishes.enabled || !listeners_.empty());
}

void History::listen(c10::CachingDeviceAllocator::AllocatorTraceTracker listener) {
  std::lock_guard<std::mutex> lock(mutex_);
  listeners_.push_back(std::move(listener));
  watched_.store(true);
}

History::Context History::context(Level level) const {
  const auto recorder = recorder_.load(std::memory_order_relaxed);
  if (level_.load(std::memory_order_relaxed) < level || recorder == nullptr) {
    return nullptr;
  }
  return recorder();
}

History::Entry History::entry(Entry::Action action, const Block& block, Context context) const {
  const auto& contexts = compile_contexts();
  return Entry(
      action, block.device, reinterpret_cast<size_t>(block.address), block.requested_bytes, block.stream,
      block.pool_id, c10::getApproximateTime(),
      level_.load(std::memory_order_relaxed) >= Level::ALLOC ? std::move(context) : nullptr,
      contexts.empty() ? "" : contexts.back(), user_metadata());
}

void History::keep(Entry entry) {
  for (const auto& listener : listeners_) {
    listener(entry);
  }
  if (!is_recording() || (skipped_ & bit(entry.action_)) != 0) {
    return;
  }
  Ring& ring = rings_[entry.device_];
  ring.push_back(std::move(entry));
  while (ring.size() > entries_max_) {
    ring.pop_front();
  }
}

void History::allocated(const Block& block) {
  std::lock_guard<std::mutex> lock(mutex_);
  complete(&block);
  if (block.source == Source::kPlain) {
    keep(entry(Entry::SEGMENT_ALLOC, whole(block), block.context));
  } else if (!is_known(block)) {
    look_at_segments(&block);
  }
  keep(entry(Entry::ALLOC, block, block.context));
}

void History::freed(const Block& block, Context context) {
  std::vector<std::unique_ptr<surroundings::Fence>> fences;
  if (block.uses != nullptr) {
    for (const Use& use : *block.uses) {
      if (auto fence = surroundings::fence(use.device, use.stream)) {
        fences.push_back(std::move(fence));
      }
    }
  }
  const Context& told = context != nullptr ? context : block.context;
  std::lock_guard<std::mutex> lock(mutex_);
  complete(nullptr);
  keep(entry(Entry::FREE_REQUESTED, block, told));
  Entry done = entry(Entry::FREE_COMPLETED, block, told);
  if (!fences.empty()) {
    pending_.push_back(Pending{std::move(done), block.bytes, std::move(fences)});
    return;
  }
  keep(std::move(done));
  if (block.source == Source::kPlain) {
    keep(entry(Entry::SEGMENT_FREE, whole(block), told));
  }
}

// Tells of pending frees that are done now. Those whose bytes have gone to `reused` are, whatever we saw.
void History::complete(const Block* reused) {
  for (auto at = pending_.begin(); at != pending_.end();) {
    const size_t from = at->entry.addr_;
    const size_t start = reused != nullptr ? reinterpret_cast<size_t>(reused->address) : 0;
    const bool is_reused = reused != nullptr && from < start + reused->bytes && start < from + at->entry.size_;
    const bool is_done = std::all_of(at->fences.begin(), at->fences.end(), [](auto& fence) { return fence->passed(); });
    if (!is_reused && !is_done) {
      ++at;
      continue;
    }
    at->entry.time_.approx_t_ = c10::getApproximateTime();
    keep(std::move(at->entry));
    at = pending_.erase(at);
  }
}

// Whether a block lies in memory that entries have told of.
bool History::is_known(const Block& block) const {
  const auto start = reinterpret_cast<uintptr_t>(block.address);
  const auto after = segments_.upper_bound(start);
  return after != segments_.begin() &&
      start + block.bytes <= std::prev(after)->first + std::prev(after)->second.bytes;
}

// Tells of memory that came under addresses or went, as far as is not known yet.
void History::look_at_segments(const Block* block) {
  Ranges now;
  for (const stitchpool_range& range : backing_.ranges()) {
    now.emplace(reinterpret_cast<uintptr_t>(range.address), range);
  }
  const auto tell = [this, block](Entry::Action action) {
    return [this, block, action](const stitchpool_range& range, uintptr_t from, uintptr_t end) {
      Block part;
      part.address = reinterpret_cast<void*>(from);
      part.bytes = part.requested_bytes = end - from;
      part.device = static_cast<c10::DeviceIndex>(range.device);
      part.stream = static_cast<cudaStream_t>(range.raw_stream);
      keep(entry(action, part, block != nullptr ? block->context : nullptr));
    };
  };
  each_part_missing(segments_, now, tell(Entry::SEGMENT_UNMAP));
  each_part_missing(now, segments_, tell(Entry::SEGMENT_MAP));
  segments_.swap(now);
}

void History::out_of_memory(c10::DeviceIndex device, size_t device_free_bytes, size_t bytes, cudaStream_t stream) {
  Block request;
  request.address = reinterpret_cast<void*>(device_free_bytes);
  request.requested_bytes = bytes;
  request.device = device;
  request.stream = stream;
  const Context told = context(Level::STATE);
  std::lock_guard<std::mutex> lock(mutex_);
  keep(entry(Entry::OOM, request, told));
}

void History::annotate(c10::DeviceIndex device, const std::vector<std::pair<std::string, std::string>>& pairs) {
  if (!is_recording()) {
    return;
  }
  c10::CachingDeviceAllocator::AnnotationEntry annotation(device, c10::getApproximateTime());
  for (const auto& [name, value] : pairs) {
    annotation.recordUserMetadata(name, value);
  }
  std::lock_guard<std::mutex> lock(mutex_);
  annotations_.push_back(std::move(annotation));
  while (annotations_.size() > entries_max_) {
    annotations_.pop_front();
  }
}

std::vector<std::vector<History::Entry>> History::entries(
    int device_count, const std::vector<c10::CachingDeviceAllocator::SegmentInfo>& segments) {
  std::vector<uintptr_t> borders;
  for (const auto& segment : segments) {
    borders.push_back(segment.address);
    borders.push_back(segment.address + segment.total_size);
  }
  std::sort(borders.begin(), borders.end());
  const auto to_ns = clock_.makeConverter();
  std::lock_guard<std::mutex> lock(mutex_);
  if (is_recording()) {
    complete(nullptr);
    look_at_segments(nullptr);
  }
  std::vector<std::vector<Entry>> lists(static_cast<size_t>(device_count));
  for (const auto& [device, ring] : rings_) {
    if (static_cast<size_t>(device) >= lists.size()) {
      continue;
    }
    auto& list = lists[static_cast<size_t>(device)];
    for (const Entry& entry : ring) {
      put(list, entry, borders);
    }
    for (Entry& entry : list) {
      entry.time_.t_ = to_ns(entry.time_.approx_t_) / 1000;
    }
  }
  return lists;
}

std::vector<c10::CachingDeviceAllocator::AnnotationEntry> History::annotations() {
  const auto to_ns = clock_.makeConverter();
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<c10::CachingDeviceAllocator::AnnotationEntry> list(annotations_.begin(), annotations_.end());
  for (auto& annotation : list) {
    annotation.time_.t_ = to_ns(annotation.time_.approx_t_) / 1000;
  }
  return list;
}

}  // namespace stitchpool
