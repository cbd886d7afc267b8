#include "simulator/planning/files/listing.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/shipped.h"
#include "simulator/base/status_macros.h"
#include "simulator/cost/calibration_set.h"
#include "simulator/hardware/catalog.h"
#include "simulator/mapping/software_stack.h"
#include "simulator/topology/platform_loader.h"
#include "simulator/workload/workload_yaml.h"

namespace foretrace {
namespace {

using Cells = std::vector<ListingCell>;

// Zero stands for what a file does not state.
ListingCell Stated(double value) {
  return value > 0 ? ListingCell(value) : ListingCell(std::monostate());
}
ListingCell Tera(FlopRate rate) { return Stated(rate.per_second() / 1e12); }
ListingCell Giga(Bytes bytes) { return Stated(static_cast<double>(bytes.count()) / 1e9); }

absl::StatusOr<Listing> Platforms() {
  Listing out;
  out.columns = {{"name", "platform"},
                 {"nodes", "nodes"},
                 {"max_nodes", "up to"},
                 {"devices_per_node", "a node"},
                 {"accelerator", "GPU"},
                 {"description", "what", true},
                 {"file", ""}};
  for (const ShippedFile& file : ListShipped(kPlatforms)) {
    FORETRACE_ASSIGN_OR_RETURN(const PlatformSpec spec, LoadPlatform(file.path));
    out.rows.push_back(
        Cells{file.name, int64_t{spec.nodes}, int64_t{std::max(spec.nodes, spec.max_nodes)},
              int64_t{spec.node.devices}, spec.node.accelerator.name, spec.description, file.path});
  }
  return out;
}

// The name of the device that kernels are of, else the label.
std::string DeviceOf(const CalibrationSet& set, const AcceleratorCatalog& catalog) {
  if (set.kernels != nullptr) return set.kernels->device().name;
  const Accelerator* device = catalog.FindLabel(set.platform);
  return device == nullptr ? std::string() : device->name;
}

std::vector<std::string> FamiliesOf(const CalibrationSet& set) {
  std::vector<std::string> families;
  if (set.kernels != nullptr) families.emplace_back("kernels");
  if (set.collectives != nullptr) families.emplace_back("collectives");
  if (set.copies != nullptr) families.emplace_back("copies");
  if (set.power != nullptr) families.emplace_back("power");
  if (set.embedding != nullptr) families.emplace_back("lookups");
  return families;
}

std::vector<std::string> StackOf(const CalibrationSet& set) {
  std::vector<std::string> stack;
  for (const auto& [family, software] : set.stacks) {
    stack.insert(stack.end(), software.begin(), software.end());
  }
  std::ranges::sort(stack);
  stack.erase(std::unique(stack.begin(), stack.end()), stack.end());
  return stack;
}

absl::StatusOr<Listing> Calibrations() {
  Listing out;
  out.columns = {{"name", "calibration"},
                 {"accelerator", "GPU"},
                 {"families", "of"},
                 {"stack", "measured with", true},
                 {"file", ""}};
  FORETRACE_ASSIGN_OR_RETURN(const AcceleratorCatalog catalog, AcceleratorCatalog::Load());
  for (const ShippedFile& file : ListShipped(kCalibrations)) {
    FORETRACE_ASSIGN_OR_RETURN(const CalibrationSet set, LoadCalibrationSet(file.path));
    out.rows.push_back(
        Cells{file.name, DeviceOf(set, catalog), FamiliesOf(set), StackOf(set), file.path});
  }
  return out;
}

absl::StatusOr<Listing> Gpus() {
  Listing out;
  out.columns = {{"name", "GPU"},
                 {"multiprocessors", "SMs"},
                 {"memory_GB", "GB"},
                 {"memory_GBps", "GB/s"},
                 {"fp32_TFLOPS", "fp32 TFLOPS"},
                 {"fp16_TFLOPS", "fp16"},
                 {"fp8_TFLOPS", "fp8"},
                 {"power_W", "W"},
                 {"aliases", "also known as", true},
                 {"description", ""},
                 {"chip", ""},
                 {"file", ""}};
  FORETRACE_ASSIGN_OR_RETURN(const AcceleratorCatalog catalog, AcceleratorCatalog::Load());
  for (const Accelerator& a : catalog.all()) {
    if (a.name == kUnnamedAccelerator) continue;
    const int32_t sms = a.multiprocessors();
    out.rows.push_back(Cells{
        a.name, sms > 0 ? ListingCell(int64_t{sms}) : ListingCell(), Giga(a.memory_capacity()),
        Stated(a.memory_bandwidth().bytes_per_second() / 1e9), Tera(a.simt_peak(RateKind::kFp32)),
        Tera(a.peak(RateKind::kFp16)), Tera(a.peak(RateKind::kFp8)), Stated(a.physical.power_w),
        a.aliases, a.description, a.chip, a.file});
  }
  return out;
}

absl::StatusOr<Listing> Workloads() {
  Listing out;
  out.columns = {{"name", "workload"},
                 {"parameters_billions", "10^9 parameters"},
                 {"operators", "operators"},
                 {"file", ""}};
  for (const ShippedFile& file : ListShipped(kWorkloads)) {
    FORETRACE_ASSIGN_OR_RETURN(const ModelFile model, LoadModel(file.path));
    double parameters = 0;
    for (const Operator& op : model.workload.operators) {
      parameters += static_cast<double>(op.parameters);
    }
    out.rows.push_back(Cells{file.name, parameters / 1e9,
                             static_cast<int64_t>(model.workload.operators.size()), file.path});
  }
  return out;
}

absl::StatusOr<Listing> Stacks() {
  Listing out;
  out.columns = {
      {"name", "software stack"}, {"since", "since"}, {"models", "for models"}, {"source", ""}};
  FORETRACE_ASSIGN_OR_RETURN(const std::vector<SoftwareStack> stacks, LoadSoftwareStacks());
  for (const SoftwareStack& stack : stacks) {
    for (const StackRelease& release : stack.releases) {
      out.rows.push_back(Cells{stack.name, release.since.empty() ? "first" : release.since,
                               release.models, release.source});
    }
  }
  return out;
}

struct Kind {
  std::string_view name;
  const ShippedKind* shipped;
  absl::StatusOr<Listing> (*list)();
};
constexpr std::array<Kind, 5> kKinds = {{{"platforms", &kPlatforms, Platforms},
                                         {"calibrations", &kCalibrations, Calibrations},
                                         {"gpus", &kAccelerators, Gpus},
                                         {"workloads", &kWorkloads, Workloads},
                                         {"stacks", &kSoftwareStacks, Stacks}}};

std::string Text(const ListingCell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* number = std::get_if<double>(&cell)) return fmt::format("{:.4g}", *number);
  if (const auto* number = std::get_if<int64_t>(&cell)) return fmt::format("{}", *number);
  if (const auto* texts = std::get_if<std::vector<std::string>>(&cell)) {
    return fmt::format("{}", fmt::join(*texts, ", "));
  }
  return "-";
}

}  // namespace

std::vector<std::string> ListingKinds() {
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) names.emplace_back(kind.name);
  return names;
}

absl::StatusOr<Listing> ListOf(std::string_view kind) {
  // In any case, and of one alone: "GPU" for gpus.
  const std::string typed = LowerCase(kind);
  for (const Kind& known : kKinds) {
    if (known.name != typed && known.name != typed + "s") continue;
    FORETRACE_ASSIGN_OR_RETURN(Listing listing, known.list());
    listing.kind = known.name;
    for (const std::string& root : DataFolders()) {
      const std::filesystem::path folder = std::filesystem::path(root) / known.shipped->folder;
      std::error_code error;
      if (std::filesystem::is_directory(folder, error)) listing.folders.push_back(folder.string());
    }
    return listing;
  }
  if (kind.empty()) {
    return InvalidInput("list: of what? There are {}", fmt::join(ListingKinds(), ", "));
  }
  return InvalidInput("list: there is no list of \"{}\"; there are {}", std::string(kind),
                      fmt::join(ListingKinds(), ", "));
}

std::string ListingText(const Listing& listing, const TextStyle& style) {
  std::vector<TextTable::Column> columns;
  const auto tabled = [&](size_t c) {
    return !listing.columns[c].heading.empty() && !listing.columns[c].prose;
  };
  for (size_t c = 0; c < listing.columns.size(); ++c) {
    if (!tabled(c)) continue;
    const bool number = !listing.rows.empty() &&
                        !std::holds_alternative<std::string>(listing.rows[0][c]) &&
                        !std::holds_alternative<std::vector<std::string>>(listing.rows[0][c]);
    columns.push_back(
        {listing.columns[c].heading, number ? TextTable::Align::kRight : TextTable::Align::kLeft});
  }
  TextTable table(std::move(columns));
  std::string prose;
  for (const std::vector<ListingCell>& row : listing.rows) {
    std::vector<std::string> cells;
    for (size_t c = 0; c < row.size(); ++c) {
      if (tabled(c)) cells.push_back(Text(row[c]));
      const bool told = listing.columns[c].prose && !Text(row[c]).empty();
      if (told) prose += fmt::format("{}: {}\n", Text(row[0]), Text(row[c]));
    }
    table.AddRow(std::move(cells));
  }
  return fmt::format("{}\n{}{}from {}\n", table.Format(style), prose, prose.empty() ? "" : "\n",
                     fmt::join(listing.folders, " and "));
}

std::string ListingJson(const Listing& listing) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  json.Field("folders", listing.folders);
  json.Key(listing.kind);
  json.StartArray();
  for (const std::vector<ListingCell>& row : listing.rows) {
    json.StartObject();
    for (size_t c = 0; c < row.size(); ++c) {
      json.Key(listing.columns[c].key);
      std::visit(
          [&json](const auto& value) {
            using T = std::decay_t<decltype(value)>;
            if constexpr (std::is_same_v<T, std::monostate>) {
              json.Null();
            } else if constexpr (std::is_same_v<T, std::string>) {
              json.String(value);
            } else if constexpr (std::is_same_v<T, double>) {
              json.Double(value);
            } else if constexpr (std::is_same_v<T, int64_t>) {
              json.Int64(value);
            } else {
              json.StartArray();
              for (const std::string& text : value) json.String(text);
              json.EndArray();
            }
          },
          row[c]);
    }
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  return {buffer.GetString(), buffer.GetSize()};
}

}  // namespace foretrace
