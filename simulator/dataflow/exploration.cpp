#include "simulator/dataflow/exploration.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <tuple>

#include "simulator/base/error.h"
#include "simulator/base/json_writer.h"
#include "simulator/base/status_macros.h"

namespace foretrace::dataflow {
namespace {

bool Allows(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

// Where every dimension names its link there is nothing to choose.
size_t LinkChoices(const Space& space, const Space::Topology& topology) {
  const bool open = std::any_of(topology.dimensions.begin(), topology.dimensions.end(),
                                [](const SystemDimension& d) { return !d.has_link(); });
  return open ? space.links.size() : 1;
}

// What it does not give stays.
void Apply(const GivenMapping& given, SearchLimits& limits, System& system) {
  const SearchLimits& g = given.limits;
  if (g.shardings) limits.shardings = g.shardings;
  if (g.megatron != SearchLimits::Megatron::kNo) limits.megatron = g.megatron;
  if (g.tiles > 0) limits.tiles = g.tiles;
  if (g.micro_batch > 0) limits.micro_batch = g.micro_batch;
  if (g.recompute) limits.recompute = g.recompute;
  if (g.scheme != TrainingScheme()) limits.scheme = g.scheme;
  if (g.partition_of) limits.partition_of = g.partition_of;
  for (size_t i = 0; i < given.roles.size(); ++i) system.dimensions[i].role = given.roles[i];
}

const Workload& WorkloadOf(const Space& space, const Point& p) {
  return space.workloads[p.workload].workload;
}

}  // namespace

std::vector<Point> PointsOf(const Space& space) {
  std::vector<Point> out;
  Point p;
  const auto each = [](uint32_t& at, size_t count, const auto& body) {
    for (at = 0; at < count; ++at) body();
  };
  each(p.workload, space.workloads.size(), [&] {
    each(p.variant, space.variants.size(), [&] {
      each(p.chip, space.chips.size(), [&] {
        const Space::ChipChoice& chip = space.chips[p.chip];
        if (!Allows(chip.variants, space.variants[p.variant].name)) return;
        if (!Allows(space.workloads[p.workload].chips, chip.chip.name)) return;
        each(p.topology, space.topologies.size(), [&] {
          if (!Allows(space.workloads[p.workload].topologies, space.topologies[p.topology].name))
            return;
          const size_t links = LinkChoices(space, space.topologies[p.topology]);
          each(p.memory, space.memories.size(),
               [&] { each(p.link, links, [&] { out.push_back(p); }); });
        });
      });
    });
  });
  return out;
}

System SystemOf(const Space& space, const Point& point) {
  System s;
  const Space::Topology& topology = space.topologies[point.topology];
  s.name = topology.name;
  s.topology = topology.name;
  s.chip = space.chips[point.chip].chip;
  s.memory = space.memories[point.memory];
  s.dimensions = topology.dimensions;
  for (SystemDimension& d : s.dimensions) {
    if (!d.has_link()) d.Use(space.links[point.link]);
  }
  s.switch_usd_per_gbps = space.switch_usd_per_gbps;
  s.switch_watt_per_gbps = space.switch_watt_per_gbps;
  return s;
}

absl::StatusOr<PointResult> EvaluatePoint(const Space& space, const Point& point) {
  const Space::Variant& variant = space.variants[point.variant];
  Formulas formulas = space.formulas;
  formulas.overlap = variant.overlap;
  System system = SystemOf(space, point);
  SearchLimits limits = space.limits;
  if (!variant.given.empty()) Apply(variant.given[point.workload], limits, system);
  const auto mapped = Optimise(WorkloadOf(space, point), system, formulas, limits);
  PointResult r;
  if (!mapped.ok()) {
    if (mapped.status().code() != absl::StatusCode::kFailedPrecondition) return mapped.status();
    r.why_not = std::string(mapped.status().message());
    return r;
  }
  r.feasible = true;
  r.iteration = mapped->time.total;
  r.pass = mapped->time.pass;
  r.utilisation = mapped->utilisation;
  for (const Partition& p : mapped->partitioning.partitions) {
    if (p.time < p.compute + p.memory + p.network) {
      RealNs& bound = p.time == p.compute ? r.compute : p.time == p.memory ? r.memory : r.network;
      bound += p.time;
    } else {
      r.compute += p.compute;
      r.memory += p.memory;
      r.network += p.network;
    }
  }
  r.tensor = mapped->mapping.tensor;
  r.pipeline = mapped->mapping.pipeline;
  r.data = mapped->mapping.data;
  r.partitions = static_cast<int64_t>(mapped->partitioning.partitions.size());
  r.micro_batch = mapped->mapping.micro_batch;
  r.dram_bytes = mapped->dram;
  return r;
}

std::string Encode(const PointResult& r) {
  if (!r.feasible) return "infeasible " + r.why_not;
  return fmt::format("{:a} {:a} {:a} {:a} {:a} {:a} {} {} {} {} {:a} {:a}", r.iteration.ns(),
                     r.pass.ns(), r.utilisation, r.compute.ns(), r.memory.ns(), r.network.ns(),
                     r.tensor, r.pipeline, r.data, r.partitions, r.micro_batch,
                     r.dram_bytes.count());
}

bool Decode(std::string_view line, PointResult& out) {
  const std::string text(line);
  PointResult r;
  if (text.starts_with("infeasible ")) {
    r.why_not = text.substr(11);
    out = r;
    return true;
  }
  long long tensor = 0, pipeline = 0, data = 0, partitions = 0;
  double iteration_ns = 0, pass_ns = 0, compute_ns = 0, memory_ns = 0, network_ns = 0, dram = 0;
  int used = 0;
  if (std::sscanf(text.c_str(), "%la %la %la %la %la %la %lld %lld %lld %lld %la %la%n",
                  &iteration_ns, &pass_ns, &r.utilisation, &compute_ns, &memory_ns, &network_ns,
                  &tensor, &pipeline, &data, &partitions, &r.micro_batch, &dram, &used) != 12 ||
      static_cast<size_t>(used) != text.size() || !(iteration_ns > 0) ||
      !std::isfinite(iteration_ns)) {
    return false;
  }
  r.iteration = RealNs(iteration_ns);
  r.pass = RealNs(pass_ns);
  r.compute = RealNs(compute_ns);
  r.memory = RealNs(memory_ns);
  r.network = RealNs(network_ns);
  r.dram_bytes = RealBytes(dram);
  r.feasible = true;
  r.tensor = tensor;
  r.pipeline = pipeline;
  r.data = data;
  r.partitions = partitions;
  out = r;
  return true;
}

double SpeedOf(const Space& space, const Point& point, const PointResult& result) {
  const System system = SystemOf(space, point);
  return result.feasible
             ? result.utilisation * system.chip.gflops() * 1e9 * static_cast<double>(system.chips())
             : 0;
}

std::vector<std::string> NotStatedIn(const Space& space, std::span<const Point> points) {
  std::set<std::string> out;
  for (const Point& point : points) {
    const System s = SystemOf(space, point);
    const auto note = [&](const Bill& bill, std::string_view of_chip, std::string_view rate) {
      if (std::isnan(bill.chips)) out.insert(fmt::format("chip {} ({})", s.chip.name, of_chip));
      if (std::isnan(bill.memory)) out.insert(fmt::format("memory {} ({})", s.memory.name, rate));
      if (std::isnan(bill.switches)) out.insert(fmt::format("switch ({})", rate));
      for (size_t i = 0; std::isnan(bill.links) && i < s.dimensions.size(); ++i) {
        const LinkTechnology& link = s.dimensions[i].link;
        if (std::isnan(rate.starts_with("USD") ? link.usd_per_gbps : link.watt_per_gbps))
          out.insert(fmt::format("link {} ({})", link.name, rate));
      }
    };
    note(PriceUsd(s), "price_USD", "USD_per_GBps");
    note(PowerWatt(s), "power_W", "watt_per_GBps");
  }
  return {out.begin(), out.end()};
}

std::vector<size_t> ParetoFront(const Space& space, std::span<const Point> points,
                                std::span<const PointResult> results) {
  struct Merit {
    size_t at;
    double ns, price, power;
  };
  const auto no_worse = [](const Merit& a, const Merit& b) {
    return a.ns <= b.ns && a.price <= b.price && a.power <= b.power;
  };
  // Of each workload and variant, fastest first: only what is in the front already can beat the
  // next.
  std::map<std::pair<uint32_t, uint32_t>, std::vector<Merit>> groups;
  for (size_t i = 0; i < points.size(); ++i) {
    if (!results[i].feasible) continue;
    const System s = SystemOf(space, points[i]);
    groups[{points[i].workload, points[i].variant}].push_back(
        {i, results[i].iteration.ns(), PriceUsd(s).total(), PowerWatt(s).total()});
  }
  std::vector<size_t> out;
  for (auto& [key, merits] : groups) {
    for (double Merit::*bill : {&Merit::price, &Merit::power}) {
      const bool stated =
          std::ranges::none_of(merits, [&](const Merit& m) { return std::isnan(m.*bill); });
      for (Merit& m : merits) m.*bill = stated ? m.*bill : 0;
    }
    std::sort(merits.begin(), merits.end(), [](const Merit& a, const Merit& b) {
      return std::tie(a.ns, a.price, a.power, a.at) < std::tie(b.ns, b.price, b.power, b.at);
    });
    std::vector<Merit> front;
    for (const Merit& m : merits) {
      const bool beaten = std::any_of(front.begin(), front.end(), [&](const Merit& f) {
        return no_worse(f, m) && !no_worse(m, f);
      });
      if (!beaten) front.push_back(m);
    }
    for (const Merit& m : front) out.push_back(m.at);
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace foretrace::dataflow
