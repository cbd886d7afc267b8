#pragma once
// Attributes of Chakra nodes: which ones are known, and their values whatever the arm.

#include <cstdint>
#include <string_view>
#include <vector>

namespace foretrace::chakra {

class WireReader;

// Attributes whose value the importer uses; kIgnored are known and carry nothing for a simulation.
enum class AttributeKey : uint8_t {
  kUnknown,
  kIgnored,
  kIsCpuOp,
  kCommType,
  kCommSize,
  kCommSrc,
  kCommDst,
  kCommTag,
  kGroup,  // pg_name
  kInvolvedDim,
  kNumOps,
  kTensorSize,
  kStream,
  kThread,   // tid
  kRuntime,  // v0.0.2 and v0.0.3: duration in microseconds
  kVersion,  // schema
  // This project's own (docs/format.md).
  kFormat,
  kRank,
  kWorldSize,
  kProducer,
  kDevice,
  kHasTimes,
  kSynthetic,
  kOrigin,
  kLanes,
  kLaneLabels,
  kIterations,
  kNodeCount,
  kProcessGroup,
  kGroupRanks,
  kNode,
  kDeps,
  kComm,
  kCommGroup,
  kSplitsIn,
  kSplitsOut,
  kSync,
  kFlop,
  kWaves,
  kLaunch,
  kTensors,
  kInferred,
  kCount,
};

using Key = AttributeKey;

AttributeKey FindAttributeKey(std::string_view name);
// The name of a key of foreign files, for messages.
std::string_view AttributeName(AttributeKey key);

struct AttributeValue {
  enum class Kind : uint8_t { kNone, kInteger, kReal, kText, kList };
  Kind kind = Kind::kNone;
  uint32_t arm = 0;        // field number in AttributeProto; tells the type of a list's elements
  int64_t integer = 0;     // kInteger
  double real = 0;         // kReal
  std::string_view bytes;  // kText: the text; kList: the encoded list message

  // True when the value is an integer, or a real that holds one exactly.
  bool AsInteger(int64_t& out) const;
  bool AsReal(double& out) const;
};

struct Attribute {
  std::string_view name;
  AttributeValue value;
};

// Reads one AttributeProto (v0.0.4). False when it is malformed.
bool DecodeAttribute(std::string_view message, Attribute& attribute);
// What follows in one that is partly read.
bool DecodeFields(WireReader& reader, Attribute& attribute);

// Appends an integer list's elements. False when `value` is no integer list or is malformed.
bool DecodeIntegers(const AttributeValue& value, std::vector<int64_t>& out);
// Likewise for a list of strings; the views point into the message.
bool DecodeStrings(const AttributeValue& value, std::vector<std::string_view>& out);
// The elements of a repeated integer field, packed in `packed`. False when malformed.
bool DecodePackedVarints(std::string_view packed, std::vector<uint64_t>& out);

}  // namespace foretrace::chakra
