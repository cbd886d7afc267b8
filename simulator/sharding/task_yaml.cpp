#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <set>
#include <sstream>

#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/yaml_reader.h"
#include "simulator/sharding/table_csv.h"
#include "simulator/sharding/task.h"
#include "simulator/sharding/zipf_access.h"

namespace foretrace {
namespace {

constexpr std::string_view kNoTables = "a task has at least one table";
constexpr int32_t kMaxTables = 100'000;
constexpr int32_t kMaxGpus = 4096;
constexpr int64_t kMaxRows = int64_t{1} << 40;
constexpr double kGiga = 1e9;
constexpr double kMega = 1e6;

constexpr std::array<std::string_view, 4> kOptimizers = {"sgd", "sgd_momentum", "adam", "adagrad"};
constexpr std::array<std::string_view, 2> kInteractions = {"dot", "concat"};

class TaskReader {
 public:
  TaskReader(const YamlReader& root, std::string file) : root_(root), file_(std::move(file)) {}

  absl::StatusOr<ShardingTask> Read() {
    static constexpr std::array<std::string_view, 17> kKeys = {
        "name",        "batch",         "gpus",     "memory_GB",        "platform",
        "calibration", "placements",    "template", "exchange_indices", "dense",
        "optimizer",   "cpu",           "uvm",      "tables",           "comment",
        "stack",       "slice_elements"};
    root_.ExpectKeys(kKeys);
    task_.file = file_;
    task_.name = root_.String("name");
    task_.gpus = root_.Integer("gpus", 1, kMaxGpus);
    task_.batch = root_.Integer("batch", 1, 1 << 30);
    task_.memory = Bytes(std::llround(root_.Number("memory_GB", 1e-3, 1e6) * kGiga));
    task_.platform = root_.String("platform");
    task_.calibration = root_.String("calibration", "");
    task_.stack = root_.String("stack", "");
    task_.slice_elements = root_.Number("slice_elements", 1, 1e18, 0);
    if (task_.slice_elements > 0 && task_.stack.empty()) {
      root_.Fail("slice_elements", "is of a stack that deals tables by itself; name one by stack");
    }
    if (root_.Has("template")) {  // beside the task's file
      task_.capture =
          (std::filesystem::path(file_).parent_path() / root_.String("template")).string();
    }
    if (!root_.Has("exchange_indices")) root_.Fail("exchange_indices", "missing; true or false");
    task_.exchange_indices = root_.Bool("exchange_indices", true);
    if (root_.ok() && task_.batch % task_.gpus != 0) {
      root_.Fail("batch", fmt::format("{} samples cannot be shared evenly by {} GPUs", task_.batch,
                                      task_.gpus));
    }
    ReadPlacements();
    if (task_.slice_elements > 0 && !task_.allows(PlacementKind::kColumn)) {
      root_.Fail("slice_elements", "slices tables by columns, and placements lacks column_wise");
    }
    ReadDense();
    ReadOptimizer();
    ReadCpu();
    if (root_.Has("uvm")) ReadUvm();
    FORETRACE_RETURN_IF_ERROR(ReadTables());
    FORETRACE_RETURN_IF_ERROR(root_.status());
    FORETRACE_RETURN_IF_ERROR(CheckInteraction());
    return std::move(task_);
  }

 private:
  void ReadPlacements() {
    std::vector<std::string_view> names;
    for (int k = 0; k < static_cast<int>(PlacementKind::kCount); ++k) {
      names.push_back(Name(static_cast<PlacementKind>(k)));
    }
    const std::vector<YamlReader> items = root_.Child("placements").Items();
    if (root_.ok() && items.empty()) root_.Fail("placements", "names no kind of placement");
    for (const YamlReader& item : items) {
      const std::string text = item.AsString();
      const auto found = std::find(names.begin(), names.end(), text);
      if (found == names.end()) {
        item.Fail("", fmt::format("'{}' is not a kind of placement; allowed: {}", text,
                                  fmt::join(names, ", ")));
        return;
      }
      const auto kind = static_cast<size_t>(found - names.begin());
      if (task_.allowed[kind]) item.Fail("", fmt::format("'{}' is given twice", text));
      task_.allowed[kind] = true;
    }
  }

  void ReadDense() {
    const YamlReader dense = root_.Child("dense");
    static constexpr std::array<std::string_view, 6> kKeys = {
        "bottom", "top", "interaction", "bucket_MB", "features", "average"};
    dense.ExpectKeys(kKeys);
    task_.dense.bottom = {dense.Integer("features", 1, 1 << 20)};
    // Without a layer the features join the vectors as they are.
    for (const int32_t w : dense.Integers("bottom", 1, 1 << 20)) task_.dense.bottom.push_back(w);
    for (const int32_t w : dense.Integers("top", 1, 1 << 20)) task_.dense.top.push_back(w);
    if (dense.ok() && task_.dense.top.empty()) dense.Fail("top", "needs at least one width");
    task_.dense.dot_interaction = dense.Choice("interaction", kInteractions) == 0;
    task_.dense.average = dense.Integer("average", 1, 1 << 20, 1);
    if (task_.dense.dot_interaction && task_.dense.average > 1) {
      dense.Fail("average", "is of concatenated vectors; use it with interaction: concat");
    }
    // PyTorch's DistributedDataParallel: bucket_cap_mb of 25 (in MiB).
    task_.dense.bucket = Bytes(std::llround(dense.Number("bucket_MB", 0.1, 1e5, 26.2144) * kMega));
  }

  void ReadOptimizer() {
    const YamlReader optimizer = root_.Child("optimizer");
    static constexpr std::array<std::string_view, 2> kKeys = {"kind", "rowwise"};
    optimizer.ExpectKeys(kKeys);
    task_.optimizer = static_cast<OptimizerKind>(optimizer.Choice("kind", kOptimizers));
    task_.rowwise = optimizer.Bool("rowwise", false);
  }

  void ReadCpu() {
    const YamlReader cpu = root_.Child("cpu");
    static constexpr std::array<std::string_view, 6> kKeys = {"t1_us", "t2_us", "t3_us",
                                                              "t4_us", "t5_us", "source"};
    cpu.ExpectKeys(kKeys);
    const auto time = [&](std::string_view key) {
      return SimTime::FromUs(cpu.Number(key, 0, 1e6));
    };
    task_.cpu = {time("t1_us"), time("t2_us"), time("t3_us"),
                 time("t4_us"), time("t5_us"), cpu.String("source")};
  }

  void ReadUvm() {
    const YamlReader uvm = root_.Child("uvm");
    static constexpr std::array<std::string_view, 3> kKeys = {"cache_ratio", "host_GBps",
                                                              "host_memory_GB"};
    uvm.ExpectKeys(kKeys);
    task_.uvm.allowed = true;
    task_.uvm.cache_ratio = uvm.Number("cache_ratio", 0.01, 1);
    task_.uvm.host_bandwidth = Bandwidth::GBps(uvm.Number("host_GBps", 0.1, 1e4));
    task_.uvm.host_memory = Bytes(std::llround(uvm.Number("host_memory_GB", 0.001, 1e6) * kGiga));
  }

  // A list, or the name of a CSV beside the task's file.
  absl::Status ReadTables() {
    if (!root_.Has("tables") || !root_.Child("tables").IsScalar()) {
      ReadTables(root_);
      return root_.status();
    }
    FORETRACE_RETURN_IF_ERROR(root_.status());
    const std::string name = root_.String("tables");
    if (name.empty()) {  // the error has the place
      const std::string error(root_.status().message());
      return InvalidInput("{}{}", error.substr(0, error.rfind("must be")), kNoTables);
    }
    const auto path = std::filesystem::path(file_).parent_path() / name;
    FORETRACE_ASSIGN_OR_RETURN(const YamlReader csv, ReadTableCsv(path.string()));
    ReadTables(csv);
    return csv.status();
  }

  void ReadTables(const YamlReader& root) {
    const std::vector<YamlReader> items = root.Child("tables").Items();
    if (root.ok() && items.empty()) root.Fail("tables", kNoTables);
    if (items.size() > static_cast<size_t>(kMaxTables)) {
      return root.Fail("tables", fmt::format("more than {} tables", kMaxTables));
    }
    std::set<std::string> names;
    for (const YamlReader& item : items) {
      ReadTable(item);
      if (!item.ok()) return;
      if (!names.insert(task_.tables.back().name).second) {
        return item.Fail("name", fmt::format("'{}' is given twice", task_.tables.back().name));
      }
    }
  }

  void ReadTable(const YamlReader& in) {
    static constexpr std::array<std::string_view, 7> kKeys = {"name",  "rows",  "dim",   "pooling",
                                                              "dtype", "reuse", "inputs"};
    in.ExpectKeys(kKeys);
    EmbeddingTable table;
    table.name = in.String("name");
    const double rows = in.Number("rows", 1, static_cast<double>(kMaxRows));
    if (rows != std::floor(rows)) in.Fail("rows", fmt::format("{} is not a whole number", rows));
    table.rows = static_cast<int64_t>(rows);
    table.dim = in.Integer("dim", 1, 1 << 16);
    if (in.Has("inputs")) {
      ReadInputs(in, table);
    } else {
      table.pooling = ReadPooling(in);
    }
    table.dtype = ParseDType(in.String("dtype", "float32"));
    if (ElementSize(table.dtype) <= 0)
      in.Fail("dtype",
              fmt::format("'{}' is not known; allowed: float32, float16, bfloat16, float8, "
                          "int8, float64",
                          in.String("dtype")));
    if (in.ok()) ReadReuse(in, table);
    task_.tables.push_back(std::move(table));
  }

  // Mean lookups of a sample for each of several inputs.
  static void ReadInputs(const YamlReader& in, EmbeddingTable& table) {
    if (in.Has("pooling")) {
      return in.Fail("inputs", "has the lookups of each input; give it or pooling");
    }
    for (const YamlReader& item : in.Child("inputs").Items()) {
      table.inputs.push_back(item.AsNumber(0, 1e6));
      table.pooling += table.inputs.back();
    }
    if (in.ok() && table.inputs.empty()) in.Fail("inputs", "names no input");
  }

  // A mean, or the share of samples by number of lookups.
  double ReadPooling(const YamlReader& in) {
    if (!in.Has("pooling")) in.Fail("pooling", "missing");
    const YamlReader pooling = in.Child("pooling");
    if (!in.ok() || !pooling.IsMap()) return in.Number("pooling", 0, 1e6);
    double weight = 0, sum = 0;
    for (const auto& [lookups, share] : pooling.Entries()) {
      double value = 0;
      const auto end = lookups.data() + lookups.size();
      if (std::from_chars(lookups.data(), end, value).ptr != end || value < 0) {
        pooling.Fail("", fmt::format("'{}' is not a number of lookups", lookups));
        return 0;
      }
      const double w = share.AsNumber(0, 1e12);
      weight += w;
      sum += w * value;
    }
    if (in.ok() && weight <= 0) pooling.Fail("", "the shares add up to nothing");
    return weight > 0 ? sum / weight : 0;
  }

  void ReadReuse(const YamlReader& in, EmbeddingTable& table) {
    const int64_t lookups = std::llround(table.pooling * static_cast<double>(task_.batch));
    const YamlReader reuse = in.Child("reuse");
    if (!in.ok()) return;
    static constexpr std::array<std::string_view, 4> kKeys = {"zipf", "factors", "unique_rows",
                                                              "indices"};
    reuse.ExpectKeys(kKeys);
    if (!in.ok()) return;
    if (reuse.Has("zipf")) {
      table.access = ZipfAccess(lookups, table.rows, reuse.Number("zipf", 0, 10));
    } else if (reuse.Has("indices")) {
      ReadIndices(reuse, table, lookups);
    } else {
      ReadFactors(reuse, table, lookups);
    }
  }

  void ReadFactors(const YamlReader& reuse, EmbeddingTable& table, int64_t lookups) {
    const std::vector<YamlReader> factors = reuse.Child("factors").Items();
    if (!reuse.ok()) return;
    if (factors.size() != static_cast<size_t>(kReuseBins)) {
      return reuse.Fail("factors",
                        fmt::format("needs {} values, has {}", kReuseBins, factors.size()));
    }
    double total = 0;
    for (size_t b = 0; b < factors.size(); ++b) {
      table.access.reuse.fractions[b] = factors[b].AsNumber(0, 1e15);
      total += table.access.reuse.fractions[b];
    }
    if (!reuse.ok()) return;
    if (total <= 0) return reuse.Fail("factors", "add up to nothing");
    if (std::abs(total - 1) > 1e-9) {
      for (double& f : table.access.reuse.fractions) f /= total;
    }
    table.access.lookups = lookups;
    const double estimated = EstimatedUniqueRows(table.access.reuse, static_cast<double>(lookups),
                                                 static_cast<double>(table.rows));
    table.access.unique_rows = static_cast<int64_t>(
        reuse.Number("unique_rows", 0, static_cast<double>(kMaxRows), std::round(estimated)));
  }

  // One index a line; scaled to the task's batch when the sample is of another size.
  void ReadIndices(const YamlReader& reuse, EmbeddingTable& table, int64_t lookups) {
    const std::filesystem::path path =
        std::filesystem::path(file_).parent_path() / reuse.String("indices");
    const auto text = ReadTextFile(path.string(), kMaxTableBytes);
    if (!text.ok()) return reuse.Fail("indices", std::string(text.status().message()));
    std::istringstream in(*text);
    std::vector<int64_t> indices;
    for (int64_t index = 0; in >> index;) indices.push_back(index);
    if (!in.eof()) {
      return reuse.Fail("indices", fmt::format("{}: entry {} is not a number", path.string(),
                                               indices.size() + 1));
    }
    auto access = AccessOf(indices, table.rows);
    if (!access.ok()) {
      return reuse.Fail(
          "indices", fmt::format("{}: {}", path.string(), std::string(access.status().message())));
    }
    if (access->lookups < lookups) {
      return reuse.Fail("indices", fmt::format("{}: has {} indices, fewer than the batch's {}",
                                               path.string(), access->lookups, lookups));
    }
    table.access =
        ThinAccess(*access, static_cast<double>(lookups) /
                                static_cast<double>(std::max<int64_t>(access->lookups, 1)));
    table.access.lookups = lookups;
  }

  absl::Status CheckInteraction() const {
    if (!task_.dense.dot_interaction) return absl::OkStatus();
    for (const EmbeddingTable& t : task_.tables) {
      if (t.dim == task_.dense.bottom.back()) continue;
      return InvalidInput(
          "{}: dense.interaction 'dot' needs all vectors of one length, but the bottom "
          "MLP gives {} and table '{}' {}; use interaction: concat",
          file_, task_.dense.bottom.back(), t.name, t.dim);
    }
    return absl::OkStatus();
  }

  const YamlReader& root_;
  std::string file_;
  ShardingTask task_;
};

}  // namespace

absl::StatusOr<ShardingTask> LoadShardingTask(const std::string& file) {
  FORETRACE_ASSIGN_OR_RETURN(const YamlReader root, ReadYamlFile(file));
  return TaskReader(root, file).Read();
}

absl::StatusOr<ShardingTask> ParseShardingTask(const std::string& text, const std::string& file) {
  FORETRACE_ASSIGN_OR_RETURN(const YamlReader root, ParseYamlText(text, file));
  return TaskReader(root, file).Read();
}

std::string ShardingTaskYaml(const ShardingTask& task) {
  std::string out = fmt::format("name: {}\nbatch: {}\ngpus: {}\nmemory_GB: {}\nplatform: {}\n",
                                task.name, task.batch, task.gpus,
                                static_cast<double>(task.memory.count()) / kGiga, task.platform);
  if (!task.calibration.empty()) out += fmt::format("calibration: {}\n", task.calibration);
  if (!task.stack.empty()) out += fmt::format("stack: {}\n", task.stack);
  if (task.slice_elements > 0) out += fmt::format("slice_elements: {}\n", task.slice_elements);
  std::vector<std::string_view> kinds;
  for (int k = 0; k < static_cast<int>(PlacementKind::kCount); ++k) {
    if (task.allows(static_cast<PlacementKind>(k)))
      kinds.push_back(Name(static_cast<PlacementKind>(k)));
  }
  out += fmt::format("placements: [{}]\nexchange_indices: {}\n", fmt::join(kinds, ", "),
                     task.exchange_indices);
  const std::vector<int64_t> bottom(task.dense.bottom.begin() + 1, task.dense.bottom.end());
  out += fmt::format(
      "dense: {{features: {}, bottom: [{}], top: [{}], interaction: {}, bucket_MB: {}{}}}\n",
      task.dense.bottom.front(), fmt::join(bottom, ", "), fmt::join(task.dense.top, ", "),
      kInteractions[task.dense.dot_interaction ? 0 : 1],
      static_cast<double>(task.dense.bucket.count()) / kMega,
      task.dense.average > 1 ? fmt::format(", average: {}", task.dense.average) : "");
  out += fmt::format("optimizer: {{kind: {}, rowwise: {}}}\n",
                     kOptimizers[static_cast<size_t>(task.optimizer)], task.rowwise);
  out += fmt::format(
      "cpu: {{t1_us: {}, t2_us: {}, t3_us: {}, t4_us: {}, t5_us: {}, source: \"{}\"}}\n",
      task.cpu.t1.us(), task.cpu.t2.us(), task.cpu.t3.us(), task.cpu.t4.us(), task.cpu.t5.us(),
      task.cpu.source);
  if (task.uvm.allowed) {
    out += fmt::format("uvm: {{cache_ratio: {}, host_GBps: {}, host_memory_GB: {}}}\n",
                       task.uvm.cache_ratio, task.uvm.host_bandwidth.gbps(),
                       static_cast<double>(task.uvm.host_memory.count()) / kGiga);
  }
  out += "tables:\n";
  for (const EmbeddingTable& t : task.tables) {
    out += fmt::format(
        "  - {{name: {}, rows: {}, dim: {}, {}, dtype: {}, reuse: {{unique_rows: {}, "
        "factors: [{}]}}}}\n",
        t.name, t.rows, t.dim,
        t.inputs.empty() ? fmt::format("pooling: {}", t.pooling)
                         : fmt::format("inputs: [{}]", fmt::join(t.inputs, ", ")),
        Name(t.dtype), t.access.unique_rows, fmt::join(t.access.reuse.fractions, ", "));
  }
  return out;
}

}  // namespace foretrace
