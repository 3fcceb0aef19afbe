// Torch's private pools of one device: those that captured graphs keep, and torch.cuda.MemPool. Memory
// comes in segments, which are live blocks of the stitched pool; inside, best fit over pieces that split and
// join, because checkpoints must be set back to the byte. What a captured stream asks for comes from an arena of
// the graph's, as the stitched pool is told: it waits for nothing then, and leaves the memory to the graph.
#pragma once

#include "backing.h"
#include "block.h"
#include "recordings.h"
#include "surroundings.h"

#include <c10/cuda/CUDACachingAllocator.h>

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <unordered_set>

namespace stitchpool {

using c10::cuda::CUDACachingAllocator::AllocatorState;
using c10::cuda::CUDACachingAllocator::CUDAAllocator;

class GraphPools {
 public:
  // A segment as snapshots show it.
  struct Shown {
    MempoolId_t id;
    uintptr_t address;
    size_t bytes;
    cudaStream_t stream;
  };
  // What setting a checkpoint back has changed: blocks that were live before, and those that are now.
  struct Restored {
    std::vector<void*> freed;
    std::vector<Block> live;
  };

  GraphPools(Backing& backing, c10::DeviceIndex device)
      : backing_(backing), device_(device), recordings_(backing, device) {}

  // The life of a pool. It goes when its last user and its last block have gone.
  void join(MempoolId_t id, std::shared_ptr<CUDAAllocator> source);
  void leave(MempoolId_t id);
  int users(MempoolId_t id);
  void set_use_on_oom(MempoolId_t id, bool use);
  void set_no_split(MempoolId_t id);

  // As in Recordings; with a user of the pool each.
  void begin(MempoolId_t id, Recordings::Filter filter);
  void end(MempoolId_t id);
  bool is_recording() const {
    return recordings_.is_any();
  }
  bool is_capturing();
  MempoolId_t route(cudaStream_t stream);

  // Null: out of memory.
  void* alloc(MempoolId_t id, cudaStream_t stream, size_t bytes);
  // From a pool that lends its free pieces where memory is short. Its id goes to `id`.
  void* alloc_lent(cudaStream_t stream, size_t bytes, MempoolId_t& id);
  void free(const Block& block);

  // Gives the free segments of pools without users back, of all ({0, 0}) or of the one named, after all work
  // of the device: nobody knows on which streams a graph was replayed. Nothing while one is being captured, nor,
  // without `may_wait`, while another thread is here: it may be waiting for the caller's device.
  bool give_back(MempoolId_t id, bool may_wait);
  bool holds(MempoolId_t id, const std::unordered_set<void*>& live);
  std::vector<Shown> segments();
  // Bytes in segments, and those of them in live blocks.
  std::pair<size_t, size_t> held_bytes();

  std::shared_ptr<AllocatorState> checkpoint(MempoolId_t id);
  Restored restore(const std::shared_ptr<AllocatorState>& state);

 private:
  struct Segment {
    size_t bytes;
    cudaStream_t stream;
    bool is_small;
  };
  struct Piece {
    size_t bytes;
    size_t requested_bytes;
    bool is_free;
    bool is_live;
    uintptr_t segment;
  };
  // A freed piece that other streams may still use.
  struct Late {
    uintptr_t address;
    std::vector<Use> uses;  // those captured at the free: they get a fence when the capture is over
    std::vector<std::unique_ptr<surroundings::Fence>> fences;
  };
  struct FreeKey {
    cudaStream_t stream;
    bool is_small;
    size_t bytes;
    uintptr_t address;

    bool operator<(const FreeKey& other) const {
      return std::tie(stream, is_small, bytes, address) <
          std::tie(other.stream, other.is_small, other.bytes, other.address);
    }
  };
  struct Pool {
    int users = 0;
    // Recordings that were given up with their users, and that torch might yet end.
    int given_up = 0;
    uint32_t arena = 0;  // of its captures; 0: there was none
    bool use_on_oom = false;
    bool no_split = false;
    std::shared_ptr<CUDAAllocator> source;  // null: the stitched pool
    std::map<uintptr_t, Segment> segments;
    std::map<uintptr_t, Piece> pieces;  // exactly the segments' bytes
    std::set<FreeKey> free;             // exactly the pieces that are free
    std::vector<Late> late;
  };
  struct State;

  Pool& named(MempoolId_t id);
  uint32_t arena_of(const MempoolId_t& id);
  void give_up();
  FreeKey key(const Pool& pool, uintptr_t address, const Piece& piece) const;
  void* fit(Pool& pool, cudaStream_t stream, size_t bytes);
  bool grow(Pool& pool, cudaStream_t stream, size_t bytes);
  void add_segment(Pool& pool, uintptr_t address, Segment segment);
  void set_free(Pool& pool, uintptr_t address);
  void take_late(Pool& pool);
  bool release_segments(Pool& pool);
  void carve(Pool& pool, const State& state, Restored& restored);

  Backing& backing_;
  const c10::DeviceIndex device_;
  // A shortage while a pool grows calls back into give_back.
  std::recursive_mutex mutex_;
  std::map<MempoolId_t, Pool> pools_;
  Recordings recordings_;
};

}  // namespace stitchpool
