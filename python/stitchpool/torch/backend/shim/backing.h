// The pool of the process, which Python and C name too: taken up when torch initialises CUDA, never closed, so
// that nothing is freed into a pool that is gone.
#pragma once

#include "abi.h"

#include <c10/core/Device.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <functional>
#include <string>
#include <vector>

namespace stitchpool {

// What the user may choose, if he has said anything.
struct Options {
  bool is_said = false;
  stitchpool_driver_options driver{};
  uint64_t limit_bytes = STITCHPOOL_ALL;
  uint64_t headroom_bytes = 0;
  uint64_t handle_bytes_max = 0;  // 0: the pool's default
  uint64_t wait_max_us = 0;       // 0: the pool's default
  bool stream_waits = true;
  bool background_thread = true;
};

class Backing {
 public:
  // Finds the library's functions, and says how the pool shall be opened. Opens nothing yet.
  Backing(const char* library_path, const Options& options);

  // Takes the pool up. `relief` is asked when memory is short; it says whether it freed any.
  void open(std::function<bool()> relief);
  bool is_open() const {
    return pool_.load(std::memory_order_acquire) != nullptr;
  }

  // In the arena that this thread has entered. Null: out of memory, and last_words() says what holds it. Other
  // refusals throw.
  void* alloc(c10::DeviceIndex device, cudaStream_t stream, size_t bytes);
  // The same in no arena but that of the stream's capture.
  void* alloc_segment(c10::DeviceIndex device, cudaStream_t stream, size_t bytes);
  // Never throws: what is refused is logged.
  void free(void* address) noexcept;
  void record_use(void* address, c10::DeviceIndex device, cudaStream_t stream);
  std::string last_words() const;

  // The device of the stream is in use from now on.
  stitchpool_stream introduce(c10::DeviceIndex device, cudaStream_t stream);

  // The arena of a graph, made if there is none of this name.
  uint32_t arena(const std::string& name);
  // What a stream that is being captured asks for comes from the graph's arena, until the capture has ended. Gives
  // what it is ended by: the stream itself may be gone then.
  stitchpool_stream begin_capture(c10::DeviceIndex device, cudaStream_t stream, uint32_t arena);
  void end_capture(stitchpool_stream stream) noexcept;
  // All graphs of an arena are gone, and no work of theirs is queued.
  void release_graphs(uint32_t arena) noexcept;
  // Forgets an arena, once nothing is live in it.
  void dissolve(uint32_t arena) noexcept;

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
  void configure(const Options& options);
  void check(stitchpool_status status, const char* what) const;
  void* served(stitchpool_status status, void* address) const;
  static int32_t relieve(const stitchpool_shortage* shortage, void* user_data);

  const Abi abi_;
  stitchpool_driver* driver_ = nullptr;
  std::atomic<stitchpool_pool*> pool_{nullptr};
  std::function<bool()> relief_;
};

}  // namespace stitchpool
