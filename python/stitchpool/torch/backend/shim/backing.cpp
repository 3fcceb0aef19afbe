#include "backing.h"

#include <c10/util/Exception.h>

namespace stitchpool {

Backing::Backing(const char* library_path, const Options& options)
    : abi_(Abi::of(library_path)), options_(options) {}

void Backing::check(stitchpool_status status, const char* what) const {
  TORCH_CHECK(
      status == STITCHPOOL_OK, "stitchpool: ", what, ": ", abi_.stitchpool_last_error(), " (",
      abi_.stitchpool_status_name(status), ")");
}

void Backing::open(int device_count, std::function<bool()> relief) {
  if (is_open()) {
    return;
  }
  stitchpool_driver_options wanted = options_.driver;
  wanted.struct_size = sizeof wanted;
  check(abi_.stitchpool_driver_open(&wanted, &driver_), "the driver cannot be opened");
  std::vector<int32_t> devices;
  for (int device = 0; device < device_count; ++device) {
    devices.push_back(device);
  }
  stitchpool_settings settings{};
  settings.struct_size = sizeof settings;
  check(abi_.stitchpool_settings_default(&settings), "no default settings");
  settings.devices = devices.data();
  settings.device_count = devices.size();
  settings.limit_bytes = options_.limit_bytes;
  settings.headroom_bytes = options_.headroom_bytes;
  settings.stream_waits = options_.stream_waits ? 1 : 0;
  // Torch copies between devices by kernels of either, wherever they can reach each other.
  settings.open_to_peers = device_count > 1 ? 1 : 0;
  if (options_.handle_bytes_max != 0) {
    settings.handle_bytes_max = options_.handle_bytes_max;
  }
  if (options_.wait_max_us != 0) {
    settings.wait_max_us = options_.wait_max_us;
  }
  stitchpool_pool* pool = nullptr;
  check(abi_.stitchpool_pool_create(driver_, &settings, &pool), "the pool cannot be made");
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
  const stitchpool_status status =
      abi_.stitchpool_alloc_raw(pool_.load(std::memory_order_relaxed), device, stream, bytes, &address);
  if (C10_LIKELY(status == STITCHPOOL_OK)) {
    return address;
  }
  // A length beyond what can be counted is beyond any device too.
  if (status != STITCHPOOL_OUT_OF_MEMORY && status != STITCHPOOL_INVALID_SIZE) {
    check(status, "no memory was allocated");
  }
  return nullptr;
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
