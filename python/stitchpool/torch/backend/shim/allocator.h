// Torch's CUDA allocator on a stitchpool pool. One lives as long as the process: it is never destroyed, so
// that blocks may be freed in any order at exit.
#pragma once

#include "backing.h"
#include "block_table.h"
#include "graph_pools.h"
#include "history.h"
#include "ledger.h"

#include <c10/cuda/CUDACachingAllocator.h>

#include <memory>
#include <vector>

namespace stitchpool {

using c10::cuda::CUDACachingAllocator::CheckpointDelta;
using c10::cuda::CUDACachingAllocator::OutOfMemoryObserver;
using c10::cuda::CUDACachingAllocator::ShareableHandle;
using c10::cuda::CUDACachingAllocator::SnapshotInfo;
using c10::cuda::CUDACachingAllocator::StreamSegmentSize;

class Allocator final : public CUDAAllocator {
 public:
  // Puts itself in the place of `previous`, which was not initialised yet.
  static Allocator& install(const char* library_path, const Options& options);
  // The installed one, or null.
  static Allocator* installed();

  Backing& backing() {
    return backing_;
  }

  // c10::Allocator, c10::DeviceAllocator
  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, size_t bytes) const override;
  bool initialized() override;
  void emptyCache(MempoolId_t id = {0, 0}) override;
  using CUDAAllocator::recordStream;
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override;
  void resetAccumulatedStats(c10::DeviceIndex device) override;
  void resetPeakStats(c10::DeviceIndex device) override;

  // CUDAAllocator
  void* raw_alloc(size_t bytes) override;
  void* raw_alloc_with_stream(size_t bytes, cudaStream_t stream) override;
  void raw_delete(void* address) override;
  void init(int device_count) override;
  double getMemoryFraction(c10::DeviceIndex device) override;
  void setMemoryFraction(double fraction, c10::DeviceIndex device) override;
  std::vector<StreamSegmentSize> getExpandableSegmentSizes(c10::DeviceIndex device) override;
  void enable(bool value) override;
  bool isEnabled() const override;
  void cacheInfo(c10::DeviceIndex device, size_t* largest_bytes) override;
  void* getBaseAllocation(void* address, size_t* bytes) override;
  void recordStream(const c10::DataPtr& pointer, c10::cuda::CUDAStream stream) override;
  SnapshotInfo snapshot(MempoolId_t id, bool with_traces) override;
  void beginAllocateToPool(c10::DeviceIndex device, MempoolId_t id, std::function<bool(cudaStream_t)> filter) override;
  void endAllocateToPool(c10::DeviceIndex device, MempoolId_t id) override;
  void releasePool(c10::DeviceIndex device, MempoolId_t id) override;
  int getPoolUseCount(c10::DeviceIndex device, MempoolId_t id) override;
  void createOrIncrefPool(c10::DeviceIndex device, MempoolId_t id, std::shared_ptr<CUDAAllocator> source) override;
  void setUseOnOOM(c10::DeviceIndex device, MempoolId_t id, bool use) override;
  void setNoSplit(c10::DeviceIndex device, MempoolId_t id) override;
  bool checkPoolLiveAllocations(c10::DeviceIndex device, MempoolId_t id,
                                const std::unordered_set<void*>& live) override;
  ShareableHandle shareIpcHandle(void* address) override;
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override;
  bool isHistoryEnabled() override;
  void recordHistory(bool enabled, c10::CachingDeviceAllocator::CreateContextFn recorder, size_t entries_max,
                     c10::CachingDeviceAllocator::RecordContext when, bool clear,
                     const std::vector<std::string>& skipped) override;
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& pairs) override;
  void pushCompileContext(std::string& text) override;
  void popCompileContext() override;
  void setUserMetadata(const std::string& metadata) override;
  std::string getUserMetadata() override;
  void attachOutOfMemoryObserver(OutOfMemoryObserver observer) override;
  void attachAllocatorTraceTracker(c10::CachingDeviceAllocator::AllocatorTraceTracker tracker) override;
  void enablePeerAccess(c10::DeviceIndex from, c10::DeviceIndex to) override;
  cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                          cudaStream_t stream, bool peers) override;
  std::shared_ptr<AllocatorState> getCheckpointState(c10::DeviceIndex device, MempoolId_t id) override;
  CheckpointDelta setCheckpointPoolState(c10::DeviceIndex device, std::shared_ptr<AllocatorState> state) override;
  std::string name() override;

 private:
  // What is kept for each device, from init on.
  struct PerDevice {
    PerDevice(Backing& backing, c10::DeviceIndex device) : pools(backing, device) {}

    Ledger ledger;
    GraphPools pools;
    Spin sampling;
    // Figures of the pool that torch wants as sums or peaks, from the times that somebody asked.
    c10::CachingDeviceAllocator::DeviceStats sampled;
    stitchpool_stats begun{};
  };

  Allocator(const char* library_path, const Options& options, CUDAAllocator* previous);

  static void delete_static(void* address);
  void* take(size_t bytes, c10::DeviceIndex device, cudaStream_t stream);
  void find_memory(Block& block);
  void enter(Block&& block);
  void give(void* address);
  void leave(const Block& block);
  bool relieve();
  [[noreturn]] void refuse(const Block& request, PerDevice& at);
  PerDevice& at(c10::DeviceIndex device) {
    if (C10_UNLIKELY(static_cast<size_t>(device) >= devices_.size())) {
      refuse_device(device);
    }
    return *devices_[static_cast<size_t>(device)];
  }
  [[noreturn]] void refuse_device(c10::DeviceIndex device);

  Backing backing_;
  History history_;
  BlockTable blocks_;
  CUDAAllocator* const previous_;
  std::atomic<bool> enabled_{true};
  std::vector<std::unique_ptr<PerDevice>> devices_;
  std::mutex observers_mutex_;
  std::vector<OutOfMemoryObserver> observers_;
};

}  // namespace stitchpool
