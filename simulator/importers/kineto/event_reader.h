#pragma once
// Turns a Kineto document into events.

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "simulator/importers/json/key_table.h"
#include "simulator/importers/json/reader.h"
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

class EventReader : public json::Handler {
 public:
  // `reader` is the parser that will drive this handler.
  EventReader(const std::string& source, json::Reader& reader, EventSink& sink);

  bool saw_events() const { return saw_events_; }

  bool Key(std::string_view key) override;
  bool String(std::string_view text) override { return Scalar(text, true); }
  bool Literal(std::string_view text) override {
    return Scalar(text == "null" ? std::string_view() : text, false);
  }
  bool StartObject() override;
  bool EndObject() override;
  bool StartArray() override;
  bool EndArray() override;
  const absl::Status& status() const override { return status_; }

 private:
  enum class Mode : uint8_t {
    kStart,
    kRoot,
    kEvents,
    kEvent,
    kArgs,
    kDims,
    kTypes,
    kConcrete,
    kListText,
    kCapture,
    kSkip,
  };
  // What the value after the current key is for.
  enum class Target : uint8_t {
    kNone,
    kField,
    kArgs,
    kDims,
    kStrides,
    kTypes,
    kConcrete,
    kEvents,
    kCapture
  };
  struct KeyMeaning {
    Target target = Target::kNone;
    Field field = Field::kCount;
  };
  using KeyTable = json::KeyTable<KeyMeaning>;
  static KeyTable EventKeys();
  static KeyTable ArgumentKeys();

  bool Fail(absl::Status status) {
    status_ = std::move(status);
    return false;
  }
  bool Scalar(std::string_view text, bool is_string);
  bool SetField(std::string_view text);
  bool Skip();
  void BeginCapture(bool object);
  bool EndCaptured();
  bool AddDimension(std::string_view text);
  void EndDimsArray();

  const std::string& source_;
  json::Reader& reader_;
  EventSink& sink_;
  const KeyTable event_keys_;
  const KeyTable argument_keys_;
  absl::Status status_;
  Mode mode_ = Mode::kStart;
  Mode resume_ = Mode::kStart;  // after a skipped or captured value
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
  bool strides_ = false;  // Mode::kDims reads "Input Strides"
  bool saw_events_ = false;
};

}  // namespace foretrace::kineto
