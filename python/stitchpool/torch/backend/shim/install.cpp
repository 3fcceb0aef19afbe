// What Python calls: C functions, opened by ctypes. None throws; the words of a refusal go to the caller's
// text.

#include "allocator.h"

#include <cstring>

namespace {

int answer(char* words, size_t capacity, const char* text) {
  if (capacity > 0) {
    std::strncpy(words, text, capacity - 1);
    words[capacity - 1] = '\0';
  }
  return 1;
}

}  // namespace

extern "C" {

// Mirrors `_Options` of the Python side, field by field.
struct stitchpool_torch_options {
  int32_t driver_kind;
  uint32_t host_devices;
  uint64_t host_capacity_bytes;
  uint64_t limit_bytes;
  uint64_t headroom_bytes;
  uint64_t handle_bytes_max;
  uint64_t wait_max_us;
  int32_t stream_waits;
  int32_t is_said;
  int32_t background_thread;
};

// 0: installed. Else `words` says why not.
__attribute__((visibility("default"))) int stitchpool_torch_install(
    const char* library_path, const stitchpool_torch_options* wanted, char* words, size_t capacity) {
  try {
    stitchpool::Options options;
    options.is_said = wanted->is_said != 0;
    options.driver.kind = wanted->driver_kind;
    options.driver.host_devices = wanted->host_devices;
    options.driver.host_capacity_bytes = wanted->host_capacity_bytes;
    options.limit_bytes = wanted->limit_bytes;
    options.headroom_bytes = wanted->headroom_bytes;
    options.handle_bytes_max = wanted->handle_bytes_max;
    options.wait_max_us = wanted->wait_max_us;
    options.stream_waits = wanted->stream_waits != 0;
    options.background_thread = wanted->background_thread != 0;
    stitchpool::Allocator::install(library_path, options);
    return 0;
  } catch (const c10::Error& error) {
    return answer(words, capacity, error.what_without_backtrace());
  } catch (const std::exception& error) {
    return answer(words, capacity, error.what());
  }
}

// The pool's own figures of all devices; 0: done, 1: not installed, or CUDA is not initialised.
__attribute__((visibility("default"))) int stitchpool_torch_stats(stitchpool_stats* stats) {
  stitchpool::Allocator* mine = stitchpool::Allocator::installed();
  if (mine == nullptr || !mine->initialized()) {
    return 1;
  }
  try {
    *stats = mine->backing().stats();
    return 0;
  } catch (const std::exception&) {
    return 1;
  }
}

}  // extern "C"
