// What the shim asks CUDA: the current device and stream, how far a stream is, copies, and plain device
// memory. Everything else in the shim knows no CUDA call; tests give another file for this one.
#pragma once

#include <c10/core/Device.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>

namespace stitchpool::surroundings {

// The work queued on a stream so far.
class Fence {
 public:
  virtual ~Fence() = default;
  virtual bool passed() = 0;
};

c10::DeviceIndex current_device();
cudaStream_t current_stream(c10::DeviceIndex device);
// Whether what is queued on the stream now is no work yet, but a part of a graph, or would break the capture of one.
bool is_capturing(c10::DeviceIndex device, cudaStream_t stream);
// Null while the stream is being captured: what is queued there is not work yet.
std::unique_ptr<Fence> fence(c10::DeviceIndex device, cudaStream_t stream);

// Waits until all work of a device is done. Never while a stream is being captured: that would end it.
void finish(c10::DeviceIndex device);

// Plain device memory of the current device, without the pool. Null if there is none.
void* plain_malloc(size_t bytes);
void plain_free(void* address);

void enable_peer(c10::DeviceIndex from, c10::DeviceIndex to);
cudaError_t copy_async(void* to, int to_device, const void* from, int from_device, size_t bytes, cudaStream_t stream,
                       bool peers);
void copy(void* to, const void* from, size_t bytes);

}  // namespace stitchpool::surroundings
