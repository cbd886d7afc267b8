#pragma once
// Parts of the YAML files of files.h. Problems go to the reader's sink.

#include <string>
#include <vector>

#include "simulator/base/yaml_reader.h"
#include "simulator/dataflow/files.h"

namespace foretrace::dataflow {

// Numbers of published inputs were held in single precision; rounding them the same way gives the
// published prices to the last digit.
struct NumberReader {
  bool single = false;
  double operator()(const YamlReader& in, std::string_view key, double low, double high) const;
  double operator()(const YamlReader& in, std::string_view key, double low, double high,
                    double fallback) const;
};

Workload ReadWorkload(const YamlReader& in);
// `also` and `published` are for tables of training runs (workload/workload_yaml.h) and not read
// here.
inline constexpr std::array<std::string_view, 13> kWorkloadKeys = {
    "name", "also", "published", "batch", "train", "transformer", "state_space",
    "dlrm", "hpl",  "fft",       "graph", "chips", "topologies"};

Chip ReadChip(const YamlReader& in, const NumberReader& number,
              const AcceleratorCatalog& accelerators);
OffChipMemory ReadMemory(const YamlReader& in, const NumberReader& number);
LinkTechnology ReadLink(const YamlReader& in, const NumberReader& number);
// Prices and powers of the key `switch`; kNotStated without it.
void ReadSwitch(const YamlReader& in, const NumberReader& number, double& usd_per_gbps,
                double& watt_per_gbps);
// `links`: what a dimension's `link` may name; a dimension that names none gets `link` itself,
// where there is one, else no bandwidth.
std::vector<SystemDimension> ReadDimensions(const YamlReader& in,
                                            const std::vector<LinkTechnology>& links);
Formulas ReadFormulas(const YamlReader& in, const NumberReader& number);

// In the order of SearchLimits::Megatron.
inline constexpr std::array<std::string_view, 3> kSolvedShardings = {"solved", "tensor-parallel",
                                                                     "sequence-parallel"};

// Kernels are those of the workload.
GivenMapping ReadMapping(const YamlReader& in, const Workload& workload);

std::vector<std::string> Strings(const YamlReader& in, std::string_view key);

}  // namespace foretrace::dataflow
