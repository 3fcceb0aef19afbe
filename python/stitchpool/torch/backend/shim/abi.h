// The pool's C interface as a table of pointers, found by name in the library that the Python module
// has loaded: the shim links no pool, so that there is one in the process.
#pragma once

#include "stitchpool.h"

#define STITCHPOOL_ABI(use)              \
  use(stitchpool_version)                \
  use(stitchpool_last_error)             \
  use(stitchpool_status_name)            \
  use(stitchpool_driver_stream_create)   \
  use(stitchpool_settings_default)       \
  use(stitchpool_torch_configure)        \
  use(stitchpool_torch_pool)             \
  use(stitchpool_torch_alloc)            \
  use(stitchpool_pool_driver)            \
  use(stitchpool_limit_set)              \
  use(stitchpool_peaks_reset)            \
  use(stitchpool_trim)                   \
  use(stitchpool_trim_and_wait)          \
  use(stitchpool_device_describe)        \
  use(stitchpool_alloc_raw)              \
  use(stitchpool_free)                   \
  use(stitchpool_record_use_raw)         \
  use(stitchpool_stream_register)        \
  use(stitchpool_arena)                  \
  use(stitchpool_arena_dissolve)         \
  use(stitchpool_capture_begin)          \
  use(stitchpool_capture_end)            \
  use(stitchpool_graph_release)          \
  use(stitchpool_on_shortage)            \
  use(stitchpool_pool_stats)             \
  use(stitchpool_pool_device_stats)      \
  use(stitchpool_ranges)                 \
  use(stitchpool_block_of)

namespace stitchpool {

struct Abi {
#define STITCHPOOL_FIELD(name) decltype(&::name) name = nullptr;
  STITCHPOOL_ABI(STITCHPOOL_FIELD)
#undef STITCHPOOL_FIELD

  // Fills the table; throws c10::Error, and says what is missing.
  static Abi of(const char* library_path);
};

}  // namespace stitchpool
