#include "simulator/importers/chakra/metadata.h"

#include <algorithm>
#include <limits>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"
#include "simulator/importers/chakra/attribute.h"
#include "simulator/importers/chakra/wire.h"
#include "simulator/importers/json/text.h"

namespace foretrace::chakra {
namespace {

class Decoder {
 public:
  Decoder(const std::string& source, Metadata& out) : source_(source), out_(out) {}

  absl::Status Add(const Attribute& attribute) {
    const AttributeValue& value = attribute.value;
    OwnMetadata& own = out_.own;
    if (value.kind == AttributeValue::Kind::kText && !json::IsValidUtf8(value.bytes)) {
      return Malformed("with text that is not UTF-8");
    }
    switch (FindAttributeKey(attribute.name)) {
      case AttributeKey::kVersion:
        if (out_.version.empty()) out_.version = value.bytes;
        return absl::OkStatus();
      case AttributeKey::kFormat:
        return Integer(attribute, own.format);
      case AttributeKey::kRank:
        return Integer(attribute, own.rank);
      case AttributeKey::kWorldSize:
        return Integer(attribute, own.world_size);
      case AttributeKey::kOrigin:
        return Integer(attribute, own.origin_ns);
      case AttributeKey::kNodeCount:
        return Integer(attribute, own.nodes);
      case AttributeKey::kHasTimes:
        return Integer(attribute, own.has_times);
      case AttributeKey::kSynthetic:
        return Integer(attribute, own.synthetic);
      case AttributeKey::kProducer:
        own.producer = value.bytes;
        return absl::OkStatus();
      case AttributeKey::kDevice:
        own.device_name = value.bytes;
        return absl::OkStatus();
      case AttributeKey::kLanes:
        return Integers(attribute, lanes_);
      case AttributeKey::kLaneLabels:
        return Strings(attribute, lane_labels_);
      case AttributeKey::kIterations:
        return Integers(attribute, iterations_);
      case AttributeKey::kProcessGroup:
        return AddGroup(attribute);
      case AttributeKey::kGroupRanks:
        return SetGroupRanks(attribute);
      default:
        return absl::OkStatus();
    }
  }

  absl::Status Finish() {
    OwnMetadata& own = out_.own;
    if (own.format == 0) return absl::OkStatus();
    if (own.format != kOwnFormat) {
      return InvalidInput("{}: written by a later version (foretrace.format {}, this one reads {})",
                          source_, own.format, kOwnFormat);
    }
    if (own.rank < 0 || own.world_size < 0) return Malformed("foretrace.rank");
    // 2^61 ns is 73 years; differences of two origins cannot overflow.
    constexpr int64_t kMaxOrigin = int64_t{1} << 61;
    if (own.origin_ns > kMaxOrigin || own.origin_ns < -kMaxOrigin) {
      return Malformed("foretrace.origin_ns");
    }
    if (lanes_.size() != 3 * lane_labels_.size()) return Malformed("foretrace.lanes");
    for (size_t i = 0; i < lane_labels_.size(); ++i) {
      if (lanes_[3 * i] < 0 || lanes_[3 * i] > 1) return Malformed("foretrace.lanes");
      own.lanes.push_back({static_cast<Lane::Kind>(lanes_[3 * i]), lanes_[3 * i + 1],
                           static_cast<int32_t>(lanes_[3 * i + 2]), std::string(lane_labels_[i])});
    }
    if (iterations_.size() % 2 != 0) return Malformed("foretrace.iterations");
    for (size_t i = 0; i + 1 < iterations_.size(); i += 2) {
      own.iterations.emplace_back(iterations_[i], iterations_[i + 1]);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Malformed(std::string_view name) const {
    return InvalidInput("{}: attribute {} of the first message is malformed", source_,
                        Excerpt(name, 80));
  }
  template <typename T>
  absl::Status Integer(const Attribute& attribute, T& out) const {
    int64_t value = 0;
    if (!attribute.value.AsInteger(value) || value < std::numeric_limits<T>::min() ||
        value > static_cast<int64_t>(std::numeric_limits<T>::max())) {
      return Malformed(attribute.name);
    }
    out = static_cast<T>(value);
    return absl::OkStatus();
  }
  absl::Status Integers(const Attribute& attribute, std::vector<int64_t>& out) const {
    return DecodeIntegers(attribute.value, out) ? absl::OkStatus() : Malformed(attribute.name);
  }
  absl::Status Strings(const Attribute& attribute, std::vector<std::string_view>& out) const {
    if (!DecodeStrings(attribute.value, out)) return Malformed(attribute.name);
    return std::all_of(out.begin(), out.end(), json::IsValidUtf8) ? absl::OkStatus()
                                                                  : Malformed(attribute.name);
  }
  absl::Status AddGroup(const Attribute& attribute) {
    std::vector<std::string_view> texts;
    FORETRACE_RETURN_IF_ERROR(Strings(attribute, texts));
    if (texts.size() != 2) return Malformed(attribute.name);
    out_.own.process_groups.push_back({std::string(texts[0]), std::string(texts[1]), {}});
    return absl::OkStatus();
  }
  absl::Status SetGroupRanks(const Attribute& attribute) {
    std::vector<int64_t> ranks;
    FORETRACE_RETURN_IF_ERROR(Integers(attribute, ranks));
    if (out_.own.process_groups.empty()) return Malformed(attribute.name);
    for (const int64_t rank : ranks) {
      if (rank < 0 || rank > INT32_MAX) return Malformed(attribute.name);
      out_.own.process_groups.back().ranks.push_back(static_cast<int32_t>(rank));
    }
    return absl::OkStatus();
  }

  const std::string& source_;
  Metadata& out_;
  std::vector<int64_t> lanes_;
  std::vector<std::string_view> lane_labels_;
  std::vector<int64_t> iterations_;
};

}  // namespace

absl::StatusOr<Metadata> DecodeMetadata(std::string_view message, const std::string& source) {
  Metadata metadata;
  Decoder decoder(source, metadata);
  WireReader reader(message);
  WireField field;
  while (reader.Next(field)) {
    if (field.type != WireType::kLength) continue;
    if (field.number == 1) metadata.version = field.bytes;
    if (field.number != 2) continue;
    Attribute attribute;
    if (!DecodeAttribute(field.bytes, attribute)) {
      return InvalidInput("{}: near byte {}: malformed attribute in the first message", source,
                          reader.position());
    }
    FORETRACE_RETURN_IF_ERROR(decoder.Add(attribute));
  }
  if (!reader.ok()) {
    return InvalidInput(
        "{}: near byte {}: malformed first message; not a Chakra trace, or "
        "corrupted",
        source, reader.position());
  }
  FORETRACE_RETURN_IF_ERROR(decoder.Finish());
  return metadata;
}

}  // namespace foretrace::chakra
