#include "absl/status/statusor.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/importers/importer.h"
#include "simulator/importers/kineto/converter.h"
#include "simulator/importers/kineto/event_reader.h"

namespace foretrace {
namespace {

class KinetoImporter : public Importer {
 public:
  std::string_view name() const override { return "kineto"; }
  TraceRole role() const override { return TraceRole::kProfile; }

  bool Sniff(std::string_view prefix, std::string_view) const override {
    const auto has = [prefix](std::string_view text) {
      return prefix.find(text) != std::string_view::npos;
    };
    const size_t first = prefix.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos) return false;
    if (prefix[first] == '[') return has("\"ph\"") && has("\"ts\"");
    if (prefix[first] != '{') return false;
    return has("\"traceEvents\"") || (has("\"schemaVersion\"") && has("\"deviceProperties\""));
  }

  absl::StatusOr<ImportedFile> Import(ByteSource& input, const std::string& source,
                                      const ImportOptions& options) const override {
    kineto::Converter converter(source, options);
    json::Reader reader(input);
    kineto::EventReader events(source, reader, converter);
    FORETRACE_RETURN_IF_ERROR(reader.Parse(events));
    if (!events.saw_events()) return InvalidInput("{}: no \"traceEvents\" in the file", source);
    return converter.Finish();
  }
};

}  // namespace

std::unique_ptr<Importer> MakeKinetoImporter() { return std::make_unique<KinetoImporter>(); }

}  // namespace foretrace
