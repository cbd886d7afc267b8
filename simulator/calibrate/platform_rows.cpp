#include "simulator/calibrate/platform_rows.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/calibrate/table_device.h"
#include "simulator/hardware/catalog.h"

namespace foretrace {
namespace {

std::string BaseName(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

absl::Status AddProvenance(const BenchmarkTable& table, PlatformData& data) {
  auto& source = data.sources.emplace_back(table.provenance);
  if (!source.contains("trace")) source["table"] = BaseName(table.path);
  if (const auto it = table.provenance.find("date"); it != table.provenance.end()) {
    data.date = std::max(data.date, it->second);
  }
  const auto it = table.provenance.find("interconnect");
  if (it == table.provenance.end()) return absl::OkStatus();
  const Interconnect interconnect = ParseInterconnect(it->second);
  if (interconnect == Interconnect::kUnknown) {
    return InvalidInput("{}: interconnect is '{}', not switch or mesh", table.path, it->second);
  }
  if (data.interconnect != Interconnect::kUnknown && data.interconnect != interconnect) {
    return InvalidInput("{}: interconnect is {}, but another table of the same platform says {}",
                        table.path, Name(interconnect), Name(data.interconnect));
  }
  data.interconnect = interconnect;
  return absl::OkStatus();
}

absl::Status AddTables(const Fitter& fitter, const CalibrateOptions& options,
                       std::vector<BenchmarkTable> tables, bool test, Platforms& platforms) {
  const bool of_device =
      fitter.row_kind() == BenchmarkKind::kKernel || fitter.row_kind() == BenchmarkKind::kEmbedding;
  FORETRACE_ASSIGN_OR_RETURN(const AcceleratorCatalog devices, AcceleratorCatalog::Load());
  std::set<std::string> seen;
  for (BenchmarkTable& table : tables) {
    const std::string& path = table.path;
    if (!seen.insert(path).second) return InvalidInput("{}: given twice", path);
    std::set<std::string> in_table;
    for (BenchmarkRow& row : table.rows) {
      if (row.kind != fitter.row_kind()) continue;
      if (!options.platform.empty() && row.platform != options.platform) continue;
      const std::string platform = row.platform;
      in_table.insert(platform);
      PlatformData& data = platforms[platform];
      (test ? data.test_rows : data.rows).push_back(std::move(row));
    }
    if (in_table.empty()) {
      return InvalidInput("{}: no rows of kind {}{}", path, Name(fitter.row_kind()),
                          options.platform.empty() ? "" : " for platform " + options.platform);
    }
    for (const std::string& platform : in_table) {
      if (of_device) FORETRACE_RETURN_IF_ERROR(CheckDevice(table, platform, devices));
      PlatformData& data = platforms[platform];
      if (!test || data.rows.empty()) data.files.push_back(path);
    }
    if (test) continue;
    for (const std::string& platform : in_table) {
      FORETRACE_RETURN_IF_ERROR(AddProvenance(table, platforms[platform]));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadTables(const Fitter& fitter, const CalibrateOptions& options,
                        const std::vector<std::string>& paths,
                        const std::vector<BenchmarkTable>& made, bool test, Platforms& platforms) {
  std::vector<BenchmarkTable> tables;
  for (const std::string& path : paths) {
    FORETRACE_ASSIGN_OR_RETURN(BenchmarkTable table, ReadBenchmarkCsv(path));
    tables.push_back(std::move(table));
  }
  tables.insert(tables.end(), made.begin(), made.end());
  return AddTables(fitter, options, std::move(tables), test, platforms);
}

}  // namespace

absl::StatusOr<Platforms> ReadPlatforms(const Fitter& fitter, const CalibrateOptions& options) {
  Platforms platforms;
  FORETRACE_RETURN_IF_ERROR(
      ReadTables(fitter, options, options.tables, options.made_tables, false, platforms));
  FORETRACE_RETURN_IF_ERROR(
      ReadTables(fitter, options, options.test_tables, options.made_test_tables, true, platforms));
  return platforms;
}

absl::Status FitForOthers(const Fitter& fitter, Platforms& platforms) {
  std::vector<const PlatformData*> fitted;
  for (const auto& [platform, data] : platforms) {
    if (!data.rows.empty()) fitted.push_back(&data);
  }
  for (auto& [platform, data] : platforms) {
    if (!data.rows.empty()) continue;
    if (fitted.size() != 1 || !fitter.CarriesOver()) {
      return InvalidInput("{}: test rows of platform {}, but no table to fit has that platform",
                          absl::StrJoin(data.files, ", "), platform);
    }
    data.rows = fitted[0]->rows;
    data.sources = fitted[0]->sources;
    data.files = fitted[0]->files;
    data.fitted_elsewhere = true;
  }
  return absl::OkStatus();
}

}  // namespace foretrace
