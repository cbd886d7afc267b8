#include <fmt/format.h>

#include <memory>
#include <numeric>

#include "simulator/base/error.h"
#include "simulator/base/in_file.h"
#include "simulator/base/shipped.h"
#include "simulator/base/status_macros.h"
#include "simulator/console/command.h"
#include "simulator/console/options.h"
#include "simulator/console/output.h"
#include "simulator/network/collective_table.h"
#include "simulator/network/link_study.h"
#include "simulator/replay/collective_output.h"
#include "simulator/topology/platform_loader.h"

namespace foretrace {
namespace {

absl::StatusOr<Bytes> SizeOption(std::string_view option, const std::string& text) {
  auto size = ParseSize(text);
  if (size.ok()) return size;
  return InvalidInput("{}: {}", option, std::string(size.status().message()));
}

constexpr const char* kDefaultBytes = "1M:1G";
constexpr const char* kDefaultMinBytes = "1M";

struct CollectiveOptions {
  std::string op;     // empty: all_reduce, or every table of --measured but send_recv
  int32_t ranks = 0;  // 0: all of the platform
  std::string bytes = kDefaultBytes;
  std::string topology;
  std::string algorithm = "auto";
  std::string protocol = "auto";
  int32_t chunks = 0;
  std::string network;  // empty: fluid; with --measured the closed forms
  bool json = false;
  bool links = false;
  std::string measured;
  bool fit = false;
  bool fit_launch = false;
  std::string hold_out;  // of a fit: "tables" (default) or "sizes"
  std::string min_bytes = kDefaultMinBytes;
};

absl::StatusOr<NetworkOptions> ParseNetworkOptions(const CollectiveOptions& options) {
  NetworkOptions network;
  network.algorithm = ParseAlgorithm(options.algorithm);
  if (network.algorithm == Algorithm::kCount) {
    std::string known;
    for (int a = 0; a < static_cast<int>(Algorithm::kCount); ++a) {
      known += (a > 0 ? ", " : "") + std::string(Name(static_cast<Algorithm>(a)));
    }
    return InvalidInput("--algorithm '{}' is not known; allowed: {}", options.algorithm, known);
  }
  network.chunks = options.chunks;
  if (options.protocol == "auto") return network;
  for (int p = 0; p < static_cast<int>(Protocol::kCount); ++p) {
    if (Name(static_cast<Protocol>(p)) == options.protocol) {
      network.protocol = static_cast<Protocol>(p);
      return network;
    }
  }
  return InvalidInput("--protocol '{}' is not known; allowed: auto, raw, ll, ll128, simple",
                      options.protocol);
}

absl::StatusOr<CollectiveOp> ParseOperation(const std::string& text) {
  const CollectiveOp op = ParseCollectiveOp(text);
  if (op != CollectiveOp::kUnknown) return op;
  return InvalidInput(
      "'{}' is not a collective; try all_reduce, all_gather, reduce_scatter, "
      "all_to_all, broadcast, reduce, gather, scatter, barrier or send_recv",
      text);
}

// Send/recv runs point to point, with limits of its own: only on request.
absl::StatusOr<std::vector<StudyTable>> MeasuredTables(const CollectiveOptions& options) {
  FORETRACE_ASSIGN_OR_RETURN(auto rows, ReadMeasuredCollectives(options.measured));
  FORETRACE_ASSIGN_OR_RETURN(const Bytes min_bytes, SizeOption("--min-bytes", options.min_bytes));
  CollectiveOp only = CollectiveOp::kUnknown;
  if (!options.op.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(only, ParseOperation(options.op));
  }
  std::erase_if(rows, [&](const MeasuredCollective& row) {
    return only == CollectiveOp::kUnknown ? row.op == CollectiveOp::kSendRecv : row.op != only;
  });
  std::vector<StudyTable> tables =
      MakeTables(rows, min_bytes, options.hold_out == "sizes" ? HoldOut::kSizes : HoldOut::kTables);
  if (tables.empty()) {
    return InvalidInput("{}: no {} of {} bytes or more", options.measured,
                        options.op.empty() ? "collective" : options.op, min_bytes.count());
  }
  return tables;
}

absl::StatusOr<NetworkTier> ParseTier(const CollectiveOptions& options) {
  if (options.network.empty()) {
    return options.measured.empty() ? NetworkTier::kFluid : NetworkTier::kFitted;
  }
  const NetworkTier tier = ParseNetworkTier(options.network);
  if (tier != NetworkTier::kCount) return tier;
  return InvalidInput("--network '{}' is not known; allowed: fitted, fluid, simgrid",
                      options.network);
}

absl::Status CompareWithMeasured(const CollectiveOptions& options, PlatformSpec platform,
                                 const NetworkOptions& network, const CommandContext& context) {
  FORETRACE_ASSIGN_OR_RETURN(const NetworkTier tier, ParseTier(options));
  FORETRACE_ASSIGN_OR_RETURN(std::vector<StudyTable> tables, MeasuredTables(options));
  const bool fit = options.fit || options.fit_launch;
  const StudyProgress progress = [&context](std::string_view what, int64_t done, int64_t total) {
    context.console->Progress(what, done, total);
    return !context.stop.stop_requested();
  };
  if (fit) {
    absl::StatusOr<PlatformSpec> fitted =
        FitLinks(std::move(platform), network, tables,
                 {.links = options.fit, .launch = options.fit_launch}, progress);
    if (!fitted.ok()) return InFile(options.measured, fitted.status());
    platform = *std::move(fitted);
  }
  FORETRACE_RETURN_IF_ERROR(
      InFile(options.measured, PredictTables(platform, tier, network, tables, progress)));
  const PlatformSpec* fitted = fit ? &platform : nullptr;
  const auto json = [&] { return StudyJson(fitted, tier, tables); };
  FORETRACE_RETURN_IF_ERROR(context.WriteAnswer("collective", json));
  if (options.json) return context.console->PrintJson("collective", json());
  return context.console->Print(StudyText(fitted, tables, context.console->style()));
}

// Whether --chunks matters.
bool TakesChunks(Algorithm algorithm, CollectiveOp op) {
  const bool rooted = op == CollectiveOp::kBroadcast || op == CollectiveOp::kReduce;
  return algorithm == Algorithm::kDoubleBinaryTree || algorithm == Algorithm::kInSwitch ||
         algorithm == Algorithm::kHierarchical || (rooted && algorithm == Algorithm::kRing);
}

// What is asked of the platform.
absl::StatusOr<CollectiveQuery> QueryOf(const CollectiveOptions& options,
                                        const NetworkOptions& network, const Topology& topology) {
  CollectiveQuery query;
  FORETRACE_ASSIGN_OR_RETURN(query.op,
                             ParseOperation(options.op.empty() ? "all_reduce" : options.op));
  FORETRACE_ASSIGN_OR_RETURN(query.tier, ParseTier(options));
  query.options = network;
  const int32_t ranks = options.ranks == 0 ? topology.rank_count() : options.ranks;
  if (ranks > topology.rank_count()) {
    return InvalidInput("--ranks {}: platform '{}' ({}) has {} devices for ranks", ranks,
                        topology.spec().name, options.topology, topology.rank_count());
  }
  query.members.resize(static_cast<size_t>(ranks));
  std::iota(query.members.begin(), query.members.end(), 0);
  if (query.op == CollectiveOp::kBarrier) {
    if (options.bytes == kDefaultBytes || options.bytes == "0") return query;
    return InvalidInput("--bytes: a barrier moves no data; leave it out");
  }
  if (options.bytes.find(',') != std::string::npos) {
    return InvalidInput(
        "--bytes '{}': give one size (64M), or first:last, doubling (1M:1G); foretrace sweep "
        "collective --over bytes={} takes a list",
        options.bytes, options.bytes);
  }
  const size_t colon = options.bytes.find(':');
  FORETRACE_ASSIGN_OR_RETURN(query.first_bytes,
                             SizeOption("--bytes", options.bytes.substr(0, colon)));
  query.last_bytes = query.first_bytes;
  if (colon != std::string::npos) {
    FORETRACE_ASSIGN_OR_RETURN(query.last_bytes,
                               SizeOption("--bytes", options.bytes.substr(colon + 1)));
  }
  return query;
}

// The protocols of small messages are those of rings and trees.
absl::Status CheckProtocol(Protocol protocol, CollectiveOp op,
                           const std::vector<CollectiveRow>& rows) {
  const bool small = protocol == Protocol::kLL || protocol == Protocol::kLL128;
  const auto has = [](const CollectiveRow& row) {
    return row.algorithm == Algorithm::kRing || row.algorithm == Algorithm::kDoubleBinaryTree;
  };
  if (!small || rows.empty() || std::any_of(rows.begin(), rows.end(), has)) return absl::OkStatus();
  return InvalidInput(
      "--protocol {} would change nothing: {} by algorithm {} is modelled in Simple alone; rings "
      "and "
      "trees have other protocols",
      Name(protocol), Name(op), Name(rows.front().algorithm));
}

absl::Status Collective(const CollectiveOptions& options, const CommandContext& context) {
  FORETRACE_ASSIGN_OR_RETURN(PlatformSpec platform, FindPlatform(options.topology, options.ranks));
  FORETRACE_ASSIGN_OR_RETURN(const NetworkOptions network, ParseNetworkOptions(options));
  if (!options.hold_out.empty() && !options.fit && !options.fit_launch) {
    return InvalidInput("--hold-out needs --fit or --fit-launch, which it judges");
  }
  if (!options.measured.empty()) {
    return CompareWithMeasured(options, std::move(platform), network, context);
  }
  if (options.fit || options.fit_launch) {
    return InvalidInput("--fit needs --measured TABLE, the times to fit the links to");
  }
  if (options.min_bytes != kDefaultMinBytes) {
    return InvalidInput("--min-bytes needs --measured TABLE, of whose rows it leaves out some");
  }
  FORETRACE_ASSIGN_OR_RETURN(const Topology topology, Topology::Create(std::move(platform)));
  FORETRACE_ASSIGN_OR_RETURN(CollectiveQuery query, QueryOf(options, network, topology));
  if (options.links && (query.tier == NetworkTier::kFitted || query.op == CollectiveOp::kBarrier)) {
    return InvalidInput("--links follows messages: --network fluid or simgrid, and no barrier");
  }
  query.progress = [&context](int64_t done, int64_t total) {
    context.console->Progress("sizes", done, total);
    return !context.stop.stop_requested();
  };
  query.options.progress = [&context](int64_t done, int64_t total) {
    context.console->Progress("messages", done, total);
    return !context.stop.stop_requested();
  };
  if (query.members.size() == 1 && network.algorithm != Algorithm::kAuto) {
    return InvalidInput("--algorithm {} would change nothing: one rank alone moves no data",
                        options.algorithm);
  }
  FORETRACE_ASSIGN_OR_RETURN(const auto rows, CollectiveTable(topology, query));
  if (options.chunks > 0 && !rows.empty() &&
      std::none_of(rows.begin(), rows.end(), [&](const CollectiveRow& row) {
        return TakesChunks(row.algorithm, query.op);
      })) {
    return InvalidInput(
        "--chunks: {} by algorithm {} has none; trees, chains from or to a root, reduction in the "
        "switch and hierarchical algorithms have",
        Name(query.op), Name(rows.front().algorithm));
  }
  FORETRACE_RETURN_IF_ERROR(CheckProtocol(network.protocol, query.op, rows));
  std::vector<LinkKindLoad> links;
  if (options.links && !rows.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(links, LinkLoadsOf(topology, query, rows.back()));
  }
  const auto json = [&] { return CollectiveJson(rows, links); };
  FORETRACE_RETURN_IF_ERROR(context.WriteAnswer("collective", json));
  FORETRACE_RETURN_IF_ERROR(options.json ? context.console->PrintJson("collective", json())
                                         : context.console->Print(CollectiveText(
                                               query.op, rows, links, context.console->style())));
  if (!context.stop.stop_requested()) return absl::OkStatus();
  return absl::CancelledError(fmt::format("interrupted after {} sizes", rows.size()));
}

}  // namespace

void AddCollectiveCommand(CLI::App& app, CommandContext& context) {
  auto o = std::make_shared<CollectiveOptions>();
  CLI::App* command = app.add_subcommand(
      "collective", "times and bus bandwidths of a collective on a platform, over sizes");
  command->add_option("operation", o->op, "all_reduce (default), all_gather, all_to_all, ...");
  command
      ->add_option("--topology,--platform", o->topology,
                   "platform file, or the name of one in topologies/")
      ->required();
  auto* ranks = command->add_option("--ranks", o->ranks, "number of ranks (default: all devices)")
                    ->check(CLI::Range(1, 1 << 21));
  auto* bytes = command->add_option("--bytes", o->bytes, "size, or first:last, doubling (1M:1G)");
  command->add_option("--algorithm", o->algorithm, "auto, ring, tree, direct, hierarchical, ...");
  command->add_option("--protocol", o->protocol, "auto, raw, ll, ll128, simple");
  command
      ->add_option("--chunks", o->chunks,
                   "1 over the share that fills trees and chains hop by hop before the rest "
                   "streams; chunks of hierarchical algorithms (0: chosen)")
      ->check(CLI::Range(0, 1 << 16));
  command->add_option("--network", o->network,
                      "fitted, fluid or simgrid (default: fluid; with --measured: fitted)");
  auto* links = command->add_flag(
      "--links", o->links, "also what the largest size puts on the links, and how busy they are");
  command->add_flag("--json", o->json, "one JSON document on standard output");
  command->add_option("--measured", o->measured, "compare with a table of measured collectives")
      ->excludes(ranks)
      ->excludes(bytes)
      ->excludes(links);
  command->add_flag(
      "--fit", o->fit,
      "with --measured: first fit links and channels to half of its tables, or sizes");
  command->add_flag(
      "--fit-launch", o->fit_launch,
      "with --measured: first fit the start-up cost of the tables' harness to half of "
      "them");
  command
      ->add_option("--hold-out", o->hold_out,
                   "with --fit: take every second of the tables (default), or of the sizes, to "
                   "judge the fit")
      ->check(CLI::IsMember({"tables", "sizes"}));
  command->add_option("--min-bytes", o->min_bytes, "with --measured: leave out smaller rows");
  command->footer(Examples({
      "foretrace collective all_reduce --ranks 8 --bytes 1M:1G --topology topologies/dgx-a100.yaml",
      "foretrace collective all_to_all --topology topologies/tpu-v4-512.yaml --network fluid "
      "--json",
      "foretrace collective all_to_all --ranks 256 --bytes 1G --topology fat-tree-16384 --links",
      "foretrace collective --measured table.csv --fit --topology topologies/dgx-h100.yaml",
  }));
  command->callback(
      [o, &context] { context.run = [o, &context] { return Collective(*o, context); }; });
}

}  // namespace foretrace
