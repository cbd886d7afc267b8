#include "simulator/importers/json/element_reader.h"

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/importers/json/reader.h"

namespace foretrace::json {
namespace {

constexpr size_t kMaxElementBytes = size_t{256} << 20;

class ElementHandler : public Handler {
 public:
  ElementHandler(const std::string& source, Reader& reader, const ElementSink& sink)
      : source_(source), reader_(reader), sink_(sink) {}

  bool saw_list() const { return saw_list_; }
  const absl::Status& status() const override { return status_; }

  bool Key(std::string_view key) override {
    if (in_element_) return Token(Tape::Kind::kKey, key);
    key_ = key;
    if (key != sink_.list && (key != sink_.scalar || key.empty())) reader_.SkipValue();
    return true;
  }
  bool String(std::string_view text) override {
    if (in_element_) return Token(Tape::Kind::kString, text);
    if (depth_ != 1 || key_ != sink_.scalar) return Unexpected();
    absl::Status status = sink_.on_scalar(text);
    return status.ok() || Fail(std::move(status));
  }
  bool Literal(std::string_view text) override {
    return in_element_ ? Token(Tape::Kind::kLiteral, text) : Unexpected();
  }
  bool StartObject() override { return Start(Tape::Kind::kObject); }
  bool StartArray() override { return Start(Tape::Kind::kArray); }
  bool EndObject() override { return End(); }
  bool EndArray() override { return End(); }

 private:
  bool Fail(absl::Status status) {
    status_ = std::move(status);
    return false;
  }
  bool Unexpected() {
    return Fail(InvalidInput("{}: an unexpected value at byte {}", source_, reader_.offset()));
  }
  bool CheckSize() {
    if (tape_.bytes() <= kMaxElementBytes) return true;
    return Fail(InvalidInput("{}: the node at byte {} is larger than {} bytes", source_,
                             element_offset_, kMaxElementBytes));
  }
  bool Token(Tape::Kind kind, std::string_view text) {
    tape_.Add(kind, text);
    return CheckSize();
  }

  bool Start(Tape::Kind kind) {
    if (in_element_) {
      tape_.Open(kind);
      return CheckSize();
    }
    ++depth_;
    if (depth_ == 1) return kind == Tape::Kind::kObject || Unexpected();
    if (depth_ == 2) {
      if (key_ != sink_.list || kind != Tape::Kind::kArray || saw_list_) return Unexpected();
      saw_list_ = true;
      return true;
    }
    in_element_ = true;
    element_offset_ = reader_.offset();
    tape_.Clear();
    tape_.Open(kind);
    return true;
  }

  bool End() {
    if (!in_element_) {
      --depth_;
      return true;
    }
    tape_.Close();
    if (tape_.depth() > 0) return true;
    in_element_ = false;
    --depth_;
    absl::Status status = sink_.on_element(tape_, element_offset_);
    return status.ok() || Fail(std::move(status));
  }

  const std::string& source_;
  Reader& reader_;
  const ElementSink& sink_;
  Tape tape_;
  absl::Status status_;
  std::string key_;
  int depth_ = 0;  // of containers outside elements
  bool in_element_ = false;
  bool saw_list_ = false;
  int64_t element_offset_ = 0;
};

}  // namespace

absl::Status ReadElements(ByteSource& input, const ElementSink& sink) {
  Reader reader(input);
  ElementHandler handler(input.name(), reader, sink);
  FORETRACE_RETURN_IF_ERROR(reader.Parse(handler));
  if (handler.saw_list()) return absl::OkStatus();
  return InvalidInput("{}: no \"{}\" in the file", input.name(), std::string(sink.list));
}

}  // namespace foretrace::json
