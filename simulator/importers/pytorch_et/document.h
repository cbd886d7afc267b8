#pragma once
// A PyTorch execution trace as read, whatever its schema version.

#include <cstdint>
#include <string>
#include <vector>

#include "simulator/base/collective_op.h"
#include "simulator/base/dtype.h"
#include "simulator/base/string_pool.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace::pytorch_et {

// A tensor argument or result: [tensor id, storage id, offset, elements, element size, device].
struct TensorRef {
  int64_t id = 0;
  int64_t storage = 0;
  int64_t offset = 0;  // elements from the start of the storage
  int64_t elements = 0;
  int64_t element_size = 0;
  uint32_t dims_begin = 0;  // into Document::dims
  uint16_t dims_count = 0;
  uint16_t argument = 0;  // position among the operator's inputs or outputs
  DType dtype = DType::kUnknown;
  bool is_output = false;

  int64_t begin_byte() const { return offset * element_size; }
  int64_t end_byte() const { return (offset + elements) * element_size; }
};

// What a record_param_comms or c10d:: operator says about its collective.
struct CommRecord {
  bool is_wait = false;  // waits for the collective of the same sequence number
  bool is_send = false;
  bool is_recv = false;
  CollectiveOp op = CollectiveOp::kUnknown;
  int64_t sequence = -1;
  int64_t peer = -1;
  int64_t group_size = 0;
  DType dtype = DType::kUnknown;
  std::string group;
  std::string group_description;
  int64_t in_elements = -1;
  int64_t out_elements = -1;
  std::vector<int64_t> in_splits;  // rows of the first dimension
  std::vector<int64_t> out_splits;
};

struct Node {
  uint64_t id = 0;
  uint64_t parent = 0;
  int64_t record_function = -1;
  int64_t thread = 0;
  int64_t scope = 0;  // at::RecordScope: 0 function, 1 backward function, 7 user scope
  StringId name;
  StringId schema;  // operator schema; empty for user ranges
  uint32_t tensors_begin = 0;
  uint32_t tensors_count = 0;
  int32_t comm = -1;  // into Document::comms
};

struct Document {
  std::string schema;
  std::vector<Node> nodes;  // in ascending order of id once read: the order in which they began
  std::vector<TensorRef> tensors;
  std::vector<int64_t> dims;
  std::vector<CommRecord> comms;
  std::vector<ProcessGroup> groups;
  int32_t world_size = 0;
  StringPool strings;
};

}  // namespace foretrace::pytorch_et
