// Stands in for CUDA where there is none: the test says which device and stream are current, which streams
// are being captured and how far they are. Device memory is the host driver's.
#include "allocator.h"
#include "surroundings.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <set>

#define PRETEND extern "C" __attribute__((visibility("default")))

namespace {

thread_local c10::DeviceIndex device_now = 0;
thread_local cudaStream_t stream_now = nullptr;
std::mutex mutex;
std::set<cudaStream_t> capturing;
std::set<cudaStream_t> busy;

bool is_in(const std::set<cudaStream_t>& set, cudaStream_t stream) {
  std::lock_guard<std::mutex> lock(mutex);
  return set.count(stream) > 0;
}

// Passed once its stream has stopped being busy.
class PretendedFence final : public stitchpool::surroundings::Fence {
 public:
  explicit PretendedFence(cudaStream_t stream) : stream_(stream) {}
  bool passed() override {
    return !is_in(busy, stream_);
  }

 private:
  cudaStream_t stream_;
};

void put(std::set<cudaStream_t>& set, void* stream, int is_so) {
  std::lock_guard<std::mutex> lock(mutex);
  const auto handle = static_cast<cudaStream_t>(stream);
  is_so != 0 ? (void)set.insert(handle) : (void)set.erase(handle);
}

}  // namespace

namespace stitchpool::surroundings {

c10::DeviceIndex current_device() {
  return device_now;
}
cudaStream_t current_stream(c10::DeviceIndex /*device*/) {
  return stream_now;
}
bool is_capturing(c10::DeviceIndex /*device*/, cudaStream_t stream) {
  return is_in(capturing, stream);
}
std::unique_ptr<Fence> fence(c10::DeviceIndex device, cudaStream_t stream) {
  return is_capturing(device, stream) ? nullptr : std::make_unique<PretendedFence>(stream);
}
void finish(c10::DeviceIndex /*device*/) {}
void* plain_malloc(size_t bytes) {
  return std::malloc(bytes);
}
void plain_free(void* address) {
  std::free(address);
}
void enable_peer(c10::DeviceIndex /*from*/, c10::DeviceIndex /*to*/) {}
cudaError_t copy_async(void* to, int, const void* from, int, size_t bytes, cudaStream_t, bool) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
void copy(void* to, const void* from, size_t bytes) {
  std::memcpy(to, from, bytes);
}

}  // namespace stitchpool::surroundings

PRETEND void pretend_init(int devices) {
  c10::cuda::CUDACachingAllocator::init(devices);
}
PRETEND void pretend_current(int device, void* stream) {
  device_now = static_cast<c10::DeviceIndex>(device);
  stream_now = static_cast<cudaStream_t>(stream);
}
PRETEND void* pretend_stream(int device) {
  auto& backing = stitchpool::Allocator::installed()->backing();
  void* stream = nullptr;
  backing.abi().stitchpool_driver_stream_create(backing.driver(), device, &stream);
  return stream;
}
PRETEND void pretend_capturing(void* stream, int is_so) {
  put(capturing, stream, is_so);
}
PRETEND void pretend_busy(void* stream, int is_so) {
  put(busy, stream, is_so);
}

// A tensor's life, as torch's kernels would lead it. Null: out of memory.
PRETEND void* pretend_allocate(size_t bytes) {
  try {
    return c10::cuda::CUDACachingAllocator::get()->raw_allocate(bytes);
  } catch (const c10::OutOfMemoryError&) {
    return nullptr;
  }
}
PRETEND void pretend_delete(void* address) {
  c10::cuda::CUDACachingAllocator::get()->raw_deallocate(address);
}
PRETEND void pretend_record_stream(void* address, int device, void* stream) {
  auto* allocator = c10::cuda::CUDACachingAllocator::get();
  c10::DataPtr pointer(address, address, allocator->raw_deleter(), c10::Device(c10::kCUDA, 0));
  const auto named = c10::cuda::getStreamFromExternal(
      static_cast<cudaStream_t>(stream), static_cast<c10::DeviceIndex>(device));
  static_cast<stitchpool::Allocator*>(allocator)->recordStream(pointer, named);
  pointer.release_context();
}
// Requests on `stream` (null: on any) belong to the pool.
PRETEND void pretend_begin(uint64_t first, uint64_t second, void* stream) {
  c10::cuda::CUDACachingAllocator::beginAllocateToPool(
      0, {first, second}, [stream](cudaStream_t asked) { return stream == nullptr || asked == stream; });
}
PRETEND void pretend_end(uint64_t first, uint64_t second) {
  c10::cuda::CUDACachingAllocator::endAllocateToPool(0, {first, second});
}
PRETEND void pretend_join(uint64_t first, uint64_t second) {
  c10::cuda::CUDACachingAllocator::createOrIncrefPool(0, {first, second});
}
PRETEND void pretend_leave(uint64_t first, uint64_t second) {
  c10::cuda::CUDACachingAllocator::releasePool(0, {first, second});
}
PRETEND int pretend_users(uint64_t first, uint64_t second) {
  return c10::cuda::CUDACachingAllocator::getPoolUseCount(0, {first, second});
}
PRETEND void pretend_use_on_oom(uint64_t first, uint64_t second) {
  c10::cuda::CUDACachingAllocator::setUseOnOOM(0, {first, second}, true);
}
PRETEND size_t pretend_largest() {
  size_t bytes = 0;
  c10::cuda::CUDACachingAllocator::cacheInfo(0, &bytes);
  return bytes;
}
PRETEND void* pretend_base(void* address, size_t* bytes) {
  return c10::cuda::CUDACachingAllocator::getBaseAllocation(address, bytes);
}
static std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState> state;
static c10::cuda::CUDACachingAllocator::CheckpointDelta delta;
PRETEND void pretend_checkpoint(uint64_t first, uint64_t second) {
  state = c10::cuda::CUDACachingAllocator::getCheckpointState(0, {first, second});
}
// How many were freed, times ten, and how many live now.
PRETEND int pretend_restore() {
  delta = c10::cuda::CUDACachingAllocator::setCheckpointPoolState(0, state);
  return static_cast<int>(delta.ptrs_freed.size() * 10 + delta.dataptrs_allocd.size());
}
PRETEND void pretend_drop_restored() {
  delta = {};
}
// Torch's own call for this asks for a GPU. Stacks are torch's to gather, and tested where there is one.
PRETEND void pretend_history(int is_on) {
  c10::cuda::CUDACachingAllocator::recordHistory(
      is_on != 0, [] { return std::shared_ptr<c10::GatheredContext>(); }, 1000,
      is_on != 0 ? c10::cuda::CUDACachingAllocator::RecordContext::ALL
                 : c10::cuda::CUDACachingAllocator::RecordContext::NEVER,
      false, {});
}
static int told_of = 0;
PRETEND void pretend_observe() {
  c10::cuda::CUDACachingAllocator::attachOutOfMemoryObserver(
      [](int64_t, size_t, size_t, size_t) { ++told_of; });
  c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker(
      [](const c10::CachingDeviceAllocator::TraceEntry&) { ++told_of; });
}
PRETEND int pretend_told() {
  return told_of;
}
// Pairs of alloc and free on this thread's stream; nanoseconds a pair.
PRETEND double pretend_pairs(size_t bytes, int pairs) {
  auto* allocator = c10::cuda::CUDACachingAllocator::get();
  const auto begun = std::chrono::steady_clock::now();
  for (int pair = 0; pair < pairs; ++pair) {
    allocator->raw_deallocate(allocator->raw_allocate(bytes));
  }
  const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begun;
  return taken.count() / pairs;
}
// The same without the shim: what the pool alone takes.
PRETEND double pretend_pool_pairs(size_t bytes, int pairs) {
  auto& backing = stitchpool::Allocator::installed()->backing();
  const auto begun = std::chrono::steady_clock::now();
  for (int pair = 0; pair < pairs; ++pair) {
    backing.free(backing.alloc(0, nullptr, bytes));
  }
  const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begun;
  return taken.count() / pairs;
}
