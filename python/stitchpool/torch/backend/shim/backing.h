// The one stitchpool pool behind torch: opened when torch initialises CUDA, never closed, so that
// nothing is freed into a pool that is gone.
#pragma once

#include "abi.h"

#include <c10/core/Device.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <functional>
#include <string>
#include <vector>

namespace stitchpool {

// What the user may choose.
struct Options {
  stitchpool_driver_options driver{};
  uint64_t limit_bytes = STITCHPOOL_ALL;
  uint64_t headroom_bytes = 0;
  uint64_t handle_bytes_max = 0;  // 0: the pool's default
  uint64_t wait_max_us = 0;       // 0: the pool's default
  bool stream_waits = true;
};

class Backing {
 public:
  // Finds the library's functions. Opens nothing yet.
  Backing(const char* library_path, const Options& options);

  // Opens the driver and the pool. `relief` is asked when memory is short; it says whether it freed any.
  void open(int device_count, std::function<bool()> relief);
  bool is_open() const {
    return pool_.load(std::memory_order_acquire) != nullptr;
  }

  // Null: out of memory, and last_words() says what holds it. Other refusals throw.
  void* alloc(c10::DeviceIndex device, cudaStream_t stream, size_t bytes);
  // Never throws: what is refused is logged.
  void free(void* address) noexcept;
  void record_use(void* address, c10::DeviceIndex device, cudaStream_t stream);
  std::string last_words() const;

  void trim(bool may_wait);
  // A share of all the device's memory.
  void set_limit(c10::DeviceIndex device, double fraction);
  double limit(c10::DeviceIndex device);
  void reset_peaks(c10::DeviceIndex device);
  uint64_t total_bytes(c10::DeviceIndex device);

  stitchpool_stats stats();
  stitchpool_device_stats stats(c10::DeviceIndex device);
  std::vector<stitchpool_range> ranges();
  // The block that holds an address; false: none.
  bool block_of(const void* address, void** start, uint64_t* bytes);

  const Abi& abi() const {
    return abi_;
  }
  stitchpool_driver* driver() const {
    return driver_;
  }

 private:
  void check(stitchpool_status status, const char* what) const;
  static int32_t relieve(const stitchpool_shortage* shortage, void* user_data);

  const Abi abi_;
  const Options options_;
  stitchpool_driver* driver_ = nullptr;
  std::atomic<stitchpool_pool*> pool_{nullptr};
  std::function<bool()> relief_;
};

}  // namespace stitchpool
