#pragma once
// One rank as the messages of a Chakra file.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "chakra.pb.h"
#include "simulator/exporters/chakra/comm_view.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace::chakra_wire {

class RankEncoder {
 public:
  using Sink = std::function<void(std::string_view bytes)>;
  // `rank` is one of the store's.
  RankEncoder(const TraceStore& store, const RankTrace& rank, const CommView& view, Sink sink);

  void EncodeAll();

 private:
  void EncodeMetadata();
  const ProcessGroup& ReplacementOf(const ProcessGroup& group) const;
  void EncodeProcessGroups(GlobalMetadata& metadata);
  void EncodeInferredGroups(GlobalMetadata& metadata) const;
  void EncodeNode(NodeIndex n);
  NodeType TypeOf(NodeIndex n) const;
  void AddDependencies(NodeIndex n);
  void AddTimes(NodeIndex n);
  void AddPlacement(NodeIndex n);
  void AddWork(NodeIndex n);
  void AddComm(NodeIndex n);
  void AddGroup(NodeIndex n, const CommAttr& comm);
  void AddTensors(NodeIndex n);
  void AddRow(NodeIndex n);
  void Emit(const google::protobuf::MessageLite& message);
  // CPU time of each node without what is nested in it.
  void ComputeSelfTimes();

  const TraceStore& store_;
  const RankTrace& rank_;
  uint32_t rank_index_;
  const CommView& view_;
  Sink sink_;
  std::vector<SimTime> self_time_;
  std::vector<NodeIndex> last_on_lane_;
  Node node_;  // reused
  std::string buffer_;
};

}  // namespace foretrace::chakra_wire
