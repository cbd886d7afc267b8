#pragma once
// Where the published partitioners' inputs lie, and random graphs for brute force.

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace foretrace {

inline std::string PartitioningData() {
  const char* env = std::getenv("FORETRACE_REALDATA");
  const std::string root = env != nullptr ? env : FORETRACE_SOURCE_DIR "/../shared/realdata";
  return root + "/partitioning";
}

#define FORETRACE_SKIP_WITHOUT_PARTITIONING_DATA()                                     \
  if (!std::filesystem::exists(PartitioningData())) {                                  \
    GTEST_SKIP() << PartitioningData() << " is absent; set FORETRACE_REALDATA to the " \
                 << "folder of public reference data";                                 \
  }

// Edges go from smaller to larger numbers; every node but the first has a predecessor.
inline std::vector<std::pair<int32_t, int32_t>> RandomDag(std::mt19937& rng, int32_t nodes) {
  std::vector<std::pair<int32_t, int32_t>> edges;
  for (int32_t v = 1; v < nodes; ++v) {
    const auto parent = static_cast<int32_t>(rng() % static_cast<uint32_t>(v));
    edges.emplace_back(parent, v);
    for (int32_t u = 0; u < v; ++u) {
      if (u != parent && rng() % 4 == 0) edges.emplace_back(u, v);
    }
  }
  return edges;
}

}  // namespace foretrace
