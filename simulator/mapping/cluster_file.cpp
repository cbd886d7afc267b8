#include "simulator/mapping/cluster_file.h"

#include <array>

#include <fmt/format.h>

#include "simulator/base/status_macros.h"
#include "simulator/base/yaml_reader.h"

namespace foretrace {
namespace {

// One value of the file: its key, its range, and where it goes.
struct Field {
  std::string_view key;
  double low, high;
  void (*set)(double value, ClusterParameters& p);
};

constexpr std::array<Field, 6> kFields = {{
    {"matrix_efficiency", 0.01, 1, [](double v, ClusterParameters& p) { p.matrix_efficiency = v; }},
    {"memory_efficiency", 0.01, 1, [](double v, ClusterParameters& p) { p.memory_efficiency = v; }},
    {"node_share", 0.1, 10, [](double v, ClusterParameters& p) { p.node_share = v; }},
    {"nic_share", 0.1, 10, [](double v, ClusterParameters& p) { p.nic_share = v; }},
    {"gemm_slowdown", 0.5, 3, [](double v, ClusterParameters& p) { p.gemm_slowdown = v; }},
    {"launch_floor_ms", 0, 1e3,
     [](double v, ClusterParameters& p) { p.launch_floor = SimTime::FromUs(v * 1e3); }},
}};

}  // namespace

absl::StatusOr<ClusterCalibration> LoadClusterCalibration(const std::string& file) {
  FORETRACE_ASSIGN_OR_RETURN(const YamlReader root, ReadYamlFile(file));
  std::vector<std::string_view> keys = {"devices", "source", "fitted", "errors"};
  for (const Field& f : kFields) keys.push_back(f.key);
  root.ExpectKeys(keys);
  ClusterCalibration c;
  c.file = file;
  for (const YamlReader& item : root.Child("devices").Items()) c.devices.push_back(item.AsString());
  c.source = root.String("source");
  c.fitted = root.String("fitted");
  c.errors = root.String("errors");
  for (const Field& f : kFields) {
    if (!root.Has(f.key)) continue;
    f.set(root.Number(f.key, f.low, f.high), c.values);
    c.given.emplace_back(f.key);
  }
  FORETRACE_RETURN_IF_ERROR(root.status());
  return c;
}

void Apply(const ClusterCalibration& calibration, ClusterParameters& cluster) {
  const ClusterParameters& v = calibration.values;
  for (const std::string& key : calibration.given) {
    if (key == "matrix_efficiency") cluster.matrix_efficiency = v.matrix_efficiency;
    if (key == "memory_efficiency") cluster.memory_efficiency = v.memory_efficiency;
    if (key == "node_share") cluster.node_share = v.node_share;
    if (key == "nic_share") cluster.nic_share = v.nic_share;
    if (key == "launch_floor_ms") cluster.launch_floor = v.launch_floor;
    if (key == "gemm_slowdown") cluster.gemm_slowdown = v.gemm_slowdown;
  }
}

std::string Describe(const ClusterParameters& p) {
  std::string text;
  if (p.measured != nullptr) {
    const std::string source = p.measured->Source();
    text += fmt::format("{}{}, ", source.starts_with("analytic") ? "" : "measured ", source);
  }
  if (p.measured != nullptr && p.gemm_slowdown != 1) {
    text += fmt::format("slowed down {:.3f} times, ", p.gemm_slowdown);
  }
  text += fmt::format(
      "peak {:.0f} TFLOP/s, matrix efficiency {:.3f}, memory {:.0f} GB/s, memory efficiency "
      "{:.3f}, within a node {:.0f} GB/s, NIC {:.1f} GB/s a device, collective latency {:.1f} us, ",
      p.peak.per_second() * 1e-12, p.matrix_efficiency, p.peak_memory.gbps(), p.memory_efficiency,
      p.node_share * p.flat.node.gbps(), p.nic_share * p.flat.nic.gbps(), p.flat.latency.us());
  if (p.launch_floor > SimTime()) {
    text += fmt::format("launch floor {:.3g} ms a layer, ", p.launch_floor.us() * 1e-3);
  }
  return text + fmt::format("{} devices a node", p.devices_per_node);
}

}  // namespace foretrace
