#include "simulator/serve/kv_tiers.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "simulator/base/check.h"
#include "simulator/base/error.h"
#include "simulator/base/real_sizes.h"

namespace foretrace::serve {

absl::StatusOr<KvTierSpec> ParseKvTier(std::string_view text) {
  const std::vector<std::string> parts =
      absl::StrSplit(absl::string_view(text.data(), text.size()), ':');
  double gib = 0, gbps = 0, us = 0;
  const auto number = [&](size_t i, double low, double high, double& value) {
    return absl::SimpleAtod(parts[i], &value) && value >= low && value <= high;
  };
  const bool good = (parts.size() == 3 || parts.size() == 4) && !parts[0].empty() &&
                    number(1, 1e-6, 1e9, gib) && number(2, 1e-6, 1e6, gbps) &&
                    (parts.size() == 3 || number(3, 0, 1e9, us));
  if (!good) {
    return InvalidInput("--kv-tier '{}': give NAME:GiB:GB/s or NAME:GiB:GB/s:us",
                        std::string(text));
  }
  return KvTierSpec{parts[0], WholeBytes(gib * (int64_t{1} << 30)), Bandwidth::GBps(gbps),
                    SimTime::FromUs(us)};
}

KvTiers::KvTiers(std::vector<KvTierSpec> tiers, Bytes block) {
  for (const KvTierSpec& spec : tiers) {
    Tier& tier = tiers_.emplace_back();
    tier.transfer = block / spec.bandwidth;
    tier.latency = spec.latency;
    tier.room = static_cast<size_t>(spec.capacity.count() / std::max<int64_t>(block.count(), 1));
  }
}

void KvTiers::Put(uint64_t key, SimTime now) {
  if (tiers_.empty()) return;
  const auto known = places_.find(key);
  if (known == places_.end()) return Insert(key, 0, now);
  std::list<Block>& blocks = tiers_[known->second.tier].blocks;
  blocks.splice(blocks.begin(), blocks, known->second.at);
}

void KvTiers::Insert(uint64_t key, size_t tier, SimTime now) {
  if (tier == tiers_.size() || tiers_[tier].room == 0) {
    if (tier < tiers_.size()) return Insert(key, tier + 1, now);
    ++lost_;
    return;
  }
  Tier& t = tiers_[tier];
  t.write_free = std::max(t.write_free, now) + t.transfer;
  t.blocks.push_front({key, t.write_free});
  places_[key] = {tier, t.blocks.begin()};
  if (t.blocks.size() <= t.room) return;
  const uint64_t oldest = t.blocks.back().key;
  t.blocks.pop_back();
  places_.erase(oldest);
  Insert(oldest, tier + 1, now);
}

SimTime KvTiers::Read(std::span<const uint64_t> keys, SimTime now) {
  SimTime ready = now;
  for (const uint64_t key : keys) {
    const auto place = places_.find(key);
    FORETRACE_CHECK(place != places_.end());
    Tier& t = tiers_[place->second.tier];
    const SimTime begin = std::max({t.read_free, now, place->second.at->written});
    t.read_free = begin + t.transfer;
    ready = std::max(ready, t.read_free + t.latency);
    t.blocks.splice(t.blocks.begin(), t.blocks, place->second.at);
  }
  return ready;
}

}  // namespace foretrace::serve
