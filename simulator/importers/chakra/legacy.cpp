#include "simulator/importers/chakra/legacy.h"

#include <bit>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"
#include "simulator/importers/chakra/attribute.h"
#include "simulator/importers/chakra/mapper.h"
#include "simulator/importers/chakra/node.h"
#include "simulator/importers/chakra/wire.h"
#include "simulator/importers/json/text.h"

namespace foretrace::chakra {
namespace {

enum class Version : uint8_t { kUnknown, k001, k002, k003 };

std::string_view Name(Version version) {
  switch (version) {
    case Version::k001:
      return "0.0.1";
    case Version::k002:
      return "0.0.2";
    case Version::k003:
      return "0.0.3";
    default:
      return "before 0.0.4";
  }
}

// A node with its own text: which version it is may be known only after the last one.
struct LegacyNode {
  uint64_t id = 0;
  uint64_t type = 0;
  std::string name;
  std::vector<uint64_t> parents;
  std::vector<std::pair<AttributeKey, AttributeValue>> attributes;
  std::string group;
};

// Fields of v0.0.1 that became attributes later; kUnknown for those without a use.
AttributeKey FlatField(uint32_t number) {
  switch (number) {
    case 6:
      return AttributeKey::kTensorSize;
    case 7:
      return AttributeKey::kRuntime;
    case 12:
      return AttributeKey::kNumOps;
    case 13:
      return AttributeKey::kCommType;
    case 16:
      return AttributeKey::kCommSrc;
    case 17:
      return AttributeKey::kCommDst;
    case 18:
      return AttributeKey::kCommSize;
    case 19:
      return AttributeKey::kCommTag;
    default:
      return AttributeKey::kUnknown;
  }
}

AttributeValue IntegerValue(uint64_t value) {
  AttributeValue result;
  result.kind = AttributeValue::Kind::kInteger;
  result.integer = static_cast<int64_t>(value);
  return result;
}

class Reader {
 public:
  explicit Reader(MessageStream& stream) : stream_(stream) {}

  absl::Status AddNode(std::string_view message);
  // The version, once every node has been read.
  absl::StatusOr<Version> Resolve(const std::string& source) const;
  const std::vector<LegacyNode>& nodes() const { return nodes_; }

 private:
  absl::Status See(Version version);
  absl::Status AddAttribute(std::string_view message, LegacyNode& node);

  MessageStream& stream_;
  std::vector<LegacyNode> nodes_;
  Version version_ = Version::kUnknown;
};

absl::Status Reader::See(Version version) {
  if (version_ == Version::kUnknown) version_ = version;
  if (version_ == version) return absl::OkStatus();
  return stream_.ErrorAt(0, fmt::format("unsupported schema: this node is of Chakra v{}, earlier "
                                        "ones of v{}",
                                        Name(version), Name(version_)));
}

// v0.0.2: f=4 (fixed32) i=5 s=6, types FLOAT 0 INT 1 STRING 2.
// v0.0.3: b=4 f=5 (fixed32) then i=6 s=7, later u=6 i=7 s=8; types BOOL 0 FLOAT 1 (U)INT 2 ...
// A scalar's wire type and field number tell its meaning in all but two cases, in which the
// declared type does.
absl::Status Reader::AddAttribute(std::string_view message, LegacyNode& node) {
  WireReader reader(message);
  WireField field;
  std::string_view name;
  uint64_t declared = 0;
  std::optional<AttributeValue> value;
  bool is_text = false;
  while (reader.Next(field)) {
    const bool varint = field.type == WireType::kVarint;
    const bool text = field.type == WireType::kLength;
    if (field.number == 1 && text) name = field.bytes;
    if (field.number == 2 && varint) declared = field.value;
    if (field.number < 4 || field.number > 8) continue;
    if (varint && (field.number == 5 || declared == 1)) {
      FORETRACE_RETURN_IF_ERROR(See(Version::k002));
      value = IntegerValue(field.value);
    } else if (varint) {
      FORETRACE_RETURN_IF_ERROR(See(Version::k003));
      value = IntegerValue(field.value);
    } else if (field.type == WireType::kFixed32) {
      FORETRACE_RETURN_IF_ERROR(See(field.number == 4 ? Version::k002 : Version::k003));
      value = AttributeValue();
      value->kind = AttributeValue::Kind::kReal;
      value->real = std::bit_cast<float>(static_cast<uint32_t>(field.value));
    } else if (text && (declared == 2 || declared == 3 || declared == 4)) {
      is_text = true;
      if (FindAttributeKey(name) == AttributeKey::kGroup) node.group = field.bytes;
    }
  }
  if (!reader.ok()) return stream_.ErrorAt(0, "malformed attribute; the file is corrupted");
  if (value && !is_text) node.attributes.emplace_back(FindAttributeKey(name), *value);
  return absl::OkStatus();
}

absl::Status Reader::AddNode(std::string_view message) {
  LegacyNode node;
  WireReader reader(message);
  WireField field;
  while (reader.Next(field)) {
    const bool varint = field.type == WireType::kVarint;
    const bool text = field.type == WireType::kLength;
    if (field.number == 1 && varint) {
      node.id = field.value;
    } else if (field.number == 2 && text) {
      node.name = field.bytes;
    } else if (field.number == 3 && varint) {
      node.type = field.value;
    } else if (field.number == 4 && varint) {
      node.parents.push_back(field.value);
    } else if (field.number == 4 && text) {
      if (!DecodePackedVarints(field.bytes, node.parents)) {
        return stream_.ErrorAt(reader.position(), "malformed parent list");
      }
    } else if (field.number == 11 && text) {
      FORETRACE_RETURN_IF_ERROR(AddAttribute(field.bytes, node));
    } else if (varint && field.number >= 5 && field.number <= 20) {
      FORETRACE_RETURN_IF_ERROR(See(Version::k001));
      const AttributeKey key = FlatField(field.number);
      if (field.number == 15) node.group = std::to_string(field.value);
      if (key != AttributeKey::kUnknown) {
        node.attributes.emplace_back(key, IntegerValue(field.value));
      }
    } else if (field.number > 20 || field.number < 5 || (!text && !varint)) {
      return stream_.ErrorAt(reader.position(),
                             fmt::format("unsupported schema: field {} of a node is of no Chakra "
                                         "version before 0.0.4, and the file does not begin with "
                                         "the metadata of a later one",
                                         field.number));
    }
  }
  if (!reader.ok()) return stream_.ErrorAt(reader.position(), "malformed node; file is corrupted");
  if (!json::IsValidUtf8(node.name) || !json::IsValidUtf8(node.group)) {
    return stream_.ErrorAt(0, "a name in this node is not UTF-8; the file is corrupted");
  }
  nodes_.push_back(std::move(node));
  return absl::OkStatus();
}

absl::StatusOr<Version> Reader::Resolve(const std::string& source) const {
  if (version_ != Version::kUnknown) return version_;
  return InvalidInput(
      "{}: unsupported schema: the file begins with a node, as Chakra v0.0.1 to v0.0.3 do, but no "
      "node has an attribute that says which; convert it to v0.0.4",
      source);
}

int64_t ModernCommType(Version version, int64_t comm_type) {
  // ALL_REDUCE, ALL_TO_ALL, ALL_GATHER, REDUCE_SCATTER, BROADCAST; v0.0.1 counts from 1.
  static constexpr int64_t kModern[] = {0, 6, 2, 7, 5};
  const int64_t index = version == Version::k001 ? comm_type - 1 : comm_type;
  return index >= 0 && index < 5 ? kModern[index] : -1;
}

absl::Status Convert(const LegacyNode& from, Version version, const std::string& source, Node& to) {
  to.Clear();
  to.id = from.id;
  to.name = from.name;
  // METADATA became 1 in v0.0.3 and moved the others up.
  const bool shifted = version != Version::k003 && from.type != 0;
  if (from.type > 7) {
    return InvalidInput("{}: node {} ({}): unknown node type {}", source, from.id,
                        Excerpt(to.name, 80), from.type);
  }
  to.type = from.type + (shifted ? 1 : 0);
  // Parents are data dependencies in all but name: a node starts when they have ended.
  to.data_deps = from.parents;
  const auto type = static_cast<NodeType>(to.type);
  for (auto [key, value] : from.attributes) {
    if (key == AttributeKey::kCommType) {
      // Generators of v0.0.1 leave INVALID_COMM on nodes that do not communicate.
      if (type != NodeType::kCommColl) continue;
      value.integer = ModernCommType(version, value.integer);
    }
    if (IsNodeAttribute(key)) to.Set(key, value);
  }
  if (!from.group.empty() && type == NodeType::kCommColl) {
    AttributeValue group;
    group.kind = AttributeValue::Kind::kText;
    group.bytes = from.group;
    to.Set(Key::kGroup, group);
  }
  return absl::OkStatus();
}

// GlobalMetadata of v0.0.3 has its attributes in field 1; in v0.0.4 that is the version's text,
// which never begins like an encoded attribute.
bool IsV003Metadata(std::string_view message) {
  WireReader reader(message);
  WireField field;
  if (!reader.Next(field) || field.number != 1 || field.type != WireType::kLength) return false;
  WireReader attribute(field.bytes);
  WireField inner;
  return attribute.Next(inner) && inner.number == 1 && inner.type == WireType::kLength &&
         attribute.Next(inner) && inner.number == 2 && inner.type == WireType::kVarint;
}

}  // namespace

bool IsLegacyFirstMessage(std::string_view message) {
  WireReader reader(message);
  WireField field;
  if (!reader.Next(field)) return false;
  const bool is_node = field.type == WireType::kVarint && field.number == 1;
  return is_node || IsV003Metadata(message);
}

bool LooksLikeFirstMessage(std::string_view message, bool whole) {
  WireReader reader(message);
  WireField field;
  if (!reader.Next(field)) return false;
  if (field.type == WireType::kVarint) {
    // A node of an earlier version: its id, then its name.
    if (field.number != 1 || !reader.Next(field)) return false;
    if (field.number != 2 || field.type != WireType::kLength) return false;
  } else if (field.type != WireType::kLength || field.number > 2) {
    return false;
  } else if (field.number == 1 && !IsV003Metadata(message)) {
    // A version: "0.0.4" or a generator's name, without the quotes and spaces of a text file.
    for (const char c : field.bytes) {
      const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      if (!plain && std::string_view("._-+").find(c) == std::string_view::npos) return false;
    }
  } else if (field.number == 2) {
    // An attribute, which begins with its name.
    if (!field.bytes.starts_with('\n')) return false;
  }
  while (reader.Next(field)) {
    if (field.number > 32) return false;
  }
  return reader.ok() || !whole;
}

absl::Status ImportLegacy(MessageStream& stream, std::string_view first,
                          RankTraceBuilder& builder) {
  Reader reader(stream);
  if (!IsV003Metadata(first)) FORETRACE_RETURN_IF_ERROR(reader.AddNode(first));
  std::string_view message;
  while (true) {
    FORETRACE_ASSIGN_OR_RETURN(const bool more, stream.Next(message));
    if (!more) break;
    FORETRACE_RETURN_IF_ERROR(reader.AddNode(message));
  }
  const std::string& source = builder.info().source;
  FORETRACE_ASSIGN_OR_RETURN(const Version version, reader.Resolve(source));
  builder.info().producer = fmt::format("chakra {}", Name(version));
  builder.info().has_times = false;
  if (version == Version::k001) {
    builder.diagnostics().Add(
        Repair::kAssumedMicroseconds,
        fmt::format("{}: Chakra v0.0.1 names no unit for simulated_run_time", source));
  }
  Mapper mapper(builder);
  Node node;
  for (const LegacyNode& legacy : reader.nodes()) {
    FORETRACE_RETURN_IF_ERROR(Convert(legacy, version, source, node));
    FORETRACE_RETURN_IF_ERROR(mapper.Add(node));
  }
  mapper.Finish();
  return absl::OkStatus();
}

}  // namespace foretrace::chakra
