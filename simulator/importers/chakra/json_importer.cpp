// Chakra graphs as JSON: {"workload_graph": [{"Id": 216, "Name": ..., "NodeType": 4,
// "data_deps": [...], "runtime": 318, "is_cpu_op": true}, ...]}, the form that Chakra's feeder
// takes beside .et files.

#include <array>
#include <initializer_list>
#include <optional>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/importers/chakra/mapper.h"
#include "simulator/importers/chakra/node.h"
#include "simulator/importers/importer.h"
#include "simulator/importers/json/element_reader.h"
#include "simulator/importers/json/text.h"

namespace foretrace {
namespace {

using chakra::AttributeValue;
using json::Tape;
using Ref = Tape::Ref;

// The first of the spellings that a node has.
Ref Find(const Tape& tape, std::initializer_list<std::string_view> spellings) {
  for (const std::string_view key : spellings) {
    const Ref at = tape.Member(Tape::kRoot, key);
    if (at != Tape::kNone) return at;
  }
  return Tape::kNone;
}

// Numbers and booleans come out as integers, strings as text.
AttributeValue Value(const Tape& tape, Ref at) {
  AttributeValue value;
  if (at == Tape::kNone || tape.IsArray(at) || tape.IsObject(at)) return value;
  const std::string_view text = tape.Text(at);
  if (tape.IsString(at)) {
    value.kind = AttributeValue::Kind::kText;
    value.bytes = text;
  } else if (text == "true" || text == "false") {
    value.kind = AttributeValue::Kind::kInteger;
    value.integer = text == "true";
  } else if (const auto integer = json::ParseInteger(text)) {
    value.kind = AttributeValue::Kind::kInteger;
    value.integer = *integer;
  }
  return value;
}

class ChakraJsonImporter : public Importer {
 public:
  std::string_view name() const override { return "chakra_json"; }

  bool Sniff(std::string_view prefix, std::string_view) const override {
    const size_t first = prefix.find_first_not_of(" \t\r\n");
    return first != std::string_view::npos && prefix[first] == '{' &&
           prefix.find("\"workload_graph\"") != std::string_view::npos;
  }

  absl::StatusOr<ImportedFile> Import(ByteSource& input, const std::string& source,
                                      const ImportOptions&) const override {
    ImportedFile file;
    RankInfo info;
    info.source = source;
    info.producer = "chakra json";
    file.builder = std::make_unique<RankTraceBuilder>(std::move(info));
    chakra::Mapper mapper(*file.builder);
    chakra::Node node;
    json::ElementSink sink;
    sink.list = "workload_graph";
    sink.on_element = [&](const Tape& tape, int64_t offset) -> absl::Status {
      node.Clear();
      FORETRACE_RETURN_IF_ERROR(Read(tape, offset, source, node));
      return mapper.Add(node);
    };
    FORETRACE_RETURN_IF_ERROR(json::ReadElements(input, sink));
    mapper.Finish();
    file.builder->info().has_times = mapper.has_starts();
    file.build_options.unique_source_ids = true;
    file.build_options.sort_by_start = mapper.has_starts();
    file.build_options.infer_nesting = mapper.has_starts();
    return file;
  }

 private:
  static absl::Status Read(const Tape& tape, int64_t offset, const std::string& source,
                           chakra::Node& node) {
    const auto bad = [&](std::string_view what) {
      return InvalidInput("{}: node at byte {}: {}", source, offset, what);
    };
    if (!tape.IsObject(Tape::kRoot)) return bad("it is not an object");
    const auto natural = [&](Ref at) -> std::optional<uint64_t> {
      const AttributeValue value = Value(tape, at);
      if (value.kind != AttributeValue::Kind::kInteger || value.integer < 0) return std::nullopt;
      return static_cast<uint64_t>(value.integer);
    };
    const auto id = natural(Find(tape, {"Id", "id"}));
    const auto type = natural(Find(tape, {"NodeType", "type"}));
    if (!id || !type) return bad("its id or type is missing or no number");
    node.id = *id;
    node.type = *type;
    node.name = tape.Text(Find(tape, {"Name", "name"}));
    if (!json::IsValidUtf8(node.name)) return bad("its name is not valid UTF-8");
    for (const auto& [spellings, list] :
         {std::pair(std::array{"ctrlDeps", "ctrl_deps"}, &node.ctrl_deps),
          std::pair(std::array{"dataDeps", "data_deps"}, &node.data_deps)}) {
      const Ref at = Find(tape, {spellings[0], spellings[1]});
      for (Ref e = tape.First(at); e != Tape::kNone; e = tape.Next(at, e)) {
        const auto producer = natural(e);
        if (!producer) return bad("a dependency is no node id");
        list->push_back(*producer);
      }
    }
    if (const Ref at = Find(tape, {"runtime", "duration_micros"}); at != Tape::kNone) {
      const auto duration = natural(at);
      if (!duration) return bad("its runtime is negative or no whole number");
      node.duration_us = *duration;
    }
    node.start_us = natural(Find(tape, {"start_time_micros"})).value_or(0);
    for (const chakra::Key key :
         {chakra::Key::kIsCpuOp, chakra::Key::kCommType, chakra::Key::kCommSize,
          chakra::Key::kCommSrc, chakra::Key::kCommDst, chakra::Key::kCommTag, chakra::Key::kGroup,
          chakra::Key::kNumOps, chakra::Key::kTensorSize, chakra::Key::kStream,
          chakra::Key::kThread}) {
      const std::string name(chakra::AttributeName(key));
      node.Set(key, Value(tape, tape.Member(Tape::kRoot, name.c_str())));
    }
    return absl::OkStatus();
  }
};

}  // namespace

std::unique_ptr<Importer> MakeChakraJsonImporter() {
  return std::make_unique<ChakraJsonImporter>();
}

}  // namespace foretrace
