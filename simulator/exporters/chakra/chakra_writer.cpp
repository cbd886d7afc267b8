#include "simulator/exporters/chakra/chakra_writer.h"

#include <filesystem>
#include <set>
#include <string_view>

#include "simulator/base/atomic_file.h"
#include "simulator/base/error.h"
#include "simulator/base/json_writer.h"
#include "simulator/base/status_macros.h"
#include "simulator/exporters/chakra/rank_encoder.h"

namespace foretrace {
namespace {

std::string GroupTable(const CommView& view) {
  rapidjson::StringBuffer buffer;
  JsonWriter writer(buffer);
  writer.StartObject();
  for (const CommView::Group& group : view.groups) {
    writer.Key(std::to_string(group.number));
    writer.StartArray();
    for (const int32_t rank : group.ranks) writer.Int(rank);
    writer.EndArray();
  }
  writer.EndObject();
  return std::string(buffer.GetString(), buffer.GetSize()) + "\n";
}

// A description that a command reads beside traces, which nobody takes for a trace.
bool IsDescription(std::string_view name) {
  return name.ends_with(".yaml") || name.ends_with(".yml") || name.ends_with(".csv");
}

// Who reads the folder would take ranks of an earlier job, or what this one was made from, for
// ranks of this one.
absl::Status CheckNoOthers(const TraceStore& store, const std::string& directory,
                           const ChakraWriterOptions& options) {
  const std::string& prefix = options.prefix;
  std::set<std::string> written;
  for (const RankTrace& rank : store.ranks()) written.insert(std::to_string(rank.info().rank));
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (options.inputs.Contains(entry.path().string()) && !IsDescription(name)) {
      return InvalidInput(
          "{}/{}: is read for what is written, and would be read together with it; choose another "
          "folder",
          directory, name);
    }
    if (!name.starts_with(prefix + ".") || !name.ends_with(".et")) continue;
    const size_t begin = prefix.size() + 1;
    if (name.size() < begin + 4) continue;
    const std::string number = name.substr(begin, name.size() - begin - 3);
    const bool numeric = number.find_first_not_of("0123456789") == std::string::npos;
    if (!numeric || written.contains(number)) continue;
    return InvalidInput(
        "{}/{}: is no rank of what is written, but would be read with it; remove it, or choose "
        "another folder or --prefix",
        directory, name);
  }
  return absl::OkStatus();
}

}  // namespace

std::string EncodeChakra(const TraceStore& store, const CommView& view, const RankTrace& rank) {
  std::string bytes;
  chakra_wire::RankEncoder(store, rank, view, [&bytes](std::string_view part) {
    bytes.append(part);
  }).EncodeAll();
  return bytes;
}

absl::Status WriteChakra(const TraceStore& store, const std::string& directory,
                         const ChakraWriterOptions& options) {
  return WriteChakra(store, ViewCommunication(store), directory, options);
}

absl::Status WriteChakra(const TraceStore& store, const CommView& view,
                         const std::string& directory, const ChakraWriterOptions& options) {
  FORETRACE_RETURN_IF_ERROR(CheckNoOthers(store, directory, options));
  FORETRACE_ASSIGN_OR_RETURN(FileSet files, FileSet::Create(directory, options.inputs));
  int64_t done = 0;
  for (const RankTrace& rank : store.ranks()) {
    FORETRACE_ASSIGN_OR_RETURN(
        std::string path, files.Add(fmt::format("{}.{}.et", options.prefix, rank.info().rank)));
    AtomicFile file(std::move(path), options.stop);
    chakra_wire::RankEncoder(store, rank, view, [&file](std::string_view part) {
      file.Append(part);
    }).EncodeAll();
    FORETRACE_RETURN_IF_ERROR(file.Commit());
    if (options.progress) options.progress(++done, static_cast<int64_t>(store.ranks().size()));
  }
  if (!view.groups.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(const std::string path, files.Add(options.prefix + ".groups.json"));
    FORETRACE_RETURN_IF_ERROR(WriteFile(path, GroupTable(view)));
  }
  return files.Commit();
}

}  // namespace foretrace
