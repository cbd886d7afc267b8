#pragma once
// One rank as the messages of a Chakra file.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "chakra.pb.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace::chakra_wire {

// Other tools want process groups that are named by numbers. Those that are keep their name; others
// get the numbers after the greatest of those. Only groups that the job declares.
absl::flat_hash_map<std::string, std::string> NumberProcessGroups(const TraceStore& store);

class RankEncoder {
 public:
  using Sink = std::function<void(std::string_view bytes)>;
  RankEncoder(const TraceStore& store, const RankTrace& rank,
              const absl::flat_hash_map<std::string, std::string>& group_numbers, Sink sink);

  void EncodeAll();

 private:
  void EncodeMetadata();
  void EncodeProcessGroups(GlobalMetadata& metadata);
  void EncodeNode(NodeIndex n);
  NodeType TypeOf(NodeIndex n) const;
  void AddDependencies(NodeIndex n);
  void AddTimes(NodeIndex n);
  void AddPlacement(NodeIndex n);
  void AddWork(NodeIndex n);
  void AddComm(NodeIndex n);
  void AddGroup(StringId group);
  void AddTensors(NodeIndex n);
  void AddRow(NodeIndex n);
  void Emit(const google::protobuf::MessageLite& message);
  // CPU time of each node without what is nested in it.
  void ComputeSelfTimes();

  const TraceStore& store_;
  const RankTrace& rank_;
  const absl::flat_hash_map<std::string, std::string>& group_numbers_;
  Sink sink_;
  std::vector<SimTime> self_time_;
  std::vector<NodeIndex> last_on_lane_;
  Node node_;  // reused
  std::string buffer_;
};

}  // namespace foretrace::chakra_wire
