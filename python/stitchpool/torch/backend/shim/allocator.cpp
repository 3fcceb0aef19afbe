#include "allocator.h"

#include "process.h"
#include "surroundings.h"

#include <c10/core/impl/GPUTrace.h>
#include <c10/util/Exception.h>

namespace stitchpool {

namespace {

std::atomic<Allocator*> the_allocator{nullptr};

// The pool's unit: what it rounds sizes up to.
constexpr size_t kUnitBytes = 512;

size_t rounded(size_t bytes) {
  return (bytes + kUnitBytes - 1) / kUnitBytes * kUnitBytes;
}

bool is_private(const MempoolId_t& id) {
  return id != MempoolId_t{0, 0};
}

}  // namespace

Allocator& Allocator::install(const char* library_path, const Options& options) {
  CUDAAllocator* previous = c10::cuda::CUDACachingAllocator::allocator.load();
  TORCH_CHECK(installed() == nullptr, "stitchpool: the backend is installed already, once a process");
  TORCH_CHECK(
      previous == nullptr || !previous->initialized(),
      "stitchpool: CUDA is initialised already, with the allocator \"", previous->name(),
      "\": call stitchpool.torch.backend.install() before anything touches the GPU");
  // Never destroyed: the last tensors go when the interpreter has gone.
  auto* mine = new Allocator(library_path, options, previous);
  process::watch_forks();
  c10::SetAllocator(c10::kCUDA, mine, 0);
  c10::cuda::CUDACachingAllocator::allocator.store(mine);
  the_allocator.store(mine);
  return *mine;
}

Allocator* Allocator::installed() {
  return the_allocator.load();
}

Allocator::Allocator(const char* library_path, const Options& options, CUDAAllocator* previous)
    : backing_(library_path, options), history_(backing_), previous_(previous) {}

void Allocator::init(int device_count) {
  if (initialized()) {
    return;
  }
  for (int device = 0; device < device_count; ++device) {
    devices_.push_back(std::make_unique<PerDevice>(backing_, static_cast<c10::DeviceIndex>(device)));
  }
  try {
    backing_.open([this] { return relieve(); });
  } catch (...) {
    devices_.clear();
    throw;
  }
}

bool Allocator::initialized() {
  return backing_.is_open();
}

std::string Allocator::name() {
  return "stitchpool";
}

void Allocator::refuse_device(c10::DeviceIndex device) {
  C10_THROW_ERROR(
      Error,
      c10::str(
          "stitchpool: device ", static_cast<int>(device), " is none of the ", devices_.size(),
          " that CUDA was initialised with: did you call init?"));
}

c10::DataPtr Allocator::allocate(size_t bytes) {
  const c10::DeviceIndex device = surroundings::current_device();
  void* address = bytes == 0 ? nullptr : take(bytes, device, surroundings::current_stream(device));
  return {address, address, &Allocator::delete_static, c10::Device(c10::DeviceType::CUDA, device)};
}

c10::DeleterFnPtr Allocator::raw_deleter() const {
  return &Allocator::delete_static;
}

void* Allocator::raw_alloc(size_t bytes) {
  const c10::DeviceIndex device = surroundings::current_device();
  return bytes == 0 ? nullptr : take(bytes, device, surroundings::current_stream(device));
}

void* Allocator::raw_alloc_with_stream(size_t bytes, cudaStream_t stream) {
  return bytes == 0 ? nullptr : take(bytes, surroundings::current_device(), stream);
}

void Allocator::raw_delete(void* address) {
  give(address);
}

void Allocator::delete_static(void* address) {
  // A deleter must not throw: nobody is there to catch it.
  try {
    the_allocator.load(std::memory_order_relaxed)->give(address);
  } catch (const std::exception& error) {
    TORCH_WARN("stitchpool: a block was not freed: ", error.what());
  }
}

void* Allocator::take(size_t bytes, c10::DeviceIndex device, cudaStream_t stream) {
  process::refuse_in_a_fork();
  PerDevice& mine = at(device);
  Block block;
  block.requested_bytes = bytes;
  block.bytes = rounded(bytes);
  block.device = device;
  block.stream = stream;
  find_memory(block);
  if (C10_UNLIKELY(block.address == nullptr)) {
    refuse(block, mine);
  }
  if (C10_UNLIKELY(history_.is_watched())) {
    block.context = history_.context(History::Level::STATE);
  }
  void* address = block.address;
  enter(std::move(block));
  return address;
}

void Allocator::find_memory(Block& block) {
  GraphPools& pools = at(block.device).pools;
  if (C10_UNLIKELY(!enabled_.load(std::memory_order_relaxed))) {
    block.source = Source::kPlain;
    block.address = surroundings::plain_malloc(block.bytes);
    return;
  }
  if (C10_UNLIKELY(pools.is_recording())) {
    block.pool_id = pools.route(block.stream);
  }
  if (C10_UNLIKELY(is_private(block.pool_id))) {
    block.source = Source::kGraphPool;
    block.address = pools.alloc(block.pool_id, block.stream, block.bytes);
    return;
  }
  block.address = backing_.alloc(block.device, block.stream, block.requested_bytes);
  if (C10_UNLIKELY(block.address == nullptr)) {
    block.address = pools.alloc_lent(block.stream, block.bytes, block.pool_id);
    block.source = block.address != nullptr ? Source::kGraphPool : Source::kPool;
  }
}

// A block is live from here on.
void Allocator::enter(Block&& block) {
  Ledger& ledger = at(block.device).ledger;
  ledger.note(Change::alloc(block), block.is_small());
  if (C10_UNLIKELY(history_.is_watched())) {
    history_.allocated(block);
  }
  if (C10_UNLIKELY(c10::memoryProfilingEnabled())) {
    c10::reportMemoryUsageToProfiler(
        block.address, static_cast<int64_t>(block.bytes), static_cast<size_t>(ledger.live_bytes()),
        backing_.stats(block.device).physical_bytes, c10::Device(c10::DeviceType::CUDA, block.device));
  }
  if (const c10::impl::PyInterpreter* interpreter = c10::impl::GPUTrace::get_trace()) {
    (*interpreter)->trace_gpu_memory_allocation(c10::kCUDA, reinterpret_cast<uintptr_t>(block.address));
  }
  blocks_.insert(std::move(block));
}

void Allocator::give(void* address) {
  // A child has no GPU, and the locks of its parent's threads may be taken for ever.
  if (address == nullptr || process::is_fork()) {
    return;
  }
  const Block block = blocks_.take(address);
  if (C10_LIKELY(block.address != nullptr)) {
    leave(block);
  } else if (previous_ != nullptr && previous_->initialized()) {
    previous_->raw_delete(address);
  } else {
    TORCH_WARN(
        "stitchpool: ", address, " was to be freed, and is no block of this allocator: it was freed already, or "
        "comes from elsewhere. Nothing was done.");
  }
}

// A block is live no more; its memory goes back to where it came from.
void Allocator::leave(const Block& block) {
  PerDevice& mine = at(block.device);
  mine.ledger.note(Change::free(block), block.is_small());
  if (C10_UNLIKELY(history_.is_watched())) {
    history_.freed(block, history_.context(History::Level::ALL));
  }
  if (C10_UNLIKELY(c10::memoryProfilingEnabled())) {
    c10::reportMemoryUsageToProfiler(
        block.address, -static_cast<int64_t>(block.bytes), static_cast<size_t>(mine.ledger.live_bytes()),
        backing_.stats(block.device).physical_bytes, c10::Device(c10::DeviceType::CUDA, block.device));
  }
  if (const c10::impl::PyInterpreter* interpreter = c10::impl::GPUTrace::get_trace()) {
    (*interpreter)->trace_gpu_memory_deallocation(c10::kCUDA, reinterpret_cast<uintptr_t>(block.address));
  }
  switch (block.source) {
    case Source::kPool:
      backing_.free(block.address);
      break;
    case Source::kGraphPool:
      mine.pools.free(block);
      break;
    case Source::kPlain:
      surroundings::plain_free(block.address);
      break;
  }
}

void Allocator::recordStream(const c10::DataPtr& pointer, c10::cuda::CUDAStream stream) {
  // Memory that another process or allocator owns is that one's to watch.
  if (pointer.get() == nullptr || pointer.get_deleter() != &Allocator::delete_static) {
    return;
  }
  const Use use{stream.device_index(), stream.stream()};
  bool is_pools = false;
  const bool known = blocks_.with(pointer.get(), [&](Block& block) {
    if (block.stream == use.stream && block.device == use.device) {
      return;
    }
    is_pools = block.source == Source::kPool;
    // The pool remembers for itself.
    if (!is_pools || history_.is_watched()) {
      if (block.uses == nullptr) {
        block.uses = std::make_unique<std::vector<Use>>();
      }
      const auto same = [&](const Use& old) { return old.stream == use.stream && old.device == use.device; };
      if (std::none_of(block.uses->begin(), block.uses->end(), same)) {
        block.uses->push_back(use);
      }
    }
  });
  TORCH_CHECK(known, "stitchpool: record_stream of ", pointer.get(), ", which is no live block");
  if (is_pools) {
    backing_.record_use(pointer.get(), use.device, use.stream);
  }
}

void Allocator::enable(bool value) {
  enabled_.store(value);
}

bool Allocator::isEnabled() const {
  return enabled_.load();
}

void Allocator::copy_data(void* to, const void* from, size_t bytes) const {
  surroundings::copy(to, from, bytes);
}

cudaError_t Allocator::memcpyAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                                   cudaStream_t stream, bool peers) {
  return surroundings::copy_async(to, to_device, from, from_device, bytes, stream, peers);
}

void Allocator::enablePeerAccess(c10::DeviceIndex from, c10::DeviceIndex to) {
  // Stitched memory is open to every device with a stream in the pool that can reach it...
  if (backing_.is_open()) {
    backing_.introduce(from, surroundings::current_stream(from));
  }
  // ...and this is for what others have allocated.
  surroundings::enable_peer(from, to);
}

void* Allocator::getBaseAllocation(void* address, size_t* bytes) {
  void* start = nullptr;
  uint64_t block_bytes = 0;
  if (!blocks_.with(address, [&](Block& block) { start = block.address, block_bytes = block.bytes; })) {
    TORCH_CHECK(
        backing_.block_of(address, &start, &block_bytes), "stitchpool: ", address, " lies in no live block");
  }
  if (bytes != nullptr) {
    *bytes = block_bytes;
  }
  return start;
}

ShareableHandle Allocator::shareIpcHandle(void* /*address*/) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false,
      "stitchpool: stitched memory cannot be shared by CUDA IPC handles, which the driver gives out for cudaMalloc "
      "alone. Share the tensor through the host, or allocate it while torch.cuda.caching_allocator_enable(False).");
}

std::shared_ptr<void> Allocator::getIpcDevPtr(std::string /*handle*/) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "stitchpool: opening CUDA IPC handles of other processes is not supported by this allocator.");
}

}  // namespace stitchpool
