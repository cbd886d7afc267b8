#include "simulator/importers/profile_extras.h"

#include <algorithm>

#include "simulator/base/status_macros.h"
#include "simulator/importers/input_paths.h"
#include "simulator/importers/json/reader.h"
#include "simulator/importers/kineto/event_reader.h"
#include "simulator/importers/kineto/extras_reader.h"

namespace foretrace {

absl::StatusOr<std::vector<ProfileExtras>> ReadProfileExtras(const std::vector<std::string>& paths,
                                                             const ImportOptions& options) {
  constexpr size_t kSniffBytes = size_t{64} << 10;
  const std::unique_ptr<Importer> kineto = MakeKinetoImporter();
  FORETRACE_ASSIGN_OR_RETURN(const std::vector<InputPath> files,
                             ExpandPaths(paths, options.ignore));
  std::vector<ProfileExtras> all;
  for (const InputPath& input : files) {
    if (options.stop.stop_requested()) return absl::CancelledError("interrupted");
    if (input.path == "-") continue;  // gone with the import
    FORETRACE_ASSIGN_OR_RETURN(const auto file, input.Open(options.limits));
    while (true) {
      FORETRACE_ASSIGN_OR_RETURN(ByteSource * document, file->NextDocument());
      if (document == nullptr) break;
      const std::string name = document->name();
      FORETRACE_ASSIGN_OR_RETURN(const std::string_view prefix, document->Peek(kSniffBytes));
      if (!kineto->Sniff(prefix, name)) continue;
      kineto::ExtrasReader extras(name);
      json::Reader reader(*document);
      kineto::EventReader events(name, reader, extras);
      FORETRACE_RETURN_IF_ERROR(reader.Parse(events));
      all.push_back(extras.Finish());
    }
  }
  std::sort(all.begin(), all.end(),
            [](const ProfileExtras& a, const ProfileExtras& b) { return a.source < b.source; });
  return all;
}

}  // namespace foretrace
