#include "simulator/mapping/division_checks.h"

#include <string>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

// The nearest below and the nearest above that divide the replicas: "2 or 4 would do".
std::string OtherHybrid(const ParallelMapping& m) {
  const int32_t all = m.replicas();
  int32_t below = 0, above = 0;
  for (int32_t n = 2; n < all; ++n) {
    if (all % n != 0) continue;
    if (n < m.hybrid) below = n;
    if (n > m.hybrid && above == 0) above = n;
  }
  if (below > 0 && above > 0) return fmt::format("hsdp{} or hsdp{} would do", below, above);
  if (below + above > 0) return fmt::format("hsdp{} would do", below + above);
  return fmt::format("zero{} alone divides over all", m.zero);
}

absl::Status CheckHybrid(const ParallelMapping& m) {
  if (m.hybrid == 0) return absl::OkStatus();
  if (m.zero == 0) {
    return Infeasible(
        "mapping {}: hsdp{} divides what zeroN says, and it says none; zero1, zero2 or zero3 too",
        ToString(m), m.hybrid);
  }
  if (m.dual()) {
    return Infeasible("mapping {}: hsdp{} with dualpipe is not covered; 1f1b or zb-h1 would do",
                      ToString(m), m.hybrid);
  }
  if (m.hybrid == 1) {
    return Infeasible("mapping {}: of one replica nothing is divided, so hsdp1 is zero0; {}",
                      ToString(m), OtherHybrid(m));
  }
  if (m.replicas() % m.hybrid != 0) {
    return Infeasible("mapping {}: hsdp{} does not divide the {} replicas (dp * cp); {}",
                      ToString(m), m.hybrid, m.replicas(), OtherHybrid(m));
  }
  return absl::OkStatus();
}

// Of a second partition of the weights.
absl::Status CheckSecondShards(const ParallelMapping& m) {
  if (m.second_shards == 0) return absl::OkStatus();
  const auto refused = [&](std::string why) {
    return Infeasible("mapping {}: hpz{} {}", ToString(m), m.second_shards, why);
  };
  if (m.zero != 3) return refused("is a second partition of weights that zero3 divides; zero3 too");
  if (m.hybrid > 0) {
    return refused("and hsdp are two ways to keep gathers within a node; say one");
  }
  if (m.expert > 1 || m.expert_width() != m.tensor) {
    return refused("with divided experts is not covered; ep1 or hsdpN would do");
  }
  if (m.offload_weights) {
    return refused("would be on the host with offload-weights, which is not covered; say one");
  }
  if (m.second_shards == 1) {
    return refused("divides nothing, as DeepSpeed's zero_hpz_partition_size 1; leave it out");
  }
  if (m.replicas() % m.second_shards != 0) {
    return refused(
        fmt::format("does not divide the {} replicas (dp * cp); a divisor would do", m.replicas()));
  }
  return absl::OkStatus();
}

absl::Status CheckEightBitWeights(const ParallelMapping& m) {
  if (!m.eight_bit_weights) return absl::OkStatus();
  if (m.zero != 3 || m.replicas() == 1) {
    return Infeasible(
        "mapping {}: qwz casts weights that replicas gather; zero3 and at least 2 replicas too",
        ToString(m));
  }
  if (m.hybrid > 0) {
    return Infeasible("mapping {}: qwz with hsdp{} is not covered; hpz{} would do", ToString(m),
                      m.hybrid, m.hybrid);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckShards(const ParallelMapping& mapping) {
  FORETRACE_RETURN_IF_ERROR(CheckHybrid(mapping));
  FORETRACE_RETURN_IF_ERROR(CheckSecondShards(mapping));
  return CheckEightBitWeights(mapping);
}

}  // namespace foretrace
