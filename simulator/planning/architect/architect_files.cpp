#include <fmt/format.h>

#include "simulator/base/utf8.h"
#include "simulator/cost/calibration_file.h"
#include "simulator/planning/architect/architect_report.h"

namespace foretrace {
namespace {

constexpr const char* kName = "architect-common";

std::string SourceOf(const ArchitectReport& r) {
  return fmt::format("foretrace architect, space {}: design {}", OneLine(r.space.name),
                     Describe(r.best().design.design));
}

}  // namespace

std::string AcceleratorYaml(const ArchitectReport& r) {
  const SizedDesign& d = r.best().design;
  const double teraflops = 2e-12 * static_cast<double>(d.design.macs()) * r.machine.clock_Hz;
  std::string physical = fmt::format("die_mm2: {}", d.area.mm2());
  if (d.watts > 0) physical += fmt::format(", power_W: {}", d.watts);
  if (d.dollars > 0) physical += fmt::format(", price_USD: {}", d.dollars);
  return fmt::format(
      "# {2}\nname: {0}\ndescription: '{1}'\nvendor: none\nchip: {0}\n"
      "compute:\n  matrix_units:\n    kind: systolic\n    count: {3}\n    width: {4}\n    depth: "
      "{5}\n"
      "    clock_MHz: {6}\n    rates_TFLOPS: {{bf16: {7}, fp16: {7}}}\n    source: {13}\n"
      "memory:\n  buffer:\n    kind: scratchpad\n    capacity_MB: {8}\n    source: {13}\n"
      "  hbm:\n    kind: device\n    capacity_GB: {9}\n    bandwidth_GBps: {10}\n    source: "
      "{13}\n"
      "interconnect: {{kind: link, links: 1, link_GBps: {11}, source: {13}}}\n"
      "physical: {{{12}, source: {13}}}\n",
      kName, Describe(d.design), SourceOf(r), d.design.tensor_cores, d.design.width, d.design.depth,
      r.machine.clock_Hz * 1e-6, teraflops, d.design.buffer_MB,
      static_cast<double>(r.training.hbm.count()) * 1e-9, r.machine.hbm.gbps(),
      r.machine.link.gbps(), physical, YamlQuoted(SourceOf(r)));
}

std::string PlatformYaml(const ArchitectReport& r) {
  return fmt::format(
      "# {0}\nname: architect-platform\ndescription: '{1} of them on one switch'\n"
      "links:\n  link:\n    class: network\n    bandwidth_GBps: {2}\n    latency_us: 0\n"
      "    source: {4}\n"
      "node:\n  devices: 1\n  accelerator: ./{3}.yaml\n  nics: {{count: 1, affinity: [0]}}\n"
      "nodes: {1}\nfabric: {{kind: switch, link: link}}\n",
      SourceOf(r), r.training.devices, r.machine.link.gbps(), kName,
      YamlQuoted(SourceOf(r) + "; the search knows no latency"));
}

std::string SystemYaml(const ArchitectReport& r) {
  return fmt::format(
      "# {0}\nname: architect-system\ndescription: '{1} of them on one switch'\nsource: {6}\n"
      "chip: {{accelerator: {2}, execution: kernel-by-kernel}}\n"
      "memory: {{name: hbm, bandwidth_GBps: {3}, capacity_GB: {4}}}\n"
      "links:\n  - {{name: link, bandwidth_GBps: {5}}}\n"
      "network:\n  - {{kind: switch, size: {1}}}\n",
      SourceOf(r), r.training.devices, kName, r.machine.hbm.gbps(),
      static_cast<double>(r.training.hbm.count()) * 1e-9, r.machine.link.gbps(),
      YamlQuoted(SourceOf(r)));
}

std::string SecondsText(const SearchSeconds& seconds) {
  const double all = seconds.estimates + seconds.schedules + seconds.placements;
  const auto share = [all](double part) { return all > 0 ? 100 * part / all : 0; };
  return fmt::format(
      "The search took {:.2f} s of all threads: estimates {:.1f} %, schedules of layers {:.1f} %, "
      "placements {:.1f} %; the longest schedule of a layer {:.1f} ms\n",
      all, share(seconds.estimates), share(seconds.schedules), share(seconds.placements),
      1e3 * seconds.longest_schedule);
}

}  // namespace foretrace
