#pragma once
// One Chakra node, decoded in place.

#include <array>
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
  std::string_view input_values;  // IOInfo.values of the inputs

  // Its attributes; kind is kNone for those it does not have.
  const AttributeValue& operator[](AttributeKey key) const {
    static constexpr AttributeValue kNone;
    return present >> static_cast<unsigned>(key) & 1 ? values[static_cast<size_t>(key)] : kNone;
  }
  bool has(AttributeKey key) const { return (*this)[key].kind != AttributeValue::Kind::kNone; }
  void Set(AttributeKey key, const AttributeValue& value) {
    values[static_cast<size_t>(key)] = value;
    present |= uint64_t{1} << static_cast<unsigned>(key);
  }
  std::array<AttributeValue, static_cast<size_t>(AttributeKey::kCount)> values;
  uint64_t present = 0;  // bit mask of keys
  static_assert(static_cast<size_t>(AttributeKey::kCount) <= 64);
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

// Whether the attribute is one of a node that the importer uses.
bool IsNodeAttribute(AttributeKey key);

}  // namespace foretrace::chakra
