// Torch's calls about private pools, each handed to the pools of its device.

#include "allocator.h"

namespace stitchpool {

void Allocator::beginAllocateToPool(c10::DeviceIndex device, MempoolId_t id,
                                    std::function<bool(cudaStream_t)> filter) {
  at(device).pools.begin(id, std::move(filter));
}

void Allocator::endAllocateToPool(c10::DeviceIndex device, MempoolId_t id) {
  at(device).pools.end(id);
}

void Allocator::releasePool(c10::DeviceIndex device, MempoolId_t id) {
  at(device).pools.leave(id);
}

int Allocator::getPoolUseCount(c10::DeviceIndex device, MempoolId_t id) {
  return at(device).pools.users(id);
}

void Allocator::createOrIncrefPool(c10::DeviceIndex device, MempoolId_t id, std::shared_ptr<CUDAAllocator> source) {
  at(device).pools.join(id, std::move(source));
}

void Allocator::setUseOnOOM(c10::DeviceIndex device, MempoolId_t id, bool use) {
  at(device).pools.set_use_on_oom(id, use);
}

void Allocator::setNoSplit(c10::DeviceIndex device, MempoolId_t id) {
  at(device).pools.set_no_split(id);
}

bool Allocator::checkPoolLiveAllocations(c10::DeviceIndex device, MempoolId_t id,
                                         const std::unordered_set<void*>& live) {
  return at(device).pools.holds(id, live);
}

std::shared_ptr<AllocatorState> Allocator::getCheckpointState(c10::DeviceIndex device, MempoolId_t id) {
  return at(device).pools.checkpoint(id);
}

CheckpointDelta Allocator::setCheckpointPoolState(c10::DeviceIndex device, std::shared_ptr<AllocatorState> state) {
  PerDevice& mine = at(device);
  GraphPools::Restored restored = mine.pools.restore(state);
  CheckpointDelta delta;
  for (void* address : restored.freed) {
    const Block block = blocks_.take(address);
    if (block.address != nullptr) {
      mine.ledger.note(Change::free(block), block.is_small());
    }
    delta.ptrs_freed.push_back(address);
  }
  for (Block& block : restored.live) {
    void* address = block.address;
    enter(std::move(block));
    delta.dataptrs_allocd.emplace_back(
        address, address, &Allocator::delete_static, c10::Device(c10::DeviceType::CUDA, device));
  }
  return delta;
}

}  // namespace stitchpool
