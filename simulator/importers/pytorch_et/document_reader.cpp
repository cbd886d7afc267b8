#include "simulator/importers/pytorch_et/document_reader.h"

#include <algorithm>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/importers/json/reader.h"
#include "simulator/importers/json/tape.h"
#include "simulator/importers/pytorch_et/node_parser.h"

namespace foretrace::pytorch_et {
namespace {

constexpr size_t kMaxNodeBytes = size_t{256} << 20;

class DocumentHandler : public json::Handler {
 public:
  DocumentHandler(const std::string& source, json::Reader& reader, Document& document)
      : source_(source), reader_(reader), document_(document), parser_(source, document) {}

  bool saw_nodes() const { return saw_nodes_; }
  const absl::Status& status() const override { return status_; }

  bool Key(std::string_view key) override {
    if (in_node_) return Token(json::Tape::Kind::kKey, key);
    key_ = key;
    if (key != "schema" && key != "nodes") reader_.SkipValue();
    return true;
  }
  bool String(std::string_view text) override {
    if (in_node_) return Token(json::Tape::Kind::kString, text);
    if (key_ == "schema") return SetSchema(text);
    return Unexpected();
  }
  bool Literal(std::string_view text) override {
    return in_node_ ? Token(json::Tape::Kind::kLiteral, text) : Unexpected();
  }
  bool StartObject() override { return Start(json::Tape::Kind::kObject); }
  bool StartArray() override { return Start(json::Tape::Kind::kArray); }
  bool EndObject() override { return End(); }
  bool EndArray() override { return End(); }

 private:
  bool Fail(absl::Status status) {
    status_ = std::move(status);
    return false;
  }
  bool Unexpected() {
    return Fail(InvalidInput("{}: not an execution trace: an unexpected value at byte {}", source_,
                             reader_.offset()));
  }

  bool SetSchema(std::string_view text) {
    if (!text.starts_with("1.0.") && !text.starts_with("1.1.")) {
      return Fail(InvalidInput("{}: execution trace schema \"{}\" is not supported (1.0.x and "
                               "1.1.x are)",
                               source_, text.substr(0, 40)));
    }
    document_.schema = text;
    return true;
  }

  bool Token(json::Tape::Kind kind, std::string_view text) {
    tape_.Add(kind, text);
    if (tape_.bytes() <= kMaxNodeBytes) return true;
    return Fail(InvalidInput("{}: the node at byte {} is larger than {} bytes", source_,
                             node_offset_, kMaxNodeBytes));
  }

  bool Start(json::Tape::Kind kind) {
    if (in_node_) {
      tape_.Open(kind);
      return tape_.bytes() <= kMaxNodeBytes || Token(json::Tape::Kind::kLiteral, "");
    }
    ++depth_;
    if (depth_ == 1) return kind == json::Tape::Kind::kObject || Unexpected();
    if (depth_ == 2) {
      if (key_ != "nodes" || kind != json::Tape::Kind::kArray || saw_nodes_) return Unexpected();
      saw_nodes_ = true;
      return true;
    }
    in_node_ = true;
    node_offset_ = reader_.offset();
    tape_.Clear();
    tape_.Open(kind);
    return true;
  }

  bool End() {
    if (!in_node_) {
      --depth_;
      return true;
    }
    tape_.Close();
    if (tape_.depth() > 0) return true;
    in_node_ = false;
    --depth_;
    absl::Status status = parser_.Add(tape_, node_offset_);
    return status.ok() || Fail(std::move(status));
  }

  const std::string& source_;
  json::Reader& reader_;
  Document& document_;
  NodeParser parser_;
  json::Tape tape_;
  absl::Status status_;
  std::string key_;
  int depth_ = 0;
  bool in_node_ = false;
  bool saw_nodes_ = false;
  int64_t node_offset_ = 0;
};

}  // namespace

absl::StatusOr<Document> ReadDocument(ByteSource& input, const std::string& source) {
  Document document;
  json::Reader reader(input);
  DocumentHandler handler(source, reader, document);
  FORETRACE_RETURN_IF_ERROR(reader.Parse(handler));
  if (!handler.saw_nodes() || document.nodes.empty()) {
    return InvalidInput("{}: the execution trace has no nodes", source);
  }
  if (document.schema.empty()) {
    return InvalidInput("{}: the execution trace names no schema version", source);
  }
  std::stable_sort(document.nodes.begin(), document.nodes.end(),
                   [](const Node& a, const Node& b) { return a.id < b.id; });
  for (size_t i = 1; i < document.nodes.size(); ++i) {
    if (document.nodes[i].id == document.nodes[i - 1].id) {
      return InvalidInput("{}: two nodes with id {} ({} and {})", source, document.nodes[i].id,
                          document.strings.Get(document.nodes[i - 1].name).substr(0, 60),
                          document.strings.Get(document.nodes[i].name).substr(0, 60));
    }
  }
  return document;
}

}  // namespace foretrace::pytorch_et
