#include "recordings.h"

#include "surroundings.h"

#include <c10/util/Exception.h>

#include <algorithm>

namespace stitchpool {

void Recordings::begin(const MempoolId_t& id, Filter filter) {
  TORCH_CHECK(
      find(id) == all_.end(), "beginAllocateToPool: already recording to mempool_id (", id.first, ", ", id.second, ")");
  all_.push_back({id, std::move(filter), false, {}});
  count_.store(static_cast<int>(all_.size()), std::memory_order_release);
}

bool Recordings::end(const MempoolId_t& id) {
  const auto found = find(id);
  if (found == all_.end()) {
    return false;
  }
  stop(found);
  return true;
}

std::vector<Recordings::Recording>::iterator Recordings::find(const MempoolId_t& id) {
  return std::find_if(all_.begin(), all_.end(), [&](const Recording& recording) { return recording.id == id; });
}

std::vector<Recordings::Recording>::iterator Recordings::stop(std::vector<Recording>::iterator recording) {
  for (const Captured& captured : recording->captured) {
    backing_.end_capture(captured.stream);
  }
  const auto next = all_.erase(recording);
  count_.store(static_cast<int>(all_.size()), std::memory_order_release);
  return next;
}

bool Recordings::is_capturing() const {
  // One that has served nothing yet may have begun already.
  const auto goes_on = [](const Recording& one) { return !one.has_served || !one.captured.empty(); };
  return std::any_of(all_.begin(), all_.end(), goes_on);
}

MempoolId_t Recordings::route(cudaStream_t stream, const ArenaOf& arena_of) {
  for (auto recording = all_.rbegin(); recording != all_.rend(); ++recording) {
    if (recording->filter(stream)) {
      serve(*recording, stream, arena_of);
      return recording->id;
    }
  }
  return {0, 0};
}

// Tells the stitched pool of a captured stream, once.
void Recordings::serve(Recording& recording, cudaStream_t stream, const ArenaOf& arena_of) {
  recording.has_served = true;
  const auto knows = [&](const Recording& one) {
    const auto same = [&](const Captured& captured) { return captured.raw == stream; };
    return std::any_of(one.captured.begin(), one.captured.end(), same);
  };
  // A pool that is used inside a capture takes its segments from the graph's arena.
  if (std::any_of(all_.begin(), all_.end(), knows) || !surroundings::is_capturing(device_, stream)) {
    return;
  }
  recording.captured.push_back({stream, backing_.begin_capture(device_, stream, arena_of(recording.id))});
}

// Whether a recording was one of a capture, which is none any more.
bool Recordings::is_over(const Recording& recording) const {
  try {
    return !recording.captured.empty() && !surroundings::is_capturing(device_, recording.captured.front().raw);
  } catch (const c10::Error&) {
    return true;  // the stream is not there any more
  }
}

std::vector<MempoolId_t> Recordings::give_up() {
  std::vector<MempoolId_t> over;
  for (auto recording = all_.begin(); recording != all_.end();) {
    if (is_over(*recording)) {
      over.push_back(recording->id);
      recording = stop(recording);
    } else {
      ++recording;
    }
  }
  return over;
}

}  // namespace stitchpool
