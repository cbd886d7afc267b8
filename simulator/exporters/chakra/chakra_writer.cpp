#include "simulator/exporters/chakra/chakra_writer.h"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <filesystem>
#include <string_view>
#include <system_error>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/exporters/atomic_file.h"
#include "simulator/exporters/chakra/rank_encoder.h"

namespace foretrace {
namespace {

std::string GroupTable(const TraceStore& store,
                       const absl::flat_hash_map<std::string, std::string>& numbers) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
  writer.StartObject();
  for (const auto& [name, group] : store.process_groups()) {
    writer.Key(numbers.at(name).c_str());
    writer.StartArray();
    for (const int32_t rank : group.ranks) writer.Int(rank);
    if (group.ranks.empty()) {
      for (int32_t rank = 0; rank < store.world_size(); ++rank) writer.Int(rank);
    }
    writer.EndArray();
  }
  writer.EndObject();
  return std::string(buffer.GetString(), buffer.GetSize()) + "\n";
}

}  // namespace

std::string EncodeChakra(const TraceStore& store, const RankTrace& rank) {
  std::string bytes;
  const auto numbers = chakra_wire::NumberProcessGroups(store);
  chakra_wire::RankEncoder(store, rank, numbers, [&bytes](std::string_view part) {
    bytes.append(part);
  }).EncodeAll();
  return bytes;
}

absl::Status WriteChakra(const TraceStore& store, const std::string& directory,
                         const ChakraWriterOptions& options) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return InvalidInput("{}: cannot make the folder: {}", directory, error.message());
  const auto numbers = chakra_wire::NumberProcessGroups(store);
  const auto path = [&](const std::string& suffix) {
    return (std::filesystem::path(directory) / (options.prefix + suffix)).string();
  };
  for (const RankTrace& rank : store.ranks()) {
    AtomicFile file(path(fmt::format(".{}.et", rank.info().rank)));
    chakra_wire::RankEncoder(store, rank, numbers, [&file](std::string_view part) {
      file.Append(part);
    }).EncodeAll();
    FORETRACE_RETURN_IF_ERROR(file.Commit());
  }
  if (store.process_groups().empty()) return absl::OkStatus();
  AtomicFile groups(path(".groups.json"));
  groups.Append(GroupTable(store, numbers));
  return groups.Commit();
}

}  // namespace foretrace
