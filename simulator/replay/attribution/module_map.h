#pragma once
// Which module of the recorded model work belongs to.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "simulator/importers/profile_extras.h"
#include "simulator/replay/attribution/frame_index.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

class ModuleMap {
 public:
  // `store` outlives the map. Error: no modules are recorded, with how to record them.
  static absl::StatusOr<std::shared_ptr<const ModuleMap>> Make(
      const TraceStore& store, std::span<const ProfileExtras> extras);

  // The modules around the call that issued the node, or for backward work around its forward
  // operator, the outermost first: "Llama_0.DecoderLayer_3.MLP_3"; empty: none.
  std::string_view PathOf(const RankTrace& rank, NodeIndex node) const;

 private:
  struct OfRank {
    FrameIndex frames;
    std::vector<uint32_t> path;  // by entry of frames.spans()
  };

  absl::flat_hash_map<int32_t, std::unique_ptr<OfRank>> ranks_;
  std::vector<std::string> paths_;
};

}  // namespace foretrace
