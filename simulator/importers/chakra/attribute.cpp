#include "simulator/importers/chakra/attribute.h"

#include <bit>
#include <cmath>
#include <utility>

#include "simulator/importers/chakra/wire.h"

namespace foretrace::chakra {
namespace {

struct KeyName {
  std::string_view name;
  AttributeKey key;
};

constexpr KeyName kForeignKeys[] = {
    {"is_cpu_op", AttributeKey::kIsCpuOp},
    {"comm_type", AttributeKey::kCommType},
    {"comm_size", AttributeKey::kCommSize},
    {"comm_src", AttributeKey::kCommSrc},
    {"comm_dst", AttributeKey::kCommDst},
    {"comm_tag", AttributeKey::kCommTag},
    {"pg_name", AttributeKey::kGroup},
    {"involved_dim", AttributeKey::kInvolvedDim},
    {"num_ops", AttributeKey::kNumOps},
    {"tensor_size", AttributeKey::kTensorSize},
    {"stream", AttributeKey::kStream},
    {"tid", AttributeKey::kThread},
    {"runtime", AttributeKey::kRuntime},
    {"schema", AttributeKey::kVersion},
    {"inputs", AttributeKey::kIgnored},
    {"outputs", AttributeKey::kIgnored},
    {"op_type", AttributeKey::kIgnored},
    {"op_schema", AttributeKey::kIgnored},
    {"rf_id", AttributeKey::kIgnored},
    {"seq_id", AttributeKey::kIgnored},
    {"scope", AttributeKey::kIgnored},
    {"fw_parent", AttributeKey::kIgnored},
    {"fw_tid", AttributeKey::kIgnored},
    {"kernel_backend", AttributeKey::kIgnored},
    {"kernel_file", AttributeKey::kIgnored},
    {"comm_priority", AttributeKey::kIgnored},
    {"tensor_loc", AttributeKey::kIgnored},
    {"tensor_dtype", AttributeKey::kIgnored},
    {"pid", AttributeKey::kIgnored},
    {"time", AttributeKey::kIgnored},
    {"start_ts", AttributeKey::kIgnored},
    {"finish_ts", AttributeKey::kIgnored},
    {"input_file", AttributeKey::kIgnored},
    {"collective", AttributeKey::kIgnored},
};

constexpr std::string_view kOwnPrefix = "foretrace.";
constexpr KeyName kOwnKeys[] = {
    {"node", AttributeKey::kNode},
    {"deps", AttributeKey::kDeps},
    {"tensors", AttributeKey::kTensors},
    {"comm", AttributeKey::kComm},
    {"comm_group", AttributeKey::kCommGroup},
    {"splits_in", AttributeKey::kSplitsIn},
    {"splits_out", AttributeKey::kSplitsOut},
    {"sync", AttributeKey::kSync},
    {"flop", AttributeKey::kFlop},
    {"waves", AttributeKey::kWaves},
    {"format", AttributeKey::kFormat},
    {"rank", AttributeKey::kRank},
    {"world_size", AttributeKey::kWorldSize},
    {"producer", AttributeKey::kProducer},
    {"device", AttributeKey::kDevice},
    {"has_times", AttributeKey::kHasTimes},
    {"synthetic", AttributeKey::kSynthetic},
    {"origin_ns", AttributeKey::kOrigin},
    {"lanes", AttributeKey::kLanes},
    {"lane_labels", AttributeKey::kLaneLabels},
    {"iterations", AttributeKey::kIterations},
    {"nodes", AttributeKey::kNodeCount},
    {"process_group", AttributeKey::kProcessGroup},
    {"group_ranks", AttributeKey::kGroupRanks},
};

template <size_t N>
AttributeKey Find(const KeyName (&table)[N], std::string_view name) {
  for (const KeyName& entry : table) {
    // Lengths differ for most entries, so that little text is compared.
    if (entry.name == name) return entry.key;
  }
  return AttributeKey::kUnknown;
}

}  // namespace

AttributeKey FindAttributeKey(std::string_view name) {
  if (name.starts_with(kOwnPrefix)) return Find(kOwnKeys, name.substr(kOwnPrefix.size()));
  return Find(kForeignKeys, name);
}

bool AttributeValue::AsInteger(int64_t& out) const {
  if (kind == Kind::kInteger) {
    out = integer;
    return true;
  }
  if (kind == Kind::kReal && std::abs(real) < 0x1p62 && real == std::floor(real)) {
    out = static_cast<int64_t>(real);
    return true;
  }
  return false;
}

bool AttributeValue::AsReal(double& out) const {
  if (kind == Kind::kInteger) {
    out = static_cast<double>(integer);
    return true;
  }
  if (kind == Kind::kReal) {
    out = real;
    return true;
  }
  return false;
}

bool DecodeAttribute(std::string_view message, Attribute& attribute) {
  attribute = Attribute();
  WireReader reader(message);
  WireField field;
  while (reader.Next(field)) {
    if (field.number == 1 && field.type == WireType::kLength) {
      attribute.name = field.bytes;
      continue;
    }
    if (field.number < 3 || field.number > 32) continue;
    AttributeValue& value = attribute.value;
    value.arm = field.number;
    if (field.type == WireType::kLength) {
      value.bytes = field.bytes;
      const bool text = field.number == 29 || field.number == 31;
      value.kind = text ? AttributeValue::Kind::kText : AttributeValue::Kind::kList;
      continue;
    }
    value.kind = AttributeValue::Kind::kInteger;
    switch (field.number) {
      case 3:
        value.kind = AttributeValue::Kind::kReal;
        value.real = std::bit_cast<double>(field.value);
        break;
      case 5:
        value.kind = AttributeValue::Kind::kReal;
        value.real = std::bit_cast<float>(static_cast<uint32_t>(field.value));
        break;
      case 15:
      case 17: value.integer = ZigZag(field.value); break;
      case 23: value.integer = static_cast<int32_t>(static_cast<uint32_t>(field.value)); break;
      default: value.integer = static_cast<int64_t>(field.value);
    }
  }
  return reader.ok();
}

bool DecodePackedVarints(std::string_view packed, std::vector<uint64_t>& out) {
  WireReader reader(packed);
  uint64_t value = 0;
  while (!reader.at_end()) {
    if (!reader.ReadVarint(value)) return false;
    out.push_back(value);
  }
  return true;
}

bool DecodeIntegers(const AttributeValue& value, std::vector<int64_t>& out) {
  const bool zigzag = value.arm == 16 || value.arm == 18;
  const bool varint = value.arm == 8 || value.arm == 10 || value.arm == 12 || value.arm == 14 ||
                      value.arm == 28 || zigzag;
  if (value.kind != AttributeValue::Kind::kList || !varint) return false;
  const auto append = [&](uint64_t v) {
    out.push_back(zigzag ? ZigZag(v) : static_cast<int64_t>(v));
  };
  WireReader reader(value.bytes);
  WireField field;
  while (reader.Next(field)) {
    if (field.number != 1) continue;
    if (field.type == WireType::kVarint) {
      append(field.value);
    } else if (field.type == WireType::kLength) {
      WireReader packed(field.bytes);
      uint64_t v = 0;
      while (!packed.at_end()) {
        if (!packed.ReadVarint(v)) return false;
        append(v);
      }
    } else {
      return false;
    }
  }
  return reader.ok();
}

bool DecodeStrings(const AttributeValue& value, std::vector<std::string_view>& out) {
  if (value.kind != AttributeValue::Kind::kList || (value.arm != 30 && value.arm != 32)) {
    return false;
  }
  WireReader reader(value.bytes);
  WireField field;
  while (reader.Next(field)) {
    if (field.number == 1 && field.type == WireType::kLength) out.push_back(field.bytes);
  }
  return reader.ok();
}

}  // namespace foretrace::chakra
