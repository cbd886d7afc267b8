#include "simulator/reconstruct/stream_joins.h"

#include <algorithm>

namespace foretrace {

NodeIndex StreamJoins::HeldAt(NodeIndex call, LaneIndex stream) const {
  const std::vector<NodeIndex>& issued = issued_[stream.value];
  const auto before = std::find_if(issued.rbegin(), issued.rend(), [&](NodeIndex device) {
    const NodeIndex launch = rank_.launcher(device);
    return !launch.valid() || rank_.start(launch) <= rank_.start(call);
  });
  return before == issued.rend() ? NodeIndex() : *before;
}

bool StreamJoins::Join(LaneIndex stream, NodeIndex producer) {
  NodeIndex& joined = joined_[{stream.value, rank_.lane(producer).value}];
  if (joined.valid() && producer <= joined) return false;
  joined = producer;
  return true;
}

}  // namespace foretrace
