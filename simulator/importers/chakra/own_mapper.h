#pragma once
// Nodes of files that this project's exporter or generators wrote: the exact inverse of the
// exporter. The attributes are described in docs/format.md.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "simulator/importers/chakra/metadata.h"
#include "simulator/importers/chakra/node.h"
#include "simulator/trace/builder.h"

namespace foretrace::chakra {

class OwnMapper {
 public:
  OwnMapper(RankTraceBuilder& builder, OwnMetadata metadata);

  absl::Status Add(const Node& node);
  absl::Status Finish();

 private:
  // The integers of a list attribute, valid until the next call.
  absl::StatusOr<const std::vector<int64_t>*> List(const Node& node, const AttributeValue& value,
                                                   const char* name);
  absl::Status Malformed(const Node& node, const char* name) const;
  absl::Status AddRow(const Node& node);
  absl::Status AddComm(const Node& node, NodeIndex index);
  absl::Status AddSync(const Node& node, NodeIndex index);
  absl::Status AddLaunch(const Node& node, NodeIndex index);
  absl::Status AddTensors(const Node& node, NodeIndex index);
  absl::Status AddDependencies(const Node& node, NodeIndex index);
  // Remembers a reference to a row, which may come later in the file.
  NodeIndex Reference(uint64_t row);

  RankTraceBuilder& builder_;
  OwnMetadata metadata_;
  std::vector<LaneIndex> lanes_;
  std::vector<int64_t> list_;
  std::vector<int64_t> splits_in_;
  std::vector<int64_t> splits_out_;
  uint64_t greatest_reference_ = 0;
};

}  // namespace foretrace::chakra
