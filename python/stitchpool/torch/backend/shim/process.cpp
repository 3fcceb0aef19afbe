#include "process.h"

#include <c10/util/Exception.h>
#include <pthread.h>

#include <atomic>

#include "allocator.h"

namespace stitchpool::process {

namespace {
std::atomic<bool> forked{false};

void in_child() {
  // Before CUDA is initialised there is nothing that could be inherited.
  Allocator* mine = Allocator::installed();
  forked.store(mine != nullptr && mine->initialized());
}
}  // namespace

void watch_forks() {
  (void)pthread_atfork(nullptr, nullptr, &in_child);
}

bool is_fork() {
  return forked.load(std::memory_order_relaxed);
}

void refuse_in_a_fork() {
  TORCH_CHECK(
      C10_LIKELY(!is_fork()),
      "stitchpool: this process is a fork of one that has used CUDA, and cannot: use the spawn start method");
}

}  // namespace stitchpool::process
