#include "backing.h"

#include <c10/util/Exception.h>

namespace stitchpool {

Backing::Backing(const char* library_path, const Options& options) : abi_(Abi::of(library_path)) {
  if (options.is_said) {
    configure(options);
  }
}

void Backing::check(stitchpool_status status, const char* what) const {
  TORCH_CHECK(
      status == STITCHPOOL_OK, "stitchpool: ", what, ": ", abi_.stitchpool_last_error(), " (",
      abi_.stitchpool_status_name(status), ")");
}

void Backing::configure(const Options& options) {
  stitchpool_driver_options driver = options.driver;
  driver.struct_size = sizeof driver;
  stitchpool_settings settings{};
  settings.struct_size = sizeof settings;
  check(abi_.stitchpool_settings_default(&settings), "no default settings");
  settings.limit_bytes = options.limit_bytes;
  settings.headroom_bytes = options.headroom_bytes;
  settings.stream_waits = options.stream_waits ? 1 : 0;
  // Torch copies between devices by kernels of either, wherever they can reach each other.
  settings.open_to_peers = 1;
  settings.background_thread = options.background_thread ? 1 : 0;
  if (options.handle_bytes_max != 0) {
    settings.handle_bytes_max = options.handle_bytes_max;
  }
  if (options.wait_max_us != 0) {
    settings.wait_max_us = options.wait_max_us;
  }
  check(abi_.stitchpool_torch_configure(&driver, &settings), "these settings cannot be");
}

void Backing::open(std::function<bool()> relief) {
  if (is_open()) {
    return;
  }
  stitchpool_pool* pool = nullptr;
  check(abi_.stitchpool_torch_pool(&pool), "the pool of the process cannot be opened");
  check(abi_.stitchpool_pool_driver(pool, &driver_), "the pool's driver cannot be asked");
  relief_ = std::move(relief);
  check(abi_.stitchpool_on_shortage(pool, &Backing::relieve, this), "nobody would be told of shortages");
  pool_.store(pool, std::memory_order_release);
}

int32_t Backing::relieve(const stitchpool_shortage* /*shortage*/, void* user_data) {
  try {
    return static_cast<Backing*>(user_data)->relief_() ? 1 : 0;
  } catch (const std::exception& error) {
    TORCH_WARN("stitchpool: a callback that frees memory has failed: ", error.what());
    return 0;
  }
}

void* Backing::alloc(c10::DeviceIndex device, cudaStream_t stream, size_t bytes) {
  void* address = nullptr;
  const stitchpool_status status = abi_.stitchpool_torch_alloc(device, stream, bytes, &address);
  return C10_LIKELY(status == STITCHPOOL_OK) ? address : served(status, address);
}

void* Backing::alloc_segment(c10::DeviceIndex device, cudaStream_t stream, size_t bytes) {
  void* address = nullptr;
  const stitchpool_status status =
      abi_.stitchpool_alloc_raw(pool_.load(std::memory_order_relaxed), device, stream, bytes, &address);
  return served(status, address);
}

void* Backing::served(stitchpool_status status, void* address) const {
  // A length beyond what can be counted is beyond any device too.
  if (status == STITCHPOOL_OUT_OF_MEMORY || status == STITCHPOOL_INVALID_SIZE) {
    return nullptr;
  }
  check(status, "no memory was allocated");
  return address;
}

void Backing::free(void* address) noexcept {
  const stitchpool_status status = abi_.stitchpool_free(pool_.load(std::memory_order_relaxed), address);
  if (C10_UNLIKELY(status != STITCHPOOL_OK && status != STITCHPOOL_DEINITIALIZED)) {
    TORCH_WARN("stitchpool: a block was not freed: ", abi_.stitchpool_last_error());
  }
}

void Backing::record_use(void* address, c10::DeviceIndex device, cudaStream_t stream) {
  check(
      abi_.stitchpool_record_use_raw(pool_.load(std::memory_order_relaxed), device, stream, address),
      "record_stream was refused");
}

std::string Backing::last_words() const {
  return abi_.stitchpool_last_error();
}

uint32_t Backing::arena(const std::string& name) {
  uint32_t arena = 0;
  check(
      abi_.stitchpool_arena(pool_.load(std::memory_order_relaxed), name.c_str(), &arena),
      "a graph has no arena for its memory");
  return arena;
}

stitchpool_stream Backing::introduce(c10::DeviceIndex device, cudaStream_t stream) {
  stitchpool_stream known = 0;
  check(
      abi_.stitchpool_stream_register(pool_.load(std::memory_order_relaxed), device, stream, &known),
      "a stream cannot be known to the pool");
  return known;
}

stitchpool_stream Backing::begin_capture(c10::DeviceIndex device, cudaStream_t stream, uint32_t arena) {
  const stitchpool_stream known = introduce(device, stream);
  check(
      abi_.stitchpool_capture_begin(pool_.load(std::memory_order_relaxed), known, arena), "a capture was not begun");
  return known;
}

void Backing::end_capture(stitchpool_stream stream) noexcept {
  // Refused where the pool has seen by itself that the capture is over.
  (void)abi_.stitchpool_capture_end(pool_.load(std::memory_order_relaxed), stream);
}

void Backing::release_graphs(uint32_t arena) noexcept {
  // As often as graphs were captured there, which the pool has counted.
  constexpr int kGraphsMax = 1 << 20;
  stitchpool_pool* pool = pool_.load(std::memory_order_relaxed);
  for (int graph = 0; graph < kGraphsMax && abi_.stitchpool_graph_release(pool, arena) == STITCHPOOL_OK; ++graph) {
  }
}

void Backing::dissolve(uint32_t arena) noexcept {
  (void)abi_.stitchpool_arena_dissolve(pool_.load(std::memory_order_relaxed), arena);
}

void Backing::trim(bool may_wait) {
  stitchpool_pool* pool = pool_.load(std::memory_order_relaxed);
  // A stream that cannot be waited for, because it is being captured, keeps only what is its own.
  if (!may_wait || abi_.stitchpool_trim_and_wait(pool, nullptr) != STITCHPOOL_OK) {
    check(abi_.stitchpool_trim(pool, nullptr), "memory was not given back");
  }
}

uint64_t Backing::total_bytes(c10::DeviceIndex device) {
  stitchpool_device_info info{};
  info.struct_size = sizeof info;
  check(abi_.stitchpool_device_describe(driver_, device, &info), "the device cannot be described");
  return info.total_bytes;
}

void Backing::set_limit(c10::DeviceIndex device, double fraction) {
  const double bytes = fraction * static_cast<double>(total_bytes(device));
  check(
      abi_.stitchpool_limit_set(
          pool_.load(std::memory_order_relaxed), device,
          fraction >= 1.0 ? STITCHPOOL_ALL : static_cast<uint64_t>(bytes)),
      "the limit was not set");
}

double Backing::limit(c10::DeviceIndex device) {
  return static_cast<double>(stats(device).limit_bytes) / static_cast<double>(total_bytes(device));
}

void Backing::reset_peaks(c10::DeviceIndex device) {
  check(abi_.stitchpool_peaks_reset(pool_.load(std::memory_order_relaxed), device), "peaks were not reset");
}

stitchpool_stats Backing::stats() {
  stitchpool_stats stats{};
  stats.struct_size = sizeof stats;
  check(abi_.stitchpool_pool_stats(pool_.load(std::memory_order_relaxed), &stats), "no figures");
  return stats;
}

stitchpool_device_stats Backing::stats(c10::DeviceIndex device) {
  stitchpool_device_stats stats{};
  stats.struct_size = sizeof stats;
  check(abi_.stitchpool_pool_device_stats(pool_.load(std::memory_order_relaxed), device, &stats), "no figures");
  return stats;
}

std::vector<stitchpool_range> Backing::ranges() {
  std::vector<stitchpool_range> ranges(256);
  size_t count = 0;
  stitchpool_status status = STITCHPOOL_TOO_SMALL;
  // Other threads may make more meanwhile.
  for (int attempt = 0; attempt < 16 && status == STITCHPOOL_TOO_SMALL; ++attempt) {
    status = abi_.stitchpool_ranges(
        pool_.load(std::memory_order_relaxed), ranges.data(), ranges.size(), &count);
    if (status == STITCHPOOL_TOO_SMALL) {
      ranges.resize(count + count / 4);
    }
  }
  check(status, "no ranges");
  ranges.resize(count);
  return ranges;
}

bool Backing::block_of(const void* address, void** start, uint64_t* bytes) {
  const stitchpool_status status =
      abi_.stitchpool_block_of(pool_.load(std::memory_order_relaxed), address, start, bytes);
  return status == STITCHPOOL_OK;
}

}  // namespace stitchpool
