#include "simulator/cost/collective/expert_exchange_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "simulator/base/error.h"
#include "simulator/base/shipped.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/yaml.h"
#include "simulator/base/yaml_reader.h"

namespace foretrace {
namespace {

constexpr const char* kDirections[] = {"dispatch", "combine"};

// Constants that differ from those of a kernel that costs nothing.
std::string KernelYaml(const ExpertKernel& kernel) {
  const ExpertKernel none;
  std::string text;
  for (const ExpertConstant& c : ExpertConstants()) {
    if (kernel.*c.value == none.*c.value) continue;
    text += fmt::format("{}{}: {:.5g}", text.empty() ? "" : ", ", c.name, kernel.*c.value);
  }
  return "{" + text + "}";
}

std::string KernelsYaml(const char* algorithm, const ExpertExchangeKernels& kernels) {
  std::string text = fmt::format("  {}:\n", algorithm);
  for (const bool between : {false, true}) {
    text += fmt::format("    {}:\n", between ? "between_nodes" : "within_node");
    for (size_t d = 0; d < 2; ++d) {
      text += fmt::format("      {}: {}\n", kDirections[d],
                          KernelYaml((between ? kernels.between : kernels.within)[d]));
    }
  }
  return text;
}

ExpertKernel ReadKernel(const YamlReader& in) {
  ExpertKernel kernel;
  std::vector<std::string_view> names;
  for (const ExpertConstant& c : ExpertConstants()) {
    names.push_back(c.name);
    kernel.*c.value = in.Number(c.name, c.least, c.most, kernel.*c.value);
  }
  in.ExpectKeys(names);
  return kernel;
}

ExpertExchangeKernels ReadKernels(const YamlReader& in) {
  ExpertExchangeKernels kernels;
  const YamlReader within = in.Child("within_node"), between = in.Child("between_nodes");
  for (size_t d = 0; d < 2; ++d) {
    kernels.within[d] = ReadKernel(within.Child(kDirections[d]));
    kernels.between[d] = ReadKernel(between.Child(kDirections[d]));
  }
  return kernels;
}

double Rate(const PlatformSpec& platform, LinkTypeIndex link, double count) {
  return link == kNoLinkType
             ? 0
             : platform.links[static_cast<size_t>(link)].bandwidth.bytes_per_second() * count;
}

}  // namespace

std::string ExpertExchangeYaml(const ExpertExchangeModel& model) {
  return "models:\n" + KernelsYaml("deduplicated", model.deduplicated) +
         KernelsYaml("direct", model.direct);
}

absl::StatusOr<LoadedExpertExchange> LoadExpertExchange(const std::string& path) {
  FORETRACE_ASSIGN_OR_RETURN(const YAML::Node root, ReadYaml(path));
  LoadedExpertExchange loaded;
  FORETRACE_ASSIGN_OR_RETURN(loaded.header, ParseHeader(root, path, "expert-exchange"));
  try {
    auto sink = std::make_shared<YamlSink>();
    sink->file = path;
    const YamlReader models = YamlReader(root, "", sink).Child("models");
    loaded.model.deduplicated = ReadKernels(models.Child("deduplicated"));
    loaded.model.direct = ReadKernels(models.Child("direct"));
    if (!sink->status.ok()) return sink->status;
  } catch (const YAML::Exception& error) {
    return YamlError(path, error);
  }
  return loaded;
}

absl::StatusOr<LoadedExpertExchange> ShippedExpertExchange() {
  const std::vector<std::string> files = ListShipped("calibration", "expert_exchange.yaml");
  if (files.empty()) {
    return InvalidInput(
        "calibration: no expert_exchange.yaml in any folder, which exchanges of experts are timed "
        "by");
  }
  return LoadExpertExchange(files.front());
}

ExpertLinks LinksOf(const PlatformSpec& platform) {
  const NodeSpec& node = platform.node;
  ExpertLinks links;
  links.devices = node.devices;
  double each = node.links_per_device;
  if (node.interconnect == InterconnectKind::kMesh) {
    each = 0;
    for (const MeshEdge& edge : node.mesh) each += 2.0 * edge.count / node.devices;
  }
  links.nvlink = Bandwidth::BytesPerSecond(node.interconnect_link == kNoLinkType
                                               ? Rate(platform, node.pcie_link, 1)
                                               : Rate(platform, node.interconnect_link, each));
  if (platform.nodes > 1) {
    const double nics = node.nics > 0 ? static_cast<double>(node.nics) / node.devices : 1;
    links.nic = Bandwidth::BytesPerSecond(Rate(platform, platform.fabric.link, nics));
  }
  if (const int32_t count = node.accelerator.multiprocessors(); count > 0) {
    links.multiprocessors = count;
  }
  return links;
}

}  // namespace foretrace
