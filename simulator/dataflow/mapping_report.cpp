#include "simulator/dataflow/mapping_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "simulator/base/json_writer.h"
#include "simulator/base/xml.h"
#include "simulator/dataflow/quantities.h"

namespace foretrace::dataflow {
namespace {

template <typename Visit>
void ForEach(const Workload& workload, const Partition& partition, const Visit& visit) {
  for (size_t i = 0; i < workload.kernels.size(); ++i) {
    if (((partition.kernels >> i) & 1) != 0) visit(i);
  }
}

void AddMapping(const Workload& workload, const MappedWorkload& m, JsonWriter& json) {
  json.Key("mapping");
  json.StartObject();
  json.Field("tensor", m.mapping.tensor);
  json.Field("pipeline", m.mapping.pipeline);
  json.Field("data", m.mapping.data);
  std::vector<std::string> roles;
  for (const Role r : m.mapping.roles) roles.emplace_back(Name(r));
  json.Field("roles", roles);
  json.Field("micro_batch", m.mapping.micro_batch);
  json.Field("micro_batches", m.micro_batches);
  json.Field("tiles", m.mapping.tiles);
  json.Field("recompute", m.mapping.recompute != Recompute::kNone);
  json.Field("recomputation", Name(m.mapping.recompute));
  json.Field("chunks", m.mapping.scheme.chunks);
  json.Field("zero", m.mapping.scheme.zero);
  json.Field("overlap_gradients", m.mapping.scheme.overlap_gradients);
  json.Key("shardings");
  json.StartObject();
  for (size_t i = 0; i < workload.kernels.size(); ++i) {
    json.Field(workload.kernels[i].name, Name(m.mapping.shardings[i]));
  }
  json.EndObject();
  json.EndObject();
}

// Layouts, and how a tensor gets from one into the other. Bytes and times are of one sample.
void AddTensors(const Workload& workload, const MappedWorkload& m, JsonWriter& json) {
  json.Key("tensors");
  json.StartArray();
  for (size_t i = 0; i < m.tensors.size(); ++i) {
    const ShardedTensor& t = m.tensors[i];
    const auto from = static_cast<size_t>(t.from), to = static_cast<size_t>(t.to);
    const TensorLayout layout =
        LayoutOf(workload, workload.tensors[i], m.mapping.shardings[from], m.mapping.shardings[to]);
    json.StartObject();
    json.Field("from", workload.kernels[from].name);
    json.Field("to", workload.kernels[to].name);
    json.Field("made_along", layout.made);
    json.Field("read_along", layout.read);
    json.Field("conversion", t.convert_time == RealNs() ? "none"
                             : t.gathers                ? "all_gather"
                                                        : "all_to_all");
    json.Field("bytes", t.bytes.count());
    json.Field("conversion_ns", t.convert_time.ns());
    json.EndObject();
  }
  json.EndArray();
}

void AddExchanges(const Workload& workload, const MappedWorkload& m, JsonWriter& json) {
  json.Key("exchanges");
  json.StartArray();
  for (const Exchange& e : m.exchanges) {
    json.StartObject();
    json.Field("op", workload.kernels[static_cast<size_t>(e.kernel)].name);
    json.Field("collective", Name(e.kind));
    json.Field("role", Name(e.role));
    json.Field("bytes", e.bytes.count());
    json.Field("ns", e.time.ns());
    json.EndObject();
  }
  json.EndArray();
}

void AddPartition(const Workload& workload, const Partition& p, JsonWriter& json) {
  json.StartObject();
  json.Field("ops", KernelNames(workload, p));
  json.Field("compute_ns", p.compute.ns());
  json.Field("memory_ns", p.memory.ns());
  json.Field("network_ns", p.network.ns());
  json.Field("time_ns", p.time.ns());
  json.Field("bound", BoundOf(p));
  json.Field("sram_bytes", p.sram_bytes.count());
  json.Field("dram_traffic_bytes", p.dram_traffic_bytes.count());
  if (!p.allocation.empty()) {
    json.Key("chip_tiles");
    json.StartArray();
    for (const TileAllocation& a : p.allocation) json.Int64(a.tiles());
    json.EndArray();
  }
  json.EndObject();
}

void AddTime(const IterationTime& t, JsonWriter& json) {
  json.Key("time");
  json.StartObject();
  json.Field("pass_ns", t.pass.ns());
  json.Field("stage_ns", t.stage.ns());
  json.Field("transfer_ns", t.transfer.ns());
  json.Field("bubble_ns", t.bubble.ns());
  json.Field("head_ns", t.head.ns());
  json.Field("gradient_ns", t.gradient.ns());
  json.Field("optimizer_ns", t.optimizer.ns());
  json.EndObject();
}

// Hierarchical roofline (figure 18): one speed, an intensity against memory and one against
// network.
void AddRoofline(const System& system, const MappedWorkload& m, JsonWriter& json) {
  const double dram = m.dram_traffic().count();
  json.Key("roofline");
  json.StartObject();
  json.Field("achieved_gflops", m.utilisation * system.chip.gflops());
  json.Field("peak_gflops", system.chip.gflops());
  if (dram > 0) json.Field("flop_per_dram_byte", m.flop_per_chip.count() / dram);
  if (m.network > RealBytes())
    json.Field("flop_per_network_byte", m.flop_per_chip.count() / m.network.count());
  json.Field("dram_gbps", GBps(system.memory.bandwidth));
  json.Field("link_gbps", GBps(system.dimensions.front().network.bandwidth));
  json.EndObject();
}

}  // namespace

std::string_view BoundOf(const Partition& p) {
  if (p.compute >= p.memory && p.compute >= p.network) return "compute";
  return p.memory >= p.network ? "memory" : "network";
}

std::vector<std::string> KernelNames(const Workload& workload, const Partition& partition) {
  std::vector<std::string> names;
  ForEach(workload, partition, [&](size_t i) { names.push_back(workload.kernels[i].name); });
  return names;
}

std::string MappingJson(const Workload& workload, const System& system, const MappedWorkload& m,
                        const std::vector<std::string>& notes) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  json.Field("workload", workload.name);
  if (!notes.empty()) json.Field("notes", notes);
  json.Field("system", system.name);
  json.Field("chips", system.chips());
  json.Field("iteration_ns", m.time.total.ns());
  json.Field("utilisation", m.utilisation);
  json.Field("dram_bytes", m.dram.count());
  json.Field("exact", m.proven());
  json.Field("bound_ns", m.partitioning.bound.ns());
  json.Field("iteration_bound_ns", m.bound.ns());
  json.Field("candidates", m.candidates);
  json.Field("pruned", m.pruned);
  AddMapping(workload, m, json);
  AddTensors(workload, m, json);
  AddExchanges(workload, m, json);
  AddTime(m.time, json);
  json.Key("stages");
  json.StartArray();
  for (int64_t s = 0, first = 0; s < m.mapping.pipeline; ++s) {
    const int64_t layers = std::min(m.layers_per_stage, workload.layers - first);
    json.StartObject();
    json.Field("first_layer", first);
    json.Field("layers", std::max<int64_t>(layers, 0));
    json.Field("micro_batch_ns",
               m.time.pass.ns() * static_cast<double>(std::max<int64_t>(layers, 0)));
    json.EndObject();
    first += layers;
  }
  json.EndArray();
  json.Key("partitions");
  json.StartArray();
  for (const Partition& p : m.partitioning.partitions) AddPartition(workload, p, json);
  json.EndArray();
  AddRoofline(system, m, json);
  json.EndObject();
  return {buffer.GetString(), buffer.GetSize()};
}

std::string MappingSvg(const Workload& workload, const MappedWorkload& m) {
  constexpr double kColumn = 210, kRow = 30, kTop = 44, kBox = 180;
  std::vector<double> x(workload.kernels.size()), y(workload.kernels.size());
  std::string body, boxes;
  double most = 0;
  for (size_t p = 0; p < m.partitioning.partitions.size(); ++p) {
    const Partition& part = m.partitioning.partitions[p];
    const double left = 10 + kColumn * static_cast<double>(p);
    double at = kTop;
    ForEach(workload, part, [&](size_t i) {
      x[i] = left, y[i] = at;
      boxes += fmt::format(
          "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"22\" rx=\"3\" fill=\"{}\" "
          "stroke=\"#555\"/>"
          "<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}, {}</text>",
          left, at, kBox,
          workload.kernels[i].kind == NestKind::kElementwise ? "#eef6ee" : "#e3ecfa",
          left + kBox / 2, at + 15, XmlText(workload.kernels[i].name),
          Name(m.mapping.shardings[i]));
      at += kRow;
    });
    most = std::max(most, at);
    body += fmt::format(
        "<text x=\"{:.0f}\" y=\"18\" font-weight=\"600\">{}: {:.4g} us, {}</text><text "
        "x=\"{:.0f}\" y=\"34\">"
        "compute {:.4g}, memory {:.4g}, network {:.4g}</text>",
        left, p + 1, part.time.ns() * 1e-3, BoundOf(part), left, part.compute.ns() * 1e-3,
        part.memory.ns() * 1e-3, part.network.ns() * 1e-3);
  }
  std::string lines;
  for (const Tensor& t : workload.tensors) {
    const auto a = static_cast<size_t>(t.from), b = static_cast<size_t>(t.to);
    const bool crosses = x[a] != x[b];
    lines +=
        fmt::format("<line x1=\"{:.0f}\" y1=\"{:.0f}\" x2=\"{:.0f}\" y2=\"{:.0f}\" stroke=\"{}\"/>",
                    x[a] + (crosses ? kBox : kBox / 2), y[a] + (crosses ? 11 : 22),
                    x[b] + (crosses ? 0 : kBox / 2), y[b] + (crosses ? 11 : 0),
                    crosses ? "#d1495b" : "#888888");
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0f}\" height=\"{:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"11\">"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>{}{}{}</svg>\n",
      20 + kColumn * static_cast<double>(m.partitioning.partitions.size()), most + 10, lines, body,
      boxes);
}

}  // namespace foretrace::dataflow
