// A live block as torch sees it.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace stitchpool {

// Where a block's memory comes from, and so where it goes back to.
enum class Source : uint8_t {
  kPool,       // the stitched pool
  kGraphPool,  // a segment of a graph's or a user's memory pool
  kPlain,      // the driver, while the allocator is not enabled
};

// A stream that a block is used on beside its own.
struct Use {
  c10::DeviceIndex device;
  cudaStream_t stream;
};

struct Block {
  void* address = nullptr;  // null: no block
  size_t bytes = 0;         // as taken from the source
  size_t requested_bytes = 0;
  cudaStream_t stream = nullptr;
  c10::MempoolId_t pool_id{0, 0};
  c10::DeviceIndex device = 0;
  Source source = Source::kPool;
  // Not null only where somebody was told to remember streams: rare.
  std::unique_ptr<std::vector<Use>> uses;
  // Where it was allocated, if that is recorded.
  std::shared_ptr<c10::GatheredContext> context;

  bool is_small() const {
    return bytes <= kSmallBytes;
  }

  // What torch's figures call the small pool.
  static constexpr size_t kSmallBytes = 1 << 20;
};

}  // namespace stitchpool
