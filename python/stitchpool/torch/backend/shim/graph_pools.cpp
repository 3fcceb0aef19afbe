#include "graph_pools.h"

#include <algorithm>

namespace stitchpool {

namespace {

constexpr size_t kSmallSegmentBytes = 2 << 20;
// Requests below this share segments of twenty MiB.
constexpr size_t kSharedBytes = 10 << 20;
constexpr size_t kSharedSegmentBytes = 20 << 20;
// A piece of a large segment is split off only if more than this is left.
constexpr size_t kRestBytes = Block::kSmallBytes;

size_t rounded(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

size_t segment_bytes(size_t bytes) {
  if (bytes <= Block::kSmallBytes) {
    return kSmallSegmentBytes;
  }
  return bytes < kSharedBytes ? kSharedSegmentBytes : rounded(bytes, kSmallSegmentBytes);
}

uintptr_t number(const void* address) {
  return reinterpret_cast<uintptr_t>(address);
}

}  // namespace

GraphPools::Pool& GraphPools::named(MempoolId_t id) {
  const auto found = pools_.find(id);
  TORCH_CHECK(
      found != pools_.end(), "stitchpool: there is no memory pool (", id.first, ", ", id.second, ") on device ",
      static_cast<int>(device_), ": it was released already, or never begun");
  return found->second;
}

void GraphPools::join(MempoolId_t id, std::shared_ptr<CUDAAllocator> source) {
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  Pool& pool = pools_[id];
  TORCH_CHECK(
      source == nullptr || pool.users == 0 || pool.source == source,
      "stitchpool: a memory pool cannot change the allocator it takes its memory from");
  ++pool.users;
  if (source != nullptr) {
    pool.source = std::move(source);
  }
}

void GraphPools::leave(MempoolId_t id) {
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  Pool& pool = named(id);
  if (pool.users == 0 && pool.given_up > 0) {
    --pool.given_up;
    return;
  }
  TORCH_CHECK(pool.users > 0, "stitchpool: a memory pool was released more often than it was used");
  --pool.users;
}

int GraphPools::users(MempoolId_t id) {
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  const auto found = pools_.find(id);
  return found == pools_.end() ? 0 : found->second.users;
}

void GraphPools::set_use_on_oom(MempoolId_t id, bool use) {
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  named(id).use_on_oom = use;
}

void GraphPools::set_no_split(MempoolId_t id) {
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  named(id).no_split = true;
}

void GraphPools::begin(MempoolId_t id, Recordings::Filter filter) {
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  give_up();
  recordings_.begin(id, std::move(filter));
  join(id, nullptr);
}

void GraphPools::end(MempoolId_t id) {
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  if (recordings_.end(id)) {
    return;
  }
  const auto pool = pools_.find(id);
  TORCH_CHECK(
      pool != pools_.end() && pool->second.given_up > 0, "endAllocatePool: not currently recording to mempool_id (",
      id.first, ", ", id.second, ")");
  // It was not given up by torch: its capture had just ended.
  --pool->second.given_up;
  ++pool->second.users;
}

// Torch neither ends nor releases a recording whose capture has failed: without its user the pool's memory goes back.
void GraphPools::give_up() {
  for (const MempoolId_t& id : recordings_.give_up()) {
    Pool& pool = named(id);
    --pool.users;
    ++pool.given_up;
  }
}

bool GraphPools::is_capturing() {
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  give_up();
  return recordings_.is_capturing();
}

MempoolId_t GraphPools::route(cudaStream_t stream) {
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  give_up();
  return recordings_.route(stream, [this](const MempoolId_t& id) { return arena_of(id); });
}

uint32_t GraphPools::arena_of(const MempoolId_t& id) {
  Pool& pool = named(id);
  if (pool.arena == 0) {
    pool.arena = backing_.arena(
        c10::str("graph pool (", id.first, ", ", id.second, ") of device ", static_cast<int>(device_)));
  }
  return pool.arena;
}

void* GraphPools::alloc(MempoolId_t id, cudaStream_t stream, size_t bytes) {
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  Pool& pool = named(id);
  take_late(pool);
  if (void* address = fit(pool, stream, bytes)) {
    return address;
  }
  return grow(pool, stream, bytes) ? fit(pool, stream, bytes) : nullptr;
}

void* GraphPools::alloc_lent(cudaStream_t stream, size_t bytes, MempoolId_t& id) {
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  for (auto& [lender, pool] : pools_) {
    if (!pool.use_on_oom || pool.users == 0) {
      continue;
    }
    take_late(pool);
    if (void* address = fit(pool, stream, bytes)) {
      id = lender;
      return address;
    }
  }
  return nullptr;
}

GraphPools::FreeKey GraphPools::key(const Pool& pool, uintptr_t address, const Piece& piece) const {
  const Segment& segment = pool.segments.at(piece.segment);
  return {segment.stream, segment.is_small, piece.bytes, address};
}

void* GraphPools::fit(Pool& pool, cudaStream_t stream, size_t bytes) {
  const bool is_small = bytes <= Block::kSmallBytes;
  const auto found = pool.free.lower_bound({stream, is_small, bytes, 0});
  if (found == pool.free.end() || found->stream != stream || found->is_small != is_small) {
    return nullptr;
  }
  const uintptr_t address = found->address;
  Piece& piece = pool.pieces.at(address);
  pool.free.erase(found);
  const size_t rest_bytes = piece.bytes - bytes;
  if (!pool.no_split && rest_bytes > (is_small ? 0 : kRestBytes)) {
    const Piece rest{rest_bytes, 0, true, false, piece.segment};
    piece.bytes = bytes;
    pool.pieces.emplace(address + bytes, rest);
    pool.free.insert(key(pool, address + bytes, rest));
  }
  piece.is_free = false;
  piece.is_live = true;
  piece.requested_bytes = bytes;
  return reinterpret_cast<void*>(address);
}

bool GraphPools::grow(Pool& pool, cudaStream_t stream, size_t bytes) {
  const bool is_small = bytes <= Block::kSmallBytes;
  size_t wanted_bytes = pool.no_split ? rounded(bytes, kSmallSegmentBytes) : segment_bytes(bytes);
  void* address = nullptr;
  if (pool.source != nullptr) {
    address = pool.source->raw_alloc_with_stream(wanted_bytes, stream);
  } else {
    address = backing_.alloc_segment(device_, stream, wanted_bytes);
    if (address == nullptr && wanted_bytes > rounded(bytes, Block::kSmallBytes)) {
      wanted_bytes = rounded(bytes, Block::kSmallBytes);
      address = backing_.alloc_segment(device_, stream, wanted_bytes);
    }
  }
  if (address != nullptr) {
    add_segment(pool, number(address), {wanted_bytes, stream, is_small});
  }
  return address != nullptr;
}

void GraphPools::add_segment(Pool& pool, uintptr_t address, Segment segment) {
  pool.segments.emplace(address, segment);
  const Piece whole{segment.bytes, 0, true, false, address};
  pool.pieces.emplace(address, whole);
  pool.free.insert(key(pool, address, whole));
}

void GraphPools::free(const Block& block) {
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  Pool& pool = named(block.pool_id);
  const uintptr_t address = number(block.address);
  Piece& piece = pool.pieces.at(address);
  piece.is_live = false;
  if (block.uses == nullptr) {
    set_free(pool, address);
  } else {
    Late late{address, *block.uses, {}};
    pool.late.push_back(std::move(late));
    take_late(pool);
  }
}

// A piece joins its neighbours of the same segment.
void GraphPools::set_free(Pool& pool, uintptr_t address) {
  auto at = pool.pieces.find(address);
  const auto after = std::next(at);
  if (after != pool.pieces.end() && after->second.is_free && after->second.segment == at->second.segment) {
    pool.free.erase(key(pool, after->first, after->second));
    at->second.bytes += after->second.bytes;
    pool.pieces.erase(after);
  }
  if (at != pool.pieces.begin()) {
    const auto before = std::prev(at);
    if (before->second.is_free && before->second.segment == at->second.segment) {
      pool.free.erase(key(pool, before->first, before->second));
      before->second.bytes += at->second.bytes;
      pool.pieces.erase(at);
      at = before;
    }
  }
  at->second.is_free = true;
  at->second.is_live = false;
  pool.free.insert(key(pool, at->first, at->second));
}

// Frees pieces that no other stream uses any more. A stream that is being captured is asked again later.
void GraphPools::take_late(Pool& pool) {
  std::vector<Late> kept;
  for (Late& late : pool.late) {
    std::vector<Use> captured;
    for (const Use& use : late.uses) {
      if (auto fence = surroundings::fence(use.device, use.stream)) {
        late.fences.push_back(std::move(fence));
      } else {
        captured.push_back(use);
      }
    }
    late.uses = std::move(captured);
    const bool passed =
        std::all_of(late.fences.begin(), late.fences.end(), [](auto& fence) { return fence->passed(); });
    if (passed && late.uses.empty()) {
      set_free(pool, late.address);
    } else {
      kept.push_back(std::move(late));
    }
  }
  pool.late = std::move(kept);
}

bool GraphPools::release_segments(Pool& pool) {
  take_late(pool);
  bool any = false;
  for (auto segment = pool.segments.begin(); segment != pool.segments.end();) {
    const auto piece = pool.pieces.find(segment->first);
    if (!piece->second.is_free || piece->second.bytes != segment->second.bytes) {
      ++segment;
      continue;
    }
    pool.free.erase(key(pool, piece->first, piece->second));
    pool.pieces.erase(piece);
    void* address = reinterpret_cast<void*>(segment->first);
    segment = pool.segments.erase(segment);
    if (pool.source != nullptr) {
      pool.source->raw_delete(address);
    } else {
      backing_.free(address);
    }
    any = true;
  }
  return any;
}

bool GraphPools::give_back(MempoolId_t id, bool may_wait) {
  std::unique_lock<std::recursive_mutex> lock(mutex_, std::defer_lock);
  if (may_wait) {
    lock.lock();
  } else if (!lock.try_lock()) {
    return false;
  }
  const bool is_all = id == MempoolId_t{0, 0};
  const auto is_due = [&](const auto& pool) { return pool.second.users == 0 && (is_all || pool.first == id); };
  if (is_capturing() || std::none_of(pools_.begin(), pools_.end(), is_due)) {
    return false;
  }
  surroundings::finish(device_);
  bool any = false;
  for (auto pool = pools_.begin(); pool != pools_.end();) {
    // While a graph lives its free pieces are its own: replays write there.
    Pool& due = pool->second;
    if (is_due(*pool)) {
      if (due.arena != 0) {
        backing_.release_graphs(due.arena);
      }
      any |= release_segments(due);
    }
    const bool is_empty = due.users == 0 && due.segments.empty();
    if (is_empty && due.arena != 0) {
      backing_.dissolve(due.arena);
      due.arena = 0;
    }
    pool = is_empty && due.given_up == 0 ? pools_.erase(pool) : std::next(pool);
  }
  return any;
}

bool GraphPools::holds(MempoolId_t id, const std::unordered_set<void*>& live) {
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  size_t found = 0;
  for (const auto& [address, piece] : named(id).pieces) {
    if (piece.is_live && live.count(reinterpret_cast<void*>(address)) == 0) {
      return false;
    }
    found += piece.is_live ? 1 : 0;
  }
  return found == live.size();
}

std::vector<GraphPools::Shown> GraphPools::segments() {
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  std::vector<Shown> shown;
  for (const auto& [id, pool] : pools_) {
    for (const auto& [address, segment] : pool.segments) {
      shown.push_back({id, address, segment.bytes, segment.stream});
    }
  }
  return shown;
}

std::pair<size_t, size_t> GraphPools::held_bytes() {
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  std::pair<size_t, size_t> bytes{0, 0};
  for (const auto& [id, pool] : pools_) {
    for (const auto& [address, piece] : pool.pieces) {
      bytes.first += piece.bytes;
      bytes.second += piece.is_live ? piece.bytes : 0;
    }
  }
  return bytes;
}

}  // namespace stitchpool
