// Which private pool of a device a request belongs to: between begin and end, a pool's are those on streams that
// pass a filter. Tells the stitched pool of streams that are being captured. Knows no memory.
#pragma once

#include "backing.h"

#include <c10/cuda/CUDACachingAllocator.h>

#include <functional>
#include <vector>

namespace stitchpool {

using c10::MempoolId_t;

class Recordings {
 public:
  using Filter = std::function<bool(cudaStream_t)>;
  // The arena that a pool's captures are served from.
  using ArenaOf = std::function<uint32_t(const MempoolId_t&)>;

  Recordings(Backing& backing, c10::DeviceIndex device) : backing_(backing), device_(device) {}

  // One a pool at a time; the latest asks first.
  void begin(const MempoolId_t& id, Filter filter);
  // False: there is none of this pool.
  bool end(const MempoolId_t& id);
  bool is_any() const {
    return count_.load(std::memory_order_acquire) > 0;
  }
  // Whether one may be a capture that is under way.
  bool is_capturing() const;
  // The pool that a request on this stream belongs to; {0, 0}: none.
  MempoolId_t route(cudaStream_t stream, const ArenaOf& arena_of);
  // Ends those of captures that torch has not ended and that are over, because they have failed: whose they were.
  // Before any filter is asked: that of a failed capture may ask a graph that is gone.
  std::vector<MempoolId_t> give_up();

 private:
  // A captured stream, and what its capture is ended by.
  struct Captured {
    cudaStream_t raw;
    stitchpool_stream stream;
  };
  struct Recording {
    MempoolId_t id;
    Filter filter;
    bool has_served = false;
    // The captured streams that it has served.
    std::vector<Captured> captured;
  };

  std::vector<Recording>::iterator find(const MempoolId_t& id);
  std::vector<Recording>::iterator stop(std::vector<Recording>::iterator recording);
  bool is_over(const Recording& recording) const;
  void serve(Recording& recording, cudaStream_t stream, const ArenaOf& arena_of);

  Backing& backing_;
  const c10::DeviceIndex device_;
  std::atomic<int> count_{0};
  std::vector<Recording> all_;
};

}  // namespace stitchpool
