#pragma once
// The writer of every JSON document of foretrace: what is no number is null, and text is
// well-formed UTF-8, whatever the input held.

#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/base/utf8.h"

namespace foretrace {

template <typename Base>
class SafeJsonWriter : public Base {
 public:
  using Base::Base;

  bool Double(double value) { return std::isfinite(value) ? Base::Double(value) : Base::Null(); }
  bool Key(std::string_view key) { return String(key); }
  bool String(std::string_view text) {
    const std::string valid = ValidUtf8(text);
    return Base::String(valid.data(), static_cast<rapidjson::SizeType>(valid.size()));
  }
  bool String(const char* text, rapidjson::SizeType size) {
    return String(std::string_view(text, size));
  }
  bool Key(const char* text, rapidjson::SizeType size) { return String(text, size); }

  void Field(std::string_view key, std::string_view text) { Key(key), String(text); }
  void Field(std::string_view key, const char* text) { Key(key), String(text); }
  void Field(std::string_view key, double value) { Key(key), Double(value); }
  void Field(std::string_view key, bool value) { Key(key), Base::Bool(value); }
  void Field(std::string_view key, int64_t value) { Key(key), Base::Int64(value); }
  void Field(std::string_view key, uint64_t value) { Key(key), Base::Uint64(value); }
  void Field(std::string_view key, int32_t value) { Key(key), Base::Int(value); }
  void Field(std::string_view key, const std::vector<std::string>& texts) {
    Key(key);
    Base::StartArray();
    for (const std::string& text : texts) String(text);
    Base::EndArray();
  }
};

using JsonWriter = SafeJsonWriter<rapidjson::Writer<rapidjson::StringBuffer>>;
using PrettyJsonWriter = SafeJsonWriter<rapidjson::PrettyWriter<rapidjson::StringBuffer>>;

}  // namespace foretrace
