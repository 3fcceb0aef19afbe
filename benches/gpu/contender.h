// The three allocators behind one face: alloc, free, and between races give_back and figures.
// Knows no workload and measures nothing.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "stitchpool.h"

constexpr int kDevice = 0;
constexpr unsigned kStreams = 16;

// What an allocator holds, and how often it went to the driver for more; -1: it does not say.
struct Figures {
    uint64_t held_bytes = 0;
    int64_t misses = -1;
};

inline void check(stitchpool_status status, const char *what) {
    if (status != STITCHPOOL_OK) throw std::runtime_error(std::string(what) + ": " + stitchpool_last_error());
}

inline void check(cudaError_t status, const char *what) {
    if (status != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

// The pool's C entry points, on registered streams. It makes the streams that all three use.
class Stitchpool {
public:
    static constexpr const char *kName = "stitchpool";

    Stitchpool() {
        stitchpool_driver_options options{};
        options.struct_size = sizeof options;
        check(stitchpool_driver_open(&options, &driver_), "driver_open");
        stitchpool_settings settings{};
        settings.struct_size = sizeof settings;
        check(stitchpool_settings_default(&settings), "settings_default");
        const int32_t device = kDevice;
        settings.devices = &device;
        settings.device_count = 1;
        check(stitchpool_pool_create(driver_, &settings, &pool_), "pool_create");
        for (unsigned i = 0; i < kStreams; ++i) {
            check(stitchpool_driver_stream_create(driver_, kDevice, &raw_streams_[i]), "stream_create");
            check(stitchpool_stream_register(pool_, kDevice, raw_streams_[i], &streams_[i]), "stream_register");
        }
    }
    ~Stitchpool() {
        stitchpool_pool_destroy_leaking(pool_);
        stitchpool_driver_close(driver_);
    }
    Stitchpool(const Stitchpool &) = delete;
    Stitchpool &operator=(const Stitchpool &) = delete;

    void *alloc(unsigned stream, uint64_t bytes) {
        void *address = nullptr;
        const auto status = stitchpool_alloc(pool_, streams_[stream], bytes, &address);
        if (status != STITCHPOOL_OK) [[unlikely]] check(status, "stitchpool_alloc");
        return address;
    }
    void free(unsigned /*stream*/, void *address) {
        const auto status = stitchpool_free(pool_, address);
        if (status != STITCHPOOL_OK) [[unlikely]] check(status, "stitchpool_free");
    }
    void give_back() { check(stitchpool_trim_and_wait(pool_, nullptr), "stitchpool_trim_and_wait"); }
    Figures figures() {
        stitchpool_stats stats{};
        stats.struct_size = sizeof stats;
        check(stitchpool_pool_stats(pool_, &stats), "stitchpool_pool_stats");
        return {stats.physical_bytes, static_cast<int64_t>(stats.misses)};
    }

    const std::array<void *, kStreams> &raw_streams() const { return raw_streams_; }
    bool on_cuda() {
        stitchpool_driver_info info{};
        info.struct_size = sizeof info;
        check(stitchpool_driver_describe(driver_, &info), "driver_describe");
        return info.kind == STITCHPOOL_DRIVER_CUDA;
    }

private:
    stitchpool_driver *driver_ = nullptr;
    stitchpool_pool *pool_ = nullptr;
    std::array<void *, kStreams> raw_streams_{};
    std::array<stitchpool_stream, kStreams> streams_{};
};

// PyTorch's caching allocator, by the entry points that frameworks call.
class Torch {
public:
    static constexpr const char *kName = "pytorch";

    explicit Torch(const std::array<void *, kStreams> &raw_streams) {
        for (unsigned i = 0; i < kStreams; ++i) streams_[i] = static_cast<cudaStream_t>(raw_streams[i]);
        c10::cuda::CUDACachingAllocator::init(1);
    }

    void *alloc(unsigned stream, uint64_t bytes) {
        return c10::cuda::CUDACachingAllocator::raw_alloc_with_stream(bytes, streams_[stream]);
    }
    void free(unsigned /*stream*/, void *address) { c10::cuda::CUDACachingAllocator::raw_delete(address); }
    void give_back() { c10::cuda::CUDACachingAllocator::emptyCache(); }
    Figures figures() {
        const auto stats = c10::cuda::CUDACachingAllocator::get()->getDeviceStats(kDevice);
        return {static_cast<uint64_t>(stats.reserved_bytes[0].current), stats.segment[0].allocated};
    }

private:
    std::array<cudaStream_t, kStreams> streams_{};
};

// cudaMallocAsync on the device's own pool, told to keep all that it has.
class CudaAsync {
public:
    static constexpr const char *kName = "cudaMallocAsync";

    explicit CudaAsync(const std::array<void *, kStreams> &raw_streams) {
        for (unsigned i = 0; i < kStreams; ++i) streams_[i] = static_cast<cudaStream_t>(raw_streams[i]);
        check(cudaDeviceGetDefaultMemPool(&pool_, kDevice), "cudaDeviceGetDefaultMemPool");
        uint64_t keep_all = UINT64_MAX;
        check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep_all), "cudaMemPoolSetAttribute");
    }

    void *alloc(unsigned stream, uint64_t bytes) {
        void *address = nullptr;
        const auto status = cudaMallocAsync(&address, bytes, streams_[stream]);
        if (status != cudaSuccess) [[unlikely]] check(status, "cudaMallocAsync");
        return address;
    }
    void free(unsigned stream, void *address) {
        const auto status = cudaFreeAsync(address, streams_[stream]);
        if (status != cudaSuccess) [[unlikely]] check(status, "cudaFreeAsync");
    }
    void give_back() {
        check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
        check(cudaMemPoolTrimTo(pool_, 0), "cudaMemPoolTrimTo");
    }
    Figures figures() {
        uint64_t held_bytes = 0;
        check(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &held_bytes), "cudaMemPoolGetAttribute");
        return {held_bytes, -1};
    }

private:
    cudaMemPool_t pool_ = nullptr;
    std::array<cudaStream_t, kStreams> streams_{};
};
