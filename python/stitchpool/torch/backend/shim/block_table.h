// Live blocks by address, in many small tables with a lock each: threads hardly ever meet.
#pragma once

#include "block.h"
#include "spin.h"

#include <array>
#include <mutex>
#include <vector>

namespace stitchpool {

class BlockTable {
 public:
  // The address is not in the table.
  void insert(Block&& block) {
    Shard& shard = shard_of(block.address);
    std::lock_guard<Spin> lock(shard.spin);
    if ((shard.count + 1) * 4 > shard.blocks.size() * 3) {
      shard.grow();
    }
    shard.put(std::move(block));
  }

  // Takes the block that starts there out; one without an address if there is none.
  Block take(void* address) {
    Shard& shard = shard_of(address);
    std::lock_guard<Spin> lock(shard.spin);
    const size_t at = shard.find(address);
    return at == kNowhere ? Block{} : shard.cut(at);
  }

  // Calls `change` on the block that starts there, under its lock. False: there is none.
  template <typename Change>
  bool with(void* address, Change change) {
    Shard& shard = shard_of(address);
    std::lock_guard<Spin> lock(shard.spin);
    const size_t at = shard.find(address);
    if (at != kNowhere) {
      change(shard.blocks[at]);
    }
    return at != kNowhere;
  }

  // Calls `look` on every block, in no order.
  template <typename Look>
  void each(Look look) {
    for (Shard& shard : shards_) {
      std::lock_guard<Spin> lock(shard.spin);
      for (const Block& block : shard.blocks) {
        if (block.address != nullptr) {
          look(block);
        }
      }
    }
  }

 private:
  static constexpr size_t kShardsLog2 = 8;
  static constexpr size_t kNowhere = SIZE_MAX;

  static uint64_t spread(const void* address) {
    return (reinterpret_cast<uint64_t>(address) >> 9) * 0x9E3779B97F4A7C15u;
  }

  // Open addressing: a block lies at its place or behind it without a gap.
  struct alignas(128) Shard {
    Spin spin;
    size_t count = 0;
    std::vector<Block> blocks;

    size_t place_of(const void* address) const {
      return (spread(address) >> 16) & (blocks.size() - 1);
    }

    size_t find(const void* address) const {
      if (blocks.empty() || address == nullptr) {
        return kNowhere;
      }
      size_t at = place_of(address);
      while (blocks[at].address != nullptr) {
        if (blocks[at].address == address) {
          return at;
        }
        at = (at + 1) & (blocks.size() - 1);
      }
      return kNowhere;
    }

    void put(Block&& block) {
      size_t at = place_of(block.address);
      while (blocks[at].address != nullptr) {
        at = (at + 1) & (blocks.size() - 1);
      }
      blocks[at] = std::move(block);
      ++count;
    }

    Block cut(size_t at) {
      Block block = std::move(blocks[at]);
      blocks[at].address = nullptr;
      --count;
      // What lies behind without a gap may stand before its place no more.
      for (size_t next = (at + 1) & (blocks.size() - 1); blocks[next].address != nullptr;
           next = (next + 1) & (blocks.size() - 1)) {
        Block moved = std::move(blocks[next]);
        blocks[next].address = nullptr;
        --count;
        put(std::move(moved));
      }
      return block;
    }

    void grow() {
      std::vector<Block> old(std::max<size_t>(16, blocks.size() * 2));
      old.swap(blocks);
      count = 0;
      for (Block& block : old) {
        if (block.address != nullptr) {
          put(std::move(block));
        }
      }
    }
  };

  Shard& shard_of(const void* address) {
    return shards_[spread(address) >> (64 - kShardsLog2)];
  }

  std::array<Shard, size_t{1} << kShardsLog2> shards_;
};

}  // namespace stitchpool
