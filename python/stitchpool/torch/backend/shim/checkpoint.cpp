// Checkpoints of private pools: how a pool's segments are cut, taken down, and cut again.

#include "graph_pools.h"

namespace stitchpool {

// What a pool looked like: its segments with their pieces in order.
struct GraphPools::State final : AllocatorState {
  struct PieceState {
    size_t bytes;
    size_t requested_bytes;
    bool is_live;
  };
  MempoolId_t id;
  std::map<uintptr_t, std::vector<PieceState>> segments;
};

std::shared_ptr<AllocatorState> GraphPools::checkpoint(MempoolId_t id) {
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  const auto state = std::make_shared<State>();
  state->id = id;
  for (const auto& [address, piece] : named(id).pieces) {
    state->segments[piece.segment].push_back({piece.bytes, piece.requested_bytes, piece.is_live});
  }
  return state;
}

GraphPools::Restored GraphPools::restore(const std::shared_ptr<AllocatorState>& state) {
  const auto* wanted = dynamic_cast<State*>(state.get());
  TORCH_CHECK(wanted != nullptr, "stitchpool: the checkpoint was taken by another allocator");
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  Pool& pool = named(wanted->id);
  for (const auto& [segment, pieces] : wanted->segments) {
    TORCH_CHECK(
        pool.segments.count(segment) == 1, "stitchpool: a segment of the checkpoint was given back meanwhile");
  }
  Restored restored;
  std::vector<uintptr_t> taken;
  for (const auto& [address, piece] : pool.pieces) {
    if (!piece.is_free) {
      taken.push_back(address);
      if (piece.is_live) {
        restored.freed.push_back(reinterpret_cast<void*>(address));
      }
    }
  }
  pool.late.clear();
  for (const uintptr_t address : taken) {
    set_free(pool, address);
  }
  carve(pool, *wanted, restored);
  return restored;
}

// Cuts whole free segments as the checkpoint has them.
void GraphPools::carve(Pool& pool, const State& state, Restored& restored) {
  for (const auto& [segment, pieces] : state.segments) {
    const auto whole = pool.pieces.find(segment);
    pool.free.erase(key(pool, whole->first, whole->second));
    pool.pieces.erase(whole);
    uintptr_t address = segment;
    for (const State::PieceState& wanted : pieces) {
      const Piece piece{wanted.bytes, wanted.requested_bytes, !wanted.is_live, wanted.is_live, segment};
      pool.pieces.emplace(address, piece);
      if (piece.is_free) {
        pool.free.insert(key(pool, address, piece));
      } else {
        Block block;
        block.address = reinterpret_cast<void*>(address);
        block.bytes = wanted.bytes;
        block.requested_bytes = wanted.requested_bytes;
        block.stream = pool.segments.at(segment).stream;
        block.pool_id = state.id;
        block.device = device_;
        block.source = Source::kGraphPool;
        restored.live.push_back(std::move(block));
      }
      address += wanted.bytes;
    }
  }
}

}  // namespace stitchpool
