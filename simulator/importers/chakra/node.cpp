#include "simulator/importers/chakra/node.h"

#include <algorithm>
#include <utility>

#include "simulator/importers/chakra/wire.h"

namespace foretrace::chakra {
namespace {

bool DecodeInputs(std::string_view message, Node& node) {
  WireReader reader(message);
  WireField field;
  while (reader.Next(field)) {
    if (field.number == 1 && field.type == WireType::kLength) node.input_values = field.bytes;
  }
  return reader.ok();
}

// A repeated integer field, packed or not.
bool AppendIntegers(const WireField& field, std::vector<uint64_t>& out) {
  if (field.type == WireType::kVarint) {
    out.push_back(field.value);
    return true;
  }
  return field.type == WireType::kLength && DecodePackedVarints(field.bytes, out);
}

bool LeavesOutDimension(const AttributeValue& involved) {
  std::vector<int64_t> dims;
  return DecodeIntegers(involved, dims) && std::find(dims.begin(), dims.end(), 0) != dims.end();
}

bool AddAttribute(std::string_view message, Node& node) {
  Attribute attribute;
  if (!DecodeAttribute(message, attribute)) return false;
  const AttributeKey key = FindAttributeKey(attribute.name);
  if (!SetAttribute(node, key, attribute.value) && key != AttributeKey::kIgnored) {
    if (node.unknown_attributes++ == 0) node.unknown_attribute = attribute.name;
  }
  return true;
}

}  // namespace

void Node::Clear() {
  std::vector<uint64_t> ctrl = std::move(ctrl_deps);
  std::vector<uint64_t> data = std::move(data_deps);
  *this = Node();
  ctrl.clear();
  data.clear();
  ctrl_deps = std::move(ctrl);
  data_deps = std::move(data);
}

bool SetAttribute(Node& node, AttributeKey key, const AttributeValue& value) {
  switch (key) {
    case AttributeKey::kIsCpuOp: node.is_cpu_op = value; return true;
    case AttributeKey::kCommType: node.comm_type = value; return true;
    case AttributeKey::kCommSize: node.comm_size = value; return true;
    case AttributeKey::kCommSrc: node.comm_src = value; return true;
    case AttributeKey::kCommDst: node.comm_dst = value; return true;
    case AttributeKey::kCommTag: node.comm_tag = value; return true;
    case AttributeKey::kGroup: node.group = value; return true;
    case AttributeKey::kInvolvedDim: node.partial_dims = LeavesOutDimension(value); return true;
    case AttributeKey::kNumOps: node.num_ops = value; return true;
    case AttributeKey::kTensorSize: node.tensor_size = value; return true;
    case AttributeKey::kStream: node.stream = value; return true;
    case AttributeKey::kThread: node.thread = value; return true;
    case AttributeKey::kRuntime: node.runtime = value; return true;
    case AttributeKey::kNode: node.own_node = value; return true;
    case AttributeKey::kDeps: node.own_deps = value; return true;
    case AttributeKey::kComm: node.own_comm = value; return true;
    case AttributeKey::kCommGroup: node.own_comm_group = value; return true;
    case AttributeKey::kSplitsIn: node.own_splits_in = value; return true;
    case AttributeKey::kSplitsOut: node.own_splits_out = value; return true;
    case AttributeKey::kSync: node.own_sync = value; return true;
    case AttributeKey::kFlop: node.own_flop = value; return true;
    case AttributeKey::kWaves: node.own_waves = value; return true;
    case AttributeKey::kTensors: node.own_tensors = value; return true;
    default: return false;
  }
}

bool DecodeNode(std::string_view message, Node& node, DecodeError& error) {
  node.Clear();
  WireReader reader(message);
  WireField field;
  while (reader.Next(field)) {
    const char* what = nullptr;
    const bool is_varint = field.type == WireType::kVarint;
    const bool is_bytes = field.type == WireType::kLength;
    switch (field.number) {
      case 1: is_varint ? void(node.id = field.value) : void(what = "id"); break;
      case 2: is_bytes ? void(node.name = field.bytes) : void(what = "name"); break;
      case 3: is_varint ? void(node.type = field.value) : void(what = "type"); break;
      case 4: if (!AppendIntegers(field, node.ctrl_deps)) what = "ctrl_deps"; break;
      case 5: if (!AppendIntegers(field, node.data_deps)) what = "data_deps"; break;
      case 6:
        is_varint ? void(node.start_us = field.value) : void(what = "start_time_micros");
        break;
      case 7:
        node.has_duration = true;
        is_varint ? void(node.duration_us = field.value) : void(what = "duration_micros");
        break;
      case 8: if (!is_bytes || !DecodeInputs(field.bytes, node)) what = "inputs"; break;
      case 10: if (!is_bytes || !AddAttribute(field.bytes, node)) what = "attr"; break;
      default: break;  // outputs, and fields of later versions
    }
    if (what != nullptr) {
      error = {reader.position(), what};
      return false;
    }
  }
  if (!reader.ok()) error = {reader.position(), "field"};
  return reader.ok();
}

}  // namespace foretrace::chakra
