#pragma once
// The first message of a Chakra file.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace::chakra {

// What files written by this project say about their rank (docs/format.md).
struct OwnMetadata {
  int64_t format = 0;  // 0: another producer
  int32_t rank = 0;
  int32_t world_size = 0;
  int64_t origin_ns = 0;
  bool has_times = true;
  bool synthetic = false;
  int64_t nodes = -1;  // how many the file holds; -1 not declared
  std::string producer;
  std::string device_name;
  std::vector<Lane> lanes;
  std::vector<std::pair<int64_t, int64_t>> iterations;  // number, node
  std::vector<ProcessGroup> process_groups;
};

struct Metadata {
  std::string version;  // as declared: "0.0.4", "1.0.2-chakra.0.0.4", a generator's name, ""
  OwnMetadata own;
};

// The version of the format that an attribute of own files declares.
inline constexpr int64_t kOwnFormat = 1;

// `source` names the file in errors. Errors: malformed, an own format of a later version, own
// attributes that contradict each other.
absl::StatusOr<Metadata> DecodeMetadata(std::string_view message, const std::string& source);

}  // namespace foretrace::chakra
