// What happened to blocks, for torch's memory snapshots and whoever else listens. Costs one look at a
// flag while nobody does.
#pragma once

#include "backing.h"
#include "block.h"
#include "surroundings.h"

#include <c10/cuda/CUDACachingAllocator.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace stitchpool {

class History {
 public:
  using Entry = c10::CachingDeviceAllocator::TraceEntry;
  using Level = c10::CachingDeviceAllocator::RecordContext;
  using Context = std::shared_ptr<c10::GatheredContext>;

  // What torch.cuda.memory._record_memory_history asks for.
  struct Wishes {
    bool enabled = false;
    c10::CachingDeviceAllocator::CreateContextFn recorder = nullptr;
    size_t entries_max = 1;
    Level when = Level::NEVER;
    bool clear = false;
    std::vector<std::string> skipped;
  };

  explicit History(Backing& backing) : backing_(backing) {}

  void record(const Wishes& wishes);
  bool is_recording() const {
    return recording_.load(std::memory_order_relaxed);
  }
  // Whether anybody wants to hear of events.
  bool is_watched() const {
    return watched_.load(std::memory_order_relaxed);
  }
  void listen(c10::CachingDeviceAllocator::AllocatorTraceTracker listener);

  // The caller's stack, if that is wanted at this level.
  Context context(Level level) const;

  void allocated(const Block& block);
  // Also waits, for the event's sake, for the streams that the block was used on.
  void freed(const Block& block, Context context);
  void out_of_memory(c10::DeviceIndex device, size_t device_free_bytes, size_t bytes, cudaStream_t stream);
  void annotate(c10::DeviceIndex device, const std::vector<std::pair<std::string, std::string>>& pairs);

  // A block that was freed, and that other streams may still be using.
  struct Pending {
    Entry entry;
    size_t bytes;
    std::vector<std::unique_ptr<surroundings::Fence>> fences;
  };

  // All entries so far, a list a device, in wall-clock time. Torch's viewer takes each back from the segments of
  // the snapshot, so those of memory that came or went are cut where these begin and end.
  std::vector<std::vector<Entry>> entries(
      int device_count, const std::vector<c10::CachingDeviceAllocator::SegmentInfo>& segments);
  // Calls `look` on every block that is pending now.
  template <typename Look>
  void each_pending(Look look) {
    std::lock_guard<std::mutex> lock(mutex_);
    complete(nullptr);
    std::for_each(pending_.begin(), pending_.end(), look);
  }
  std::vector<c10::CachingDeviceAllocator::AnnotationEntry> annotations();

  static void push_compile_context(std::string& text);
  static void pop_compile_context();
  static std::string& user_metadata();

 private:
  // The newest entries of a device, oldest first.
  using Ring = std::deque<Entry>;

  Entry entry(Entry::Action action, const Block& block, Context context) const;
  void keep(Entry entry);
  void complete(const Block* reused);
  void look_at_segments(const Block* block);
  bool is_known(const Block& block) const;

  Backing& backing_;
  std::atomic<bool> recording_{false};
  std::atomic<bool> watched_{false};
  std::atomic<Level> level_{Level::NEVER};
  std::atomic<c10::CachingDeviceAllocator::CreateContextFn> recorder_{nullptr};
  c10::ApproximateClockToUnixTimeConverter clock_;

  std::mutex mutex_;
  size_t entries_max_ = 1;
  uint32_t skipped_ = 0;
  std::map<c10::DeviceIndex, Ring> rings_;
  std::deque<c10::CachingDeviceAllocator::AnnotationEntry> annotations_;
  std::deque<Pending> pending_;
  // The segments that entries have told of, by address.
  std::map<uintptr_t, stitchpool_range> segments_;
  std::vector<c10::CachingDeviceAllocator::AllocatorTraceTracker> listeners_;
};

}  // namespace stitchpool
