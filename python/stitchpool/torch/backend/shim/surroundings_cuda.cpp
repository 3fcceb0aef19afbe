#include "surroundings.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

namespace stitchpool::surroundings {

namespace {

class EventFence final : public Fence {
 public:
  // The device is the current one.
  explicit EventFence(cudaStream_t stream) {
    C10_CUDA_CHECK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
    C10_CUDA_CHECK(cudaEventRecord(event_, stream));
  }
  EventFence(const EventFence&) = delete;
  EventFence& operator=(const EventFence&) = delete;
  ~EventFence() override {
    (void)cudaEventDestroy(event_);
  }

  bool passed() override {
    // Asked in any other mode, an event breaks the capture of another thread.
    c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) {
      (void)cudaGetLastError();
      return false;
    }
    C10_CUDA_CHECK(status);
    return true;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace

c10::DeviceIndex current_device() {
  return c10::cuda::current_device();
}

cudaStream_t current_stream(c10::DeviceIndex device) {
  return c10::cuda::getCurrentCUDAStream(device).stream();
}

bool is_capturing(c10::DeviceIndex device, cudaStream_t stream) {
  c10::cuda::CUDAGuard guard(device);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t asked = cudaStreamIsCapturing(stream, &status);
  if (asked == cudaErrorStreamCaptureImplicit) {
    // The default stream, while another is captured that waits for it.
    (void)cudaGetLastError();
    return true;
  }
  C10_CUDA_CHECK(asked);
  return status != cudaStreamCaptureStatusNone;
}

std::unique_ptr<Fence> fence(c10::DeviceIndex device, cudaStream_t stream) {
  if (is_capturing(device, stream)) {
    return nullptr;
  }
  c10::cuda::CUDAGuard guard(device);
  return std::make_unique<EventFence>(stream);
}

void finish(c10::DeviceIndex device) {
  c10::cuda::CUDAGuard guard(device);
  C10_CUDA_CHECK(cudaDeviceSynchronize());
}

void* plain_malloc(size_t bytes) {
  void* address = nullptr;
  const cudaError_t status = cudaMalloc(&address, bytes);
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    return nullptr;
  }
  C10_CUDA_CHECK(status);
  return address;
}

void plain_free(void* address) {
  C10_CUDA_CHECK(cudaFree(address));
}

void enable_peer(c10::DeviceIndex from, c10::DeviceIndex to) {
  c10::cuda::CUDAGuard guard(from);
  const cudaError_t status = cudaDeviceEnablePeerAccess(to, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled) {
    (void)cudaGetLastError();
  } else {
    C10_CUDA_CHECK(status);
  }
}

cudaError_t copy_async(void* to, int to_device, const void* from, int from_device, size_t bytes, cudaStream_t stream,
                       bool peers) {
  // Without peer access only the peer call may copy stitched memory between devices.
  if (peers || to_device == from_device) {
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
  }
  return cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, stream);
}

void copy(void* to, const void* from, size_t bytes) {
  C10_CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice));
}

}  // namespace stitchpool::surroundings
