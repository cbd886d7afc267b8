#pragma once
// SAX handler that turns a Kineto document into events.

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "simulator/importers/json/sax_reader.h"
#include "simulator/importers/kineto/event.h"

namespace foretrace::kineto {

class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual absl::Status OnEvent(const Event& event) = 0;
  // A value next to traceEvents, as JSON text: "distributedInfo", "deviceProperties",
  // "baseTimeNanoseconds".
  virtual absl::Status OnHeader(std::string_view key, std::string_view json_text) = 0;
};

class EventReader {
 public:
  EventReader(const std::string& source, EventSink& sink);

  void SetStream(json::ChunkStream* stream) { stream_ = stream; }
  const absl::Status& status() const { return status_; }
  bool saw_events() const { return saw_events_; }

  // RapidJSON's handler concept.
  bool Null() { return Scalar("", false); }
  bool Bool(bool value) { return Scalar(value ? "true" : "false", false); }
  bool Int(int) { return true; }
  bool Uint(unsigned) { return true; }
  bool Int64(int64_t) { return true; }
  bool Uint64(uint64_t) { return true; }
  bool Double(double) { return true; }
  bool RawNumber(const char* text, rapidjson::SizeType length, bool) {
    return Scalar({text, length}, false);
  }
  bool String(const char* text, rapidjson::SizeType length, bool) {
    return Scalar({text, length}, true);
  }
  bool Key(const char* text, rapidjson::SizeType length, bool);
  bool StartObject();
  bool EndObject(rapidjson::SizeType);
  bool StartArray();
  bool EndArray(rapidjson::SizeType);

 private:
  enum class Mode : uint8_t {
    kStart, kRoot, kEvents, kEvent, kArgs, kDims, kTypes, kConcrete, kListText, kCapture, kSkip,
  };
  // What the value after the current key is for.
  enum class Target : uint8_t { kNone, kField, kArgs, kDims, kTypes, kConcrete, kEvents, kCapture };
  struct KeyMeaning {
    Target target = Target::kNone;
    Field field = Field::kCount;
  };
  using KeyTable = absl::flat_hash_map<std::string_view, KeyMeaning>;
  static KeyTable EventKeys();
  static KeyTable ArgumentKeys();

  bool Fail(absl::Status status) {
    status_ = std::move(status);
    return false;
  }
  bool Scalar(std::string_view text, bool is_string);
  bool SetField(std::string_view text);
  bool Descend();
  bool Skip();
  void BeginCapture(bool object);
  bool EndCaptured();
  bool AddDimension(std::string_view text);
  void EndDimsArray();

  const std::string& source_;
  EventSink& sink_;
  const KeyTable event_keys_;
  const KeyTable argument_keys_;
  json::ChunkStream* stream_ = nullptr;
  absl::Status status_;
  Mode mode_ = Mode::kStart;
  Mode resume_ = Mode::kStart;  // after a skipped or captured value
  int depth_ = 0;               // of open objects and arrays
  int inner_depth_ = 0;         // within the mode's own value
  int skip_depth_ = 0;
  KeyMeaning key_;
  std::string header_key_;
  rapidjson::StringBuffer captured_;
  rapidjson::Writer<rapidjson::StringBuffer> writer_;
  Event event_;
  uint32_t argument_ = 0;
  uint32_t list_dims_begin_ = 0;
  bool list_seen_ = false;
  bool saw_events_ = false;
};

}  // namespace foretrace::kineto
