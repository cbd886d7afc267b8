#include "simulator/importers/chakra/node.h"

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

bool AddAttribute(std::string_view message, Node& node) {
  // The name comes first in what every known producer writes: what is not used is not read.
  WireReader reader(message);
  WireField first;
  const bool named = reader.Next(first) && first.number == 1 && first.type == WireType::kLength;
  AttributeKey key = named ? FindAttributeKey(first.bytes) : AttributeKey::kUnknown;
  if (key == AttributeKey::kIgnored) return true;
  Attribute attribute;
  if (named) {
    attribute.name = first.bytes;
    if (!DecodeFields(reader, attribute)) return false;
  } else if (!DecodeAttribute(message, attribute)) {
    return false;
  }
  // Else the name comes later, or once more.
  if (!named || attribute.name.data() != first.bytes.data()) key = FindAttributeKey(attribute.name);
  if (IsNodeAttribute(key)) {
    node.Set(key, attribute.value);
  } else if (key != AttributeKey::kIgnored) {
    if (node.unknown_attributes++ == 0) node.unknown_attribute = attribute.name;
  }
  return true;
}

}  // namespace

void Node::Clear() {
  id = 0;
  name = {};
  type = 0;
  ctrl_deps.clear();
  data_deps.clear();
  start_us = 0;
  duration_us = 0;
  input_values = {};
  present = 0;
  unknown_attribute = {};
  unknown_attributes = 0;
}

bool IsNodeAttribute(AttributeKey key) {
  const bool foreign = key >= AttributeKey::kIsCpuOp && key <= AttributeKey::kRuntime;
  const bool own = key >= AttributeKey::kNode && key <= AttributeKey::kInferred;
  return foreign || own;
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
      case 1:
        is_varint ? void(node.id = field.value) : void(what = "id");
        break;
      case 2:
        is_bytes ? void(node.name = field.bytes) : void(what = "name");
        break;
      case 3:
        is_varint ? void(node.type = field.value) : void(what = "type");
        break;
      case 4:
        if (!AppendIntegers(field, node.ctrl_deps)) what = "ctrl_deps";
        break;
      case 5:
        if (!AppendIntegers(field, node.data_deps)) what = "data_deps";
        break;
      case 6:
        is_varint ? void(node.start_us = field.value) : void(what = "start_time_micros");
        break;
      case 7:
        is_varint ? void(node.duration_us = field.value) : void(what = "duration_micros");
        break;
      case 8:
        if (!is_bytes || !DecodeInputs(field.bytes, node)) what = "inputs";
        break;
      case 10:
        if (!is_bytes || !AddAttribute(field.bytes, node)) what = "attr";
        break;
      default:
        break;  // outputs, and fields of later versions
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
