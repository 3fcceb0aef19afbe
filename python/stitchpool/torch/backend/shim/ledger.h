// One device's figures of torch's blocks, with their peaks. A thread that finds the ledger taken notes
// its changes on a slip of its own and enters some later, so threads do not queue up: the sums are always
// exact, and a peak is too unless threads collide, when it may miss what their slips held at that moment.
#pragma once

#include "block.h"
#include "spin.h"

#include <array>
#include <atomic>

namespace stitchpool {

// What happened to one or more blocks.
struct Change {
  struct Side {
    int64_t blocks = 0;
    int64_t bytes = 0;
    int64_t requested_bytes = 0;

    void add(const Side& other);
  };
  Side up;
  Side down;

  static Change alloc(const Block& block);
  static Change free(const Block& block);
};

class Ledger {
 public:
  void note(const Change& change, bool is_small);
  void out_of_memory();

  // Torch's figures as far as its blocks go; what the pool knows is filled in by the caller.
  c10::CachingDeviceAllocator::DeviceStats stats();
  int64_t live_bytes();
  void reset_accumulated();
  void reset_peaks();

 private:
  static constexpr size_t kSlips = 64;
  // So many changes on a slip are entered, whoever holds the ledger.
  static constexpr int kSlipChanges = 64;

  struct alignas(128) Slip {
    Spin spin;
    // Looked at without the lock: most slips are empty.
    std::atomic<int> changes{0};
    Change small;
    Change large;
  };

  void enter(const Change& change, bool is_small);
  void enter_slip(Slip& slip);
  void enter_slips();

  Spin spin_;
  c10::CachingDeviceAllocator::DeviceStats stats_;
  std::array<Slip, kSlips> slips_;
};

}  // namespace stitchpool
