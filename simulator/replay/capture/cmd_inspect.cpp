#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "simulator/base/error.h"
#include "simulator/base/json_writer.h"
#include "simulator/base/shipped.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/yaml_reader.h"
#include "simulator/console/command.h"
#include "simulator/console/options.h"
#include "simulator/console/output.h"
#include "simulator/hardware/accelerator_file.h"
#include "simulator/hardware/describe_accelerator.h"
#include "simulator/reconstruct/recorded_accelerators.h"
#include "simulator/replay/capture/inspection.h"
#include "simulator/replay/memory/snapshot_output.h"
#include "simulator/replay/run.h"
#include "simulator/replay/trace_options.h"
#include "simulator/replay/what_if/work_listing.h"
#include "simulator/topology/describe.h"
#include "simulator/topology/platform_loader.h"
#include "simulator/topology/topology.h"

namespace foretrace {
namespace {

struct InspectOptions {
  TraceOptions traces;
  bool json = false;
  bool kernels = false;
  bool ops = false;
  // Of these options, the first that was given.
  std::function<std::string(std::initializer_list<const char*>)> first_given;
};

bool IsPlatformFile(const std::vector<std::string>& paths) {
  if (paths.size() != 1) return false;
  const std::string extension = std::filesystem::path(paths[0]).extension();
  return extension == ".yaml" || extension == ".yml";
}

// A file of topologies/accelerators/ names a chip, that of a platform does not.
bool IsAcceleratorFile(const std::string& path) {
  const absl::StatusOr<YamlReader> root = ReadYamlFile(path);
  return root.ok() && root->Has("chip");
}

// A file of traces/workloads/.
bool IsWorkloadFile(const std::string& path) {
  const absl::StatusOr<YamlReader> root = ReadYamlFile(path);
  return root.ok() && !root->Has("node") && (root->Has("transformer") || root->Has("operators"));
}

absl::Status InspectAccelerator(const std::string& path, bool as_json,
                                const CommandContext& context) {
  FORETRACE_ASSIGN_OR_RETURN(const Accelerator accelerator, LoadAccelerator(path));
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  json.Field("accelerator", accelerator.name);
  json.Field("description", DescribeAccelerator(accelerator));
  json.EndObject();
  const std::string document(buffer.GetString(), buffer.GetSize());
  FORETRACE_RETURN_IF_ERROR(context.WriteAnswer("inspect", [&] { return document; }));
  if (as_json) return context.console->PrintJson("inspect", document);
  return context.console->Print(DescribeAccelerator(accelerator));
}

absl::Status InspectPlatform(const std::string& path, bool as_json, const CommandContext& context) {
  if (IsAcceleratorFile(path)) return InspectAccelerator(path, as_json, context);
  if (IsWorkloadFile(path)) {
    return InvalidInput(
        "{}: a workload, which search, generate and serve take; inspect takes traces, platforms "
        "and accelerators",
        path);
  }
  FORETRACE_ASSIGN_OR_RETURN(PlatformSpec spec, LoadPlatform(path));
  FORETRACE_ASSIGN_OR_RETURN(const Topology topology, Topology::Create(std::move(spec)));
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  json.Field("platform", topology.spec().name);
  json.Field("nodes", int64_t{topology.spec().nodes});
  json.Field("devices", topology.spec().devices());
  json.Field("ranks", int64_t{topology.rank_count()});
  json.Field("description", DescribeTopology(topology, 32));
  json.EndObject();
  const std::string document(buffer.GetString(), buffer.GetSize());
  FORETRACE_RETURN_IF_ERROR(context.WriteAnswer("inspect", [&] { return document; }));
  if (as_json) return context.console->PrintJson("inspect", document);
  return context.console->Print(DescribeTopology(topology, 32));
}

// torch.cuda.memory._dump_snapshot's.
bool IsSnapshot(const std::vector<std::string>& paths) {
  return paths.size() == 1 && (paths[0].ends_with(".pickle") || paths[0].ends_with(".pkl"));
}

absl::Status InspectSnapshot(const std::string& path, bool as_json, const CommandContext& context) {
  FORETRACE_ASSIGN_OR_RETURN(const std::vector<DeviceSnapshot> devices, ReadMemorySnapshot(path));
  FORETRACE_RETURN_IF_ERROR(context.WriteAnswer("inspect", [&] { return SnapshotJson(devices); }));
  if (as_json) return context.console->PrintJson("inspect", SnapshotJson(devices));
  return context.console->Print(SnapshotText(devices, context.console->style()));
}

// The file of a shipped platform, where one name is given that is no path.
std::vector<std::string> WithPlatformsFile(std::vector<std::string> paths) {
  std::error_code error;
  if (paths.size() != 1 || paths[0] == "-" || std::filesystem::exists(paths[0], error)) {
    return paths;
  }
  if (auto file = FindShipped(kPlatforms, paths[0]); file.ok()) paths[0] = *std::move(file);
  return paths;
}

absl::Status RunInspect(const InspectOptions& options, const CommandContext& context) {
  const std::vector<std::string> paths = WithPlatformsFile(options.traces.paths);
  const std::string& first = paths[0];
  const bool platform = IsPlatformFile(paths);
  if (platform || IsSnapshot(options.traces.paths)) {
    const std::string given =
        options.first_given({"--kernels", "--ops", "--strict", "--ignore", "--process-groups"});
    if (!given.empty()) {
      return InvalidInput("{} would change nothing: {} is no trace", given, first);
    }
    return platform ? InspectPlatform(first, options.json, context)
                    : InspectSnapshot(first, options.json, context);
  }
  FORETRACE_ASSIGN_OR_RETURN(const auto loaded, options.traces.Load(context));
  const TraceStore& store = *loaded;
  if (options.kernels || options.ops) {
    const std::vector<ListedWork> list = options.ops ? ListOps(store) : ListKernels(store);
    FORETRACE_RETURN_IF_ERROR(
        context.WriteAnswer("inspect", [&] { return WorkListJson(list, options.ops); }));
    if (options.json) return context.console->PrintJson("inspect", WorkListJson(list, options.ops));
    return context.console->Print(WorkListText(list, options.ops, context.console->style()));
  }
  FORETRACE_ASSIGN_OR_RETURN(const AcceleratorCatalog accelerators,
                             LoadRecordedAccelerators(store));
  Inspection inspection = Inspect(store, accelerators);
  for (std::string& note : UnknownDevices(store, accelerators)) {
    inspection.missing.push_back(std::move(note));
  }
  FORETRACE_RETURN_IF_ERROR(
      context.WriteAnswer("inspect", [&] { return InspectionJson(inspection); }));
  if (options.json) return context.console->PrintJson("inspect", InspectionJson(inspection));
  return context.console->Print(InspectionText(inspection, context.console->style()));
}

}  // namespace

void AddInspectCommand(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command = app.add_subcommand(
      "inspect",
      "what is in traces (ranks, kernels, communicators, repairs), in a platform file, or in a "
      "memory snapshot of PyTorch");
  options->first_given = [command](std::initializer_list<const char*> names) {
    return command->FirstGiven(names);
  };
  options->traces.Register(*command, true);
  command->add_flag("--json", options->json, "one JSON document instead of tables");
  CLI::Option* kernels =
      command->add_flag("--kernels", options->kernels, "list the kernels, for selectors (name=)");
  command->add_flag("--ops", options->ops, "list the framework calls, for selectors (op=, cpu=)")
      ->excludes(kernels);
  command->footer(Examples({
      "foretrace inspect traces/samples/dlrm_8rank",
      "foretrace inspect run1.tar.gz --json",
      "foretrace inspect run1/ --ops",
      "foretrace inspect dgx-h100",
      "foretrace inspect snapshot.pickle",
  }));
  command->callback([options, &context] {
    context.run = [options, &context] { return RunInspect(*options, context); };
  });
}

}  // namespace foretrace
