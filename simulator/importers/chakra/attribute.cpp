#include "simulator/importers/chakra/attribute.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "simulator/importers/chakra/wire.h"

namespace foretrace::chakra {
namespace {

struct KeyName {
  std::string_view name;
  AttributeKey key;
};

// Both tables are in order of length: a look-up compares text with names of equal length only.
constexpr KeyName kForeignKeys[] = {
    {"tid", AttributeKey::kThread},
    {"pid", AttributeKey::kIgnored},
    {"time", AttributeKey::kIgnored},
    {"rf_id", AttributeKey::kIgnored},
    {"scope", AttributeKey::kIgnored},
    {"stream", AttributeKey::kStream},
    {"schema", AttributeKey::kVersion},
    {"inputs", AttributeKey::kIgnored},
    {"seq_id", AttributeKey::kIgnored},
    {"fw_tid", AttributeKey::kIgnored},
    {"pg_name", AttributeKey::kGroup},
    {"num_ops", AttributeKey::kNumOps},
    {"runtime", AttributeKey::kRuntime},
    {"outputs", AttributeKey::kIgnored},
    {"op_type", AttributeKey::kIgnored},
    {"comm_src", AttributeKey::kCommSrc},
    {"comm_dst", AttributeKey::kCommDst},
    {"comm_tag", AttributeKey::kCommTag},
    {"start_ts", AttributeKey::kIgnored},
    {"is_cpu_op", AttributeKey::kIsCpuOp},
    {"comm_type", AttributeKey::kCommType},
    {"comm_size", AttributeKey::kCommSize},
    {"op_schema", AttributeKey::kIgnored},
    {"fw_parent", AttributeKey::kIgnored},
    {"finish_ts", AttributeKey::kIgnored},
    {"tensor_loc", AttributeKey::kIgnored},
    {"input_file", AttributeKey::kIgnored},
    {"collective", AttributeKey::kIgnored},
    {"tensor_size", AttributeKey::kTensorSize},
    {"kernel_file", AttributeKey::kIgnored},
    {"involved_dim", AttributeKey::kInvolvedDim},
    {"tensor_dtype", AttributeKey::kIgnored},
    {"comm_priority", AttributeKey::kIgnored},
    {"kernel_backend", AttributeKey::kIgnored},
};

constexpr std::string_view kOwnPrefix = "foretrace.";
constexpr KeyName kOwnKeys[] = {
    {"node", AttributeKey::kNode},
    {"deps", AttributeKey::kDeps},
    {"comm", AttributeKey::kComm},
    {"sync", AttributeKey::kSync},
    {"flop", AttributeKey::kFlop},
    {"rank", AttributeKey::kRank},
    {"waves", AttributeKey::kWaves},
    {"lanes", AttributeKey::kLanes},
    {"nodes", AttributeKey::kNodeCount},
    {"format", AttributeKey::kFormat},
    {"launch", AttributeKey::kLaunch},
    {"device", AttributeKey::kDevice},
    {"tensors", AttributeKey::kTensors},
    {"producer", AttributeKey::kProducer},
    {"inferred", AttributeKey::kInferred},
    {"splits_in", AttributeKey::kSplitsIn},
    {"has_times", AttributeKey::kHasTimes},
    {"synthetic", AttributeKey::kSynthetic},
    {"origin_ns", AttributeKey::kOrigin},
    {"comm_group", AttributeKey::kCommGroup},
    {"splits_out", AttributeKey::kSplitsOut},
    {"world_size", AttributeKey::kWorldSize},
    {"iterations", AttributeKey::kIterations},
    {"lane_labels", AttributeKey::kLaneLabels},
    {"group_ranks", AttributeKey::kGroupRanks},
    {"process_group", AttributeKey::kProcessGroup},
};

constexpr size_t kMaxLength = 16;

// Where the names of each length begin in a table.
template <size_t N>
consteval std::array<uint8_t, kMaxLength + 2> LengthIndex(const KeyName (&table)[N]) {
  static_assert(N < 256);
  std::array<uint8_t, kMaxLength + 2> first{};
  for (size_t length = 0; length < first.size(); ++length) {
    size_t i = 0;
    while (i < N && table[i].name.size() < length) ++i;
    first[length] = static_cast<uint8_t>(i);
  }
  return first;
}

template <size_t N>
consteval bool IsOrderedByLength(const KeyName (&table)[N]) {
  for (size_t i = 1; i < N; ++i) {
    if (table[i - 1].name.size() > table[i].name.size()) return false;
  }
  return table[N - 1].name.size() <= kMaxLength;
}
static_assert(IsOrderedByLength(kForeignKeys) && IsOrderedByLength(kOwnKeys));

// A text of 1 to 16 characters as two numbers that, with its length, tell it from every other.
struct Packed {
  uint64_t head = 0;
  uint64_t tail = 0;
};

constexpr uint64_t Load(const char* at, size_t count) {
  uint64_t word = 0;
  if (std::is_constant_evaluated()) {
    for (size_t i = 0; i < count; ++i) {
      word |= static_cast<uint64_t>(static_cast<unsigned char>(at[i])) << (8 * i);
    }
  } else {
    std::memcpy(&word, at, count);
  }
  return word;
}

constexpr Packed Pack(std::string_view text) {
  const char* const at = text.data();
  const size_t size = text.size();
  if (size >= 8) return {Load(at, 8), Load(at + size - 8, 8)};
  if (size >= 4) return {Load(at, 4), Load(at + size - 4, 4)};
  if (size >= 2) return {Load(at, 2), Load(at + size - 2, 2)};
  return {size == 1 ? Load(at, 1) : 0, 0};
}

template <size_t N>
consteval std::array<Packed, N> PackNames(const KeyName (&table)[N]) {
  std::array<Packed, N> packed;
  for (size_t i = 0; i < N; ++i) packed[i] = Pack(table[i].name);
  return packed;
}

template <size_t N>
AttributeKey Find(const KeyName (&table)[N], const std::array<Packed, N>& packed,
                  const std::array<uint8_t, kMaxLength + 2>& first, std::string_view name) {
  if (name.size() > kMaxLength) return AttributeKey::kUnknown;
  const Packed wanted = Pack(name);
  for (size_t i = first[name.size()]; i < first[name.size() + 1]; ++i) {
    if (packed[i].head == wanted.head && packed[i].tail == wanted.tail) return table[i].key;
  }
  return AttributeKey::kUnknown;
}

constexpr std::array kForeignPacked = PackNames(kForeignKeys);
constexpr std::array kOwnPacked = PackNames(kOwnKeys);
constexpr std::array kForeignIndex = LengthIndex(kForeignKeys);
constexpr std::array kOwnIndex = LengthIndex(kOwnKeys);

}  // namespace

AttributeKey FindAttributeKey(std::string_view name) {
  if (!name.empty() && name.front() == kOwnPrefix.front() && name.starts_with(kOwnPrefix)) {
    return Find(kOwnKeys, kOwnPacked, kOwnIndex, name.substr(kOwnPrefix.size()));
  }
  return Find(kForeignKeys, kForeignPacked, kForeignIndex, name);
}

std::string_view AttributeName(AttributeKey key) {
  for (const KeyName& entry : kForeignKeys) {
    if (entry.key == key) return entry.name;
  }
  return "?";
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
  return DecodeFields(reader, attribute);
}

bool DecodeFields(WireReader& reader, Attribute& attribute) {
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
      case 17:
        value.integer = ZigZag(field.value);
        break;
      case 23:
        value.integer = static_cast<int32_t>(static_cast<uint32_t>(field.value));
        break;
      default:
        value.integer = static_cast<int64_t>(field.value);
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
