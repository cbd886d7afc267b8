#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "simulator/base/csv.h"
#include "simulator/base/json_writer.h"
#include "simulator/dataflow/exploration.h"
#include "simulator/dataflow/quantities.h"

namespace foretrace::dataflow {
namespace {

// What both kinds of tables say of a point, as their cells.
class Row {
 public:
  void Add(std::string_view key, std::string value) {
    keys_.emplace_back(key);
    values_.push_back(std::move(value));
  }
  // Nothing where it is not known.
  void Add(std::string_view key, double value) {
    Add(key, std::isnan(value) ? std::string() : fmt::format("{}", value));
  }
  std::string Header() const { return CsvLine(keys_); }
  std::string Line() const { return CsvLine(values_); }

 private:
  std::vector<std::string> keys_, values_;
};

struct Context {
  const Space& space;
  const Point& point;
  const PointResult& result;
  System system;
  Bill price, power;
  const Workload& workload() const { return space.workloads[point.workload].workload; }
  double flop() const {
    const double copies = workload().per_chip ? static_cast<double>(system.chips()) : 1;
    return workload().flop().count() * copies * static_cast<double>(workload().layers) *
           workload().batch;
  }
  // Replicas of a published row: a workload of one chip's share has one for each where it has a
  // batch.
  int64_t data() const {
    return workload().per_chip && workload().batch > 1 ? system.chips() : result.data;
  }
};

void AddResult(const Context& c, Row& row, std::string_view key, double value) {
  row.Add(key, c.result.feasible ? fmt::format("{}", value) : std::string());
}

void AddBills(const Context& c, Row& row) {
  row.Add("total_DRAM_cost", c.price.memory);
  row.Add("total_accelerator_cost", c.price.chips);
  row.Add("total_link_cost", c.price.links);
  row.Add("total_switch_cost", c.price.switches);
  row.Add("total_DRAM_power", c.power.memory);
  row.Add("total_accelerator_power", c.power.chips);
  row.Add("total_link_power", c.power.links);
  row.Add("total_switch_power", c.power.switches);
}

Row SystemsRow(const Context& c) {
  Row row;
  row.Add("accelerator", c.system.chip.name);
  row.Add("topology", c.system.topology);
  row.Add("memory", c.system.memory.name);
  row.Add("network", c.space.links[c.point.link].name);
  row.Add("variant", c.space.variants[c.point.variant].name);
  row.Add("status", c.result.feasible ? "ok" : "infeasible");
  AddResult(c, row, "util", c.result.utilisation);
  row.Add("total_cost", c.price.total());
  row.Add("total_power", c.power.total());
  AddResult(c, row, "final_ns", c.result.iteration.ns());
  AddResult(c, row, "TP", static_cast<double>(c.result.tensor));
  AddResult(c, row, "PP", static_cast<double>(c.result.pipeline));
  AddResult(c, row, "DP", static_cast<double>(c.data()));
  row.Add("global_batch_size", c.workload().batch);
  row.Add("num_chip", static_cast<double>(c.system.chips()));
  row.Add("GFLOPS", c.system.chip.gflops());
  row.Add("FLOP", c.flop());
  row.Add("DRAM_BW", GBps(c.system.memory.bandwidth));
  for (size_t d = 0; d < 3; ++d) {
    const bool has = d < c.system.dimensions.size();
    row.Add(
        fmt::format("Link_BW_{}", d),
        has ? fmt::format("{}", GBps(c.system.dimensions[d].network.bandwidth)) : std::string());
  }
  AddBills(c, row);
  return row;
}

Row TrainingRow(const Context& c) {
  Row row;
  std::vector<std::string> links;
  for (const SystemDimension& d : c.system.dimensions)
    links.push_back(fmt::format("{:.1f}", GBps(d.network.bandwidth)));
  // Samples: a micro-batch is one of every chip.
  const auto chips = static_cast<double>(c.system.chips());
  row.Add("variant", c.space.variants[c.point.variant].name);
  row.Add("accel", c.system.chip.name);
  row.Add("topology", c.system.topology);
  row.Add("mem", c.system.memory.name);
  row.Add("net", c.space.links[c.point.link].name);
  AddResult(c, row, "TP", static_cast<double>(c.result.tensor));
  AddResult(c, row, "PP", static_cast<double>(c.result.pipeline));
  AddResult(c, row, "DP", static_cast<double>(c.data()));
  row.Add("global_batch_size", c.workload().batch * chips);
  AddResult(c, row, "micro_batch_size", c.result.micro_batch);
  AddResult(c, row, "num_micro_batch_per_pipeline", c.workload().batch / c.result.micro_batch);
  row.Add("num_chip", chips);
  row.Add("GFLOPS", c.system.chip.gflops());
  row.Add("DRAM_BW", GBps(c.system.memory.bandwidth));
  row.Add("Link_BW", fmt::format("[{}]", fmt::join(links, " ")));
  row.Add("FLOP", c.flop());
  AddResult(c, row, "final_ns", c.result.iteration.ns());
  AddResult(c, row, "util", c.result.utilisation);
  row.Add("total_cost", c.price.total());
  row.Add("total_power", c.power.total());
  AddResult(c, row, "all_config_II_derived", c.result.pass.ns());
  AddBills(c, row);
  return row;
}

Context ContextOf(const Space& space, const Point& point, const PointResult& result) {
  System system = SystemOf(space, point);
  const Bill price = PriceUsd(system), power = PowerWatt(system);
  return {space, point, result, std::move(system), price, power};
}

// Whether some system has several workloads.
bool SystemsRecur(std::span<const Point> points) {
  std::set<std::array<uint32_t, 5>> systems;
  for (const Point& p : points) systems.insert({p.variant, p.chip, p.topology, p.memory, p.link});
  return systems.size() < points.size();
}

}  // namespace

std::string PointsCsv(const Space& space, std::span<const Point> points,
                      std::span<const PointResult> results) {
  std::string text;
  const bool named = SystemsRecur(points);
  for (size_t i = 0; i < points.size(); ++i) {
    const Context c = ContextOf(space, points[i], results[i]);
    Row row = space.columns == Space::Columns::kPlain ? SystemsRow(c) : TrainingRow(c);
    if (named) row.Add("workload", c.workload().name);
    if (i == 0) text += row.Header();
    text += row.Line();
  }
  return text;
}

std::string PointsJson(const Space& space, std::span<const Point> points,
                       std::span<const PointResult> results) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  const std::vector<size_t> front = ParetoFront(space, points, results);
  json.StartObject();
  json.Field("study", space.name);
  json.Key("points");
  json.StartArray();
  for (size_t i = 0; i < points.size(); ++i) {
    const Context c = ContextOf(space, points[i], results[i]);
    json.StartObject();
    json.Field("workload", c.workload().name);
    json.Field("variant", space.variants[points[i].variant].name);
    json.Field("accelerator", c.system.chip.name);
    json.Field("topology", c.system.topology);
    json.Field("memory", c.system.memory.name);
    json.Field("network", space.links[points[i].link].name);
    json.Field("feasible", c.result.feasible);
    if (c.result.feasible) {
      json.Field("iteration_ns", c.result.iteration.ns());
      json.Field("utilisation", c.result.utilisation);
      json.Field("pass_ns", c.result.pass.ns());
      json.Field("compute_ns", c.result.compute.ns());
      json.Field("memory_ns", c.result.memory.ns());
      json.Field("network_ns", c.result.network.ns());
      json.Field("partitions", c.result.partitions);
      json.Field("micro_batch", c.result.micro_batch);
      json.Field("dram_bytes", c.result.dram_bytes.count());
    } else {
      json.Field("why_not", c.result.why_not);
    }
    json.Field("price_USD", c.price.total());
    json.Field("power_W", c.power.total());
    json.Field("pareto", std::binary_search(front.begin(), front.end(), i));
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  return {buffer.GetString(), buffer.GetSize()};
}

}  // namespace foretrace::dataflow
