#pragma once
// Keys and values below a device's memory: host memory, disks, a store over the network.

#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "simulator/base/time.h"
#include "simulator/base/units.h"

namespace foretrace::serve {

// One tier, a device's share of it.
struct KvTierSpec {
  std::string name;
  Bytes capacity;
  Bandwidth bandwidth;  // of each direction
  SimTime latency;
};
// "host:64:25" or "disk:1000:5:80": name, GiB, GB/s and, where there is one, latency in us.
absl::StatusOr<KvTierSpec> ParseKvTier(std::string_view text);

// Blocks by what they hold. A block that leaves the device goes to the first tier; where a tier is
// full the block that was used longest ago goes to the next, and from the last it is lost. Blocks
// that are read stay where they are. Each tier moves one block after another in each direction.
class KvTiers {
 public:
  KvTiers(std::vector<KvTierSpec> tiers, Bytes block);

  bool empty() const { return tiers_.empty(); }
  // A block leaves the device at `now`.
  void Put(uint64_t key, SimTime now);
  bool Has(uint64_t key) const { return places_.contains(key); }
  // When the blocks, all of which are there, are on the device if they are asked for at `now`.
  SimTime Read(std::span<const uint64_t> keys, SimTime now);

  int64_t blocks_lost() const { return lost_; }
  // Of a tier, for tests.
  int64_t held(size_t tier) const { return static_cast<int64_t>(tiers_[tier].blocks.size()); }

 private:
  struct Block {
    uint64_t key;
    SimTime written;
  };
  struct Tier {
    SimTime transfer;  // of one block
    SimTime latency;
    size_t room = 0;
    std::list<Block> blocks;  // the latest used first
    SimTime read_free, write_free;
  };
  struct Place {
    size_t tier;
    std::list<Block>::iterator at;
  };
  void Insert(uint64_t key, size_t tier, SimTime now);

  std::vector<Tier> tiers_;
  absl::flat_hash_map<uint64_t, Place> places_;
  int64_t lost_ = 0;
};

}  // namespace foretrace::serve
