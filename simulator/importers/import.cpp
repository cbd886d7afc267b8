#include "simulator/importers/import.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>

#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/model_text.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/timeline_mark.h"
#include "simulator/importers/input_paths.h"
#include "simulator/importers/io/input_file.h"
#include "simulator/importers/linker/linker.h"
#include "simulator/importers/process_group_table.h"
#include "simulator/importers/process_groups.h"
#include "simulator/importers/rank_names.h"
#include "simulator/trace/exchange_group.h"

namespace foretrace {
namespace {

using Importers = std::vector<std::unique_ptr<Importer>>;

struct Document {
  std::string name;
  ImportedFile file;
  // A complete trace is built as soon as it is read, which takes less memory than to hold all
  // ranks as they are while being read.
  std::optional<RankTraceBuilder::Result> built;
  const InputPath* input = nullptr;  // the file or archive that it is from
};

// What one path holds: traces, and tables of process groups that lie beside them.
struct InputContent {
  std::vector<Document> documents;
  std::vector<ProcessGroup> groups;
};

// The importer for a document of the file `path`, or null for a side file that may be passed over.
absl::StatusOr<const Importer*> FindImporter(const Importers& importers, ByteSource& document,
                                             const std::string& path, bool must_be_trace) {
  FORETRACE_ASSIGN_OR_RETURN(const std::string_view prefix, document.Peek(kModelTextBytes));
  if (prefix.starts_with(kTimelineMark) || prefix.starts_with(kPerfettoTimelineMark)) {
    if (!must_be_trace) return nullptr;
    return InvalidInput("{}: a timeline that foretrace wrote, not a recording", document.name());
  }
  // What lies beside traces is passed over in archives as in folders, whatever it looks like.
  if (!must_be_trace && IsSideFile(BaseName(document.name()))) return nullptr;
  for (const auto& importer : importers) {
    if (importer->Sniff(prefix, BaseName(document.name()))) return importer.get();
  }
  // Other JSON, whole: what is cut off may have been a trace.
  if (!must_be_trace && IsSmallJson(prefix)) return nullptr;
  if (StatesModelType(prefix)) {
    return InvalidInput(
        "{}: sizes of a model, not a recording; search, generate and serve predict it",
        document.name());
  }
  std::string known;
  for (const auto& importer : importers) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", importer->name());
  }
  return InvalidInput("{}: not a trace of a known format ({}), or damaged at its start{}",
                      document.name(), known,
                      must_be_trace ? std::string()
                                    : fmt::format("; in a folder, --ignore '{}' passes it over",
                                                  std::filesystem::path(path).filename().string()));
}

// "traces.tar:run1/rank0.json" lies in "traces.tar:run1".
std::string_view FolderOf(std::string_view name) {
  name.remove_suffix(BaseName(name).size());
  if (!name.empty()) name.remove_suffix(1);
  return name;
}

// Whether documents lie in several folders, whose numbers may then be ranks. That of a folder which
// holds them all is a date or the like.
bool InSeveralFolders(const std::vector<Document>& documents) {
  return std::any_of(documents.begin(), documents.end(), [&](const Document& d) {
    return FolderOf(d.name) != FolderOf(documents.front().name);
  });
}

// How many documents of a role each folder holds: the number of a folder that holds several is the
// rank of none.
using FolderCounts = std::map<std::pair<std::string_view, TraceRole>, int>;

FolderCounts CountByFolder(const std::vector<Document>& documents) {
  FolderCounts counts;
  for (const Document& d : documents) ++counts[{FolderOf(d.name), d.file.role}];
  return counts;
}

// The rank a document declares or is named after; the folder counts where the file has no number
// and no other of its role beside it.
std::optional<int32_t> RankOf(const Document& document, const FolderCounts& folders,
                              bool several_folders) {
  if (document.file.rank) return document.file.rank;
  // The number of a pipe ("/dev/fd/63") is the shell's.
  if (document.name.starts_with("/dev/") || document.name.starts_with("/proc/")) {
    return std::nullopt;
  }
  if (const auto rank = RankFromFileName(BaseName(document.name))) return rank;
  const std::string_view path = FolderOf(document.name);
  if (folders.at({path, document.file.role}) > 1) return std::nullopt;
  const std::string_view folder = BaseName(path);
  return several_folders ? RankFromFileName(folder) : NumberAfterRankWord(LowerCase(folder));
}

absl::Status ImportFile(const Importers& importers, const InputPath& input,
                        const ImportOptions& options, InputContent& out) {
  FORETRACE_ASSIGN_OR_RETURN(auto file, input.Open(options.limits));
  const bool must_be_trace = input.named && !file->is_archive();
  while (true) {
    FORETRACE_ASSIGN_OR_RETURN(ByteSource * document, file->NextDocument());
    if (document == nullptr) return absl::OkStatus();
    const std::string name = document->name();
    FORETRACE_ASSIGN_OR_RETURN(const std::string_view prefix, document->Peek(kModelTextBytes));
    if (!must_be_trace && LooksLikeProcessGroupTable(prefix)) {
      FORETRACE_ASSIGN_OR_RETURN(const std::vector<ProcessGroup> groups,
                                 ReadProcessGroupTable(*document));
      out.groups.insert(out.groups.end(), groups.begin(), groups.end());
      continue;
    }
    FORETRACE_ASSIGN_OR_RETURN(const Importer* importer,
                               FindImporter(importers, *document, input.path, must_be_trace));
    if (importer == nullptr) continue;
    FORETRACE_ASSIGN_OR_RETURN(ImportedFile imported, importer->Import(*document, name, options));
    out.documents.push_back({name, std::move(imported), std::nullopt, &input});
    Document& added = out.documents.back();
    if (added.file.role == TraceRole::kComplete) {
      FORETRACE_ASSIGN_OR_RETURN(added.built, added.file.builder->Build(added.file.build_options));
      added.file.builder.reset();
    }
  }
}

// Looks at the first bytes of each file before any is read, so that one that is no trace is refused
// at once, however large the others are; members of archives, and pipes, of which what is read is
// lost, are seen when their turn comes. Whether any holds, or may hold, an execution trace to link.
absl::StatusOr<bool> MayHoldGraphs(const Importers& importers, const std::vector<InputPath>& files,
                                   const ImportOptions& options) {
  bool graphs = false;
  for (const InputPath& input : files) {
    if (options.stop.stop_requested()) return absl::CancelledError("interrupted");
    std::error_code error;
    if (!std::filesystem::is_regular_file(input.path, error)) {
      graphs = true;
      continue;
    }
    FORETRACE_ASSIGN_OR_RETURN(auto file, input.Open(options.limits));
    if (file->is_archive()) {
      graphs = true;
      continue;
    }
    if (files.size() == 1) return false;  // nothing to link with
    FORETRACE_ASSIGN_OR_RETURN(ByteSource * document, file->NextDocument());
    FORETRACE_ASSIGN_OR_RETURN(const std::string_view prefix, document->Peek(kModelTextBytes));
    if (!input.named && LooksLikeProcessGroupTable(prefix)) continue;
    FORETRACE_ASSIGN_OR_RETURN(const Importer* importer,
                               FindImporter(importers, *document, input.path, input.named));
    graphs = graphs || (importer != nullptr && importer->role() == TraceRole::kGraph);
  }
  return graphs;
}

// Runs `task` for 0 .. count-1 on up to `jobs` threads and returns the error of the lowest index,
// so that the message does not depend on timing.
absl::Status RunAll(int jobs, size_t count, const std::function<absl::Status(size_t)>& task) {
  std::vector<absl::Status> results(count);
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  const auto work = [&] {
    while (!failed) {
      const size_t i = next++;
      if (i >= count) return;
      results[i] = task(i);
      if (!results[i].ok()) failed = true;
    }
  };
  const size_t helpers = std::min<size_t>(static_cast<size_t>(std::max(jobs, 1)), count);
  std::vector<std::jthread> threads;
  for (size_t i = 1; i < helpers; ++i) threads.emplace_back(work);
  work();
  threads.clear();
  for (absl::Status& result : results) {
    if (!result.ok()) return std::move(result);
  }
  return absl::OkStatus();
}

// What there is for one rank: positions in the list of documents.
struct RankFiles {
  std::optional<size_t> complete, profile, graph;
};

std::string_view RoleName(TraceRole role) {
  return role == TraceRole::kProfile ? "profiles"
         : role == TraceRole::kGraph ? "execution traces"
                                     : "traces";
}

absl::StatusOr<std::map<int32_t, RankFiles>> AssignRanks(const std::vector<Document>& documents) {
  std::map<int32_t, RankFiles> ranks;
  const FolderCounts folders = CountByFolder(documents);
  const bool several_folders = InSeveralFolders(documents);
  for (size_t i = 0; i < documents.size(); ++i) {
    const Document& document = documents[i];
    std::optional<int32_t> rank = RankOf(document, folders, several_folders);
    if (!rank) {
      const auto same_role =
          std::count_if(documents.begin(), documents.end(),
                        [&](const Document& d) { return d.file.role == document.file.role; });
      if (same_role > 1) {
        return InvalidInput(
            "{}: cannot tell its rank: the file does not say and its name has no "
            "number; name it like rank3.json",
            document.name);
      }
      rank = 0;
    }
    RankFiles& files = ranks[*rank];
    std::optional<size_t>& slot = document.file.role == TraceRole::kProfile ? files.profile
                                  : document.file.role == TraceRole::kGraph ? files.graph
                                                                            : files.complete;
    const std::optional<size_t> other = slot ? slot
                                        : document.file.role == TraceRole::kComplete
                                            ? (files.profile ? files.profile : files.graph)
                                            : files.complete;
    if (other) {
      if (documents[*other].name == document.name) {
        return InvalidInput("{}: {}", document.name,
                            documents[*other].input == document.input
                                ? "twice in the archive; remove one"
                                : "given twice; give it once");
      }
      const std::string_view folder = FolderOf(documents[*other].name);
      return InvalidInput(
          "two {} for rank {}: {} and {}; {}",
          slot ? RoleName(document.file.role) : "kinds of trace", *rank, documents[*other].name,
          document.name,
          folder == FolderOf(document.name)
              ? "remove one of them"
              : fmt::format("give one job at a time, such as {}; of one job whose "
                            "files are numbered by node, name them by rank of the job",
                            folder));
    }
    slot = i;
  }
  return ranks;
}

absl::StatusOr<RankTraceBuilder::Result> BuildRank(std::vector<Document>& documents, int32_t rank,
                                                   const RankFiles& files) {
  const size_t main = files.complete  ? *files.complete
                      : files.profile ? *files.profile
                                      : *files.graph;
  if (documents[main].built) {
    RankTraceBuilder::SetRank(rank, documents[main].built->trace);
    return *std::move(documents[main].built);
  }
  ImportedFile& file = documents[main].file;
  file.builder->info().rank = rank;
  if (files.profile && files.graph) {
    FORETRACE_RETURN_IF_ERROR(LinkGraphIntoProfile(std::move(documents[*files.graph].file), file));
  }
  absl::StatusOr<RankTraceBuilder::Result> result = file.builder->Build(file.build_options);
  file.builder.reset();
  return result;
}

bool Communicates(const RankTrace& trace) {
  for (uint32_t n = 0; n < trace.size(); ++n) {
    const NodeKind kind = trace.kind(NodeIndex(n));
    if (kind == NodeKind::kCollective || kind == NodeKind::kSend || kind == NodeKind::kRecv) {
      return true;
    }
  }
  return false;
}

// The last number of a name ("model__1016001.json") need not be a rank. Where it is the only trace
// and communicates with none, nothing else says that there are others, and it is of rank 0.
bool NumberIsNoRank(const std::vector<Document>& documents, const RankTrace& trace) {
  const auto says_rank = [](const Document& d) {
    return d.file.rank || NumberAfterRankWord(LowerCase(BaseName(d.name))) ||
           NumberAfterRankWord(LowerCase(BaseName(FolderOf(d.name))));
  };
  return std::ranges::none_of(documents, says_rank) && trace.info().world_size <= 1 &&
         !Communicates(trace);
}

// Groups from tables beside the traces: those that a communication names and no trace declares.
// Their members may be ranks without a trace, so they say how large the job is.
absl::Status AddSideGroups(std::vector<ProcessGroup> groups, TraceStore& store) {
  for (const ProcessGroup& group : groups) {
    for (const int32_t rank : group.ranks) store.RaiseWorldSize(rank + 1);
  }
  std::erase_if(groups, [&store](const ProcessGroup& group) {
    return store.process_groups().contains(group.name) || !store.strings().Find(group.name).valid();
  });
  return store.SetProcessGroups(std::move(groups));
}

}  // namespace

absl::StatusOr<TraceStore> ImportTraces(const std::vector<std::string>& paths,
                                        const ImportOptions& options) {
  const Importers importers = AllImporters();
  FORETRACE_ASSIGN_OR_RETURN(const std::vector<InputPath> files,
                             ExpandPaths(paths, options.ignore));
  std::vector<ProcessGroup> user_groups;
  if (!options.process_groups_file.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(user_groups, LoadProcessGroups(options.process_groups_file));
  }
  ImportOptions file_options = options;
  const OccupancyTable shipped;
  if (options.occupancy == nullptr) file_options.occupancy = &shipped;
  FORETRACE_ASSIGN_OR_RETURN(file_options.keep_link_keys, MayHoldGraphs(importers, files, options));

  std::vector<InputContent> per_file(files.size());
  std::mutex progress_mutex;
  int done = 0;
  FORETRACE_RETURN_IF_ERROR(RunAll(options.jobs, files.size(), [&](size_t i) {
    if (options.stop.stop_requested()) return absl::CancelledError("interrupted");
    absl::Status status = ImportFile(importers, files[i], file_options, per_file[i]);
    if (options.progress) {
      const std::lock_guard lock(progress_mutex);
      options.progress(++done, static_cast<int>(files.size()));
    }
    return status;
  }));
  std::vector<Document> documents;
  std::vector<ProcessGroup> side_groups;
  for (InputContent& content : per_file) {
    std::move(content.documents.begin(), content.documents.end(), std::back_inserter(documents));
    std::move(content.groups.begin(), content.groups.end(), std::back_inserter(side_groups));
  }
  if (documents.empty()) return InvalidInput("{}: no traces found", paths[0]);

  FORETRACE_ASSIGN_OR_RETURN(const auto ranks, AssignRanks(documents));
  std::vector<std::pair<int32_t, RankFiles>> work(ranks.begin(), ranks.end());
  std::vector<std::optional<RankTraceBuilder::Result>> built(work.size());
  FORETRACE_RETURN_IF_ERROR(RunAll(options.jobs, work.size(), [&](size_t i) {
    auto result = BuildRank(documents, work[i].first, work[i].second);
    if (!result.ok()) return result.status();
    built[i] = *std::move(result);
    return absl::OkStatus();
  }));
  if (built.size() == 1 && NumberIsNoRank(documents, built.front()->trace)) {
    RankTraceBuilder::SetRank(0, built.front()->trace);
  }
  Diagnostics diagnostics;
  std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> traces;
  for (auto& result : built) {
    diagnostics.Merge(result->diagnostics);
    traces.emplace_back(std::move(result->trace), std::move(result->strings));
  }
  FORETRACE_ASSIGN_OR_RETURN(TraceStore store,
                             TraceStore::Assemble(std::move(traces), std::move(diagnostics)));
  FORETRACE_RETURN_IF_ERROR(AddSideGroups(std::move(side_groups), store));
  FORETRACE_RETURN_IF_ERROR(
      AddUserGroups(options.process_groups_file, std::move(user_groups), store));
  if (options.strict) FORETRACE_RETURN_IF_ERROR(store.diagnostics().AsStrictError());
  return store;
}

}  // namespace foretrace
