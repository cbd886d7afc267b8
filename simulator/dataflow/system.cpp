#include "simulator/dataflow/system.h"

#include <array>

#include "simulator/dataflow/quantities.h"

namespace foretrace::dataflow {

std::string_view Name(Execution execution) {
  return execution == Execution::kDataflow ? "dataflow" : "kernel-by-kernel";
}

std::string_view Name(Role role) {
  constexpr std::array<std::string_view, 5> kNames = {"tensor", "pipeline", "data", "all", "free"};
  return kNames.at(static_cast<size_t>(role));
}

void SystemDimension::Use(const LinkTechnology& technology) {
  link = technology;
  network.bandwidth = link.bandwidth;
  network.latency = link.latency;
}

int64_t System::chips() const {
  int64_t n = 1;
  for (const SystemDimension& d : dimensions) n *= d.network.size;
  return n;
}

int64_t System::degree(Role role) const {
  int64_t n = 1;
  for (const SystemDimension& d : dimensions) n *= d.role == role ? d.network.size : 1;
  return n;
}

std::vector<NetworkDimension> System::networks() const {
  std::vector<NetworkDimension> out;
  for (const SystemDimension& d : dimensions) out.push_back(d.network);
  return out;
}

double LinkCount(const System& system, size_t i) {
  const NetworkDimension& d = system.dimensions[i].network;
  const auto size = static_cast<double>(d.size), chips = static_cast<double>(system.chips());
  if (d.size <= 1) return 0;
  if (d.kind == NetworkKind::kFullyConnected)
    return d.per_group ? size * (size - 1) : chips * (size - 1);
  return d.per_group ? size : chips;
}

double PortCount(const System& system, size_t i) {
  const NetworkDimension& d = system.dimensions[i].network;
  const auto size = static_cast<double>(d.size), chips = static_cast<double>(system.chips());
  if (system.chips() <= 4 || d.size <= 1) return 0;
  switch (d.kind) {
    case NetworkKind::kRing:
      return 2 * chips / size;
    // Groups are routers, joined pair by pair; within a group chips are joined directly.
    case NetworkKind::kFullyConnected:
      return d.per_group ? size * size : 0;
    default:
      return d.per_group ? size : chips;
  }
}

namespace {

Bill Sum(const System& system, bool power) {
  const auto n = static_cast<double>(system.chips());
  Bill bill;
  const bool board = power ? system.chip.board_power : system.chip.board_price;
  // What there is none of needs no price.
  const auto add = [](double& to, double count, double each) {
    if (count > 0) to += count * each;
  };
  bill.chips = n * (power ? system.chip.power_w : system.chip.price_usd);
  if (!board)
    add(bill.memory, n * GBps(system.memory.bandwidth),
        power ? system.memory.watt_per_gbps : system.memory.usd_per_gbps);
  for (size_t i = 0; i < system.dimensions.size(); ++i) {
    const SystemDimension& d = system.dimensions[i];
    const double gbps = GBps(d.network.bandwidth);
    if (!board || i > 0)
      add(bill.links, LinkCount(system, i) * gbps,
          power ? d.link.watt_per_gbps : d.link.usd_per_gbps);
    add(bill.switches, PortCount(system, i) * gbps,
        power ? system.switch_watt_per_gbps : system.switch_usd_per_gbps);
  }
  return bill;
}

}  // namespace

Bill PriceUsd(const System& system) { return Sum(system, false); }
Bill PowerWatt(const System& system) { return Sum(system, true); }

}  // namespace foretrace::dataflow
