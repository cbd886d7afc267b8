#pragma once
// One Chakra node, decoded in place.

#include <cstdint>
#include <string_view>
#include <vector>

#include "simulator/importers/chakra/attribute.h"

namespace foretrace::chakra {

enum class NodeType : uint8_t {
  kInvalid = 0,
  kMetadata = 1,
  kMemLoad = 2,
  kMemStore = 3,
  kComp = 4,
  kCommSend = 5,
  kCommRecv = 6,
  kCommColl = 7,
};

// Reused from node to node, so that its vectors allocate once. Views point into the message.
struct Node {
  uint64_t id = 0;
  std::string_view name;
  uint64_t type = 0;  // as on the wire; ToNodeType checks it
  std::vector<uint64_t> ctrl_deps;
  std::vector<uint64_t> data_deps;
  uint64_t start_us = 0;
  uint64_t duration_us = 0;
  bool has_duration = false;
  std::string_view input_values;  // IOInfo.values of the inputs

  // By AttributeKey; kind is kNone for those the node does not have.
  AttributeValue is_cpu_op, comm_type, comm_size, comm_src, comm_dst, comm_tag, group, num_ops,
      tensor_size, stream, thread, runtime;
  // involved_dim is there and leaves a dimension out.
  bool partial_dims = false;
  // Own attributes.
  AttributeValue own_node, own_deps, own_comm, own_comm_group, own_splits_in, own_splits_out,
      own_sync, own_flop, own_waves, own_tensors;
  // First attribute the importer does not know; empty when none.
  std::string_view unknown_attribute;
  int unknown_attributes = 0;

  void Clear();
};

// Where a message is malformed: offset in the message and what was being read.
struct DecodeError {
  size_t offset = 0;
  const char* what = "";
};

// False when the message is malformed.
bool DecodeNode(std::string_view message, Node& node, DecodeError& error);

// Stores `value` under `key`. False when the key is not one of a node's.
bool SetAttribute(Node& node, AttributeKey key, const AttributeValue& value);

}  // namespace foretrace::chakra
