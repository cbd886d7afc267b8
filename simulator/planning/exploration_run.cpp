#include "simulator/planning/exploration_run.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>

#include "simulator/base/atomic_file.h"
#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

using dataflow::Point;
using dataflow::PointResult;
using dataflow::Space;
using Known = std::vector<std::optional<PointResult>>;

// FNV-1a; tells spaces apart, nothing more.
uint64_t Fingerprint(std::string_view text) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

// "index | result | checksum of both".
std::string LineOf(size_t index, const PointResult& result) {
  const std::string content = fmt::format("{} | {}", index, Encode(result));
  return fmt::format("{} | {:016x}\n", content, Fingerprint(content));
}

bool ReadLine(std::string_view line, Known& known) {
  constexpr std::string_view kBar = " | ";
  const size_t first = line.find(kBar), last = line.rfind(kBar);
  if (first == std::string_view::npos || first == last) return false;
  if (line.substr(last + kBar.size()) != fmt::format("{:016x}", Fingerprint(line.substr(0, last))))
    return false;
  char* end = nullptr;
  const std::string index(line.substr(0, first));
  const unsigned long long at = std::strtoull(index.c_str(), &end, 10);
  if (index.empty() || *end != 0 || at >= known.size()) return false;
  PointResult result;
  if (!Decode(line.substr(first + kBar.size(), last - first - kBar.size()), result)) return false;
  known[at] = std::move(result);
  return true;
}

class Journal {
 public:
  Journal() = default;
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  ~Journal() {
    if (out_ != nullptr) std::fclose(out_);
  }

  // Fills `known`; rewrites the file without the half line that may be at its end.
  absl::Status Open(const std::string& file, const std::string& question, Known& known) {
    file_ = file;
    const std::string header =
        fmt::format("foretrace exploration journal 1 {:016x}", Fingerprint(question));
    std::error_code error;
    if (std::filesystem::exists(file, error)) {
      FORETRACE_ASSIGN_OR_RETURN(const std::string text,
                                 ReadBinaryFile(file, int64_t{4} * kMaxTableBytes));
      const std::vector<std::string_view> lines = SplitLines(text);
      if (!lines.empty() && lines[0] != header) {
        return InvalidInput("{}: the journal of another space or version; give another --journal",
                            file);
      }
      for (size_t i = 1; i < lines.size(); ++i) {
        if (!ReadLine(lines[i], known) && (i + 1 < lines.size() || text.back() == '\n')) {
          return InvalidInput("{}:{}: damaged; remove the line, or the file to start anew", file,
                              i + 1);
        }
      }
    }
    std::string all = header + "\n";
    for (size_t i = 0; i < known.size(); ++i) {
      if (known[i]) all += LineOf(i, *known[i]);
    }
    FORETRACE_RETURN_IF_ERROR(WriteFile(file, all));
    out_ = std::fopen(file.c_str(), "ab");
    if (out_ == nullptr)
      return InvalidInput("{}: cannot write the journal: {}", file, std::strerror(errno));
    return absl::OkStatus();
  }

  absl::Status Append(const std::vector<size_t>& indices, const Known& known) {
    if (out_ == nullptr) return absl::OkStatus();
    bool ok = true;
    for (const size_t i : indices) {
      const std::string line = LineOf(i, *known[i]);
      ok = ok && std::fwrite(line.data(), 1, line.size(), out_) == line.size();
    }
    if (ok && std::fflush(out_) == 0) return absl::OkStatus();
    return InvalidInput("{}: cannot write the journal: {}", file_, std::strerror(errno));
  }

 private:
  std::string file_;
  std::FILE* out_ = nullptr;
};

absl::StatusOr<std::vector<PointResult>> OnThreads(const Space& space,
                                                   const std::vector<Point>& points,
                                                   const std::vector<size_t>& batch, int jobs) {
  std::vector<absl::StatusOr<PointResult>> results(batch.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < batch.size(); i = next++)
      results[i] = EvaluatePoint(space, points[batch[i]]);
  };
  std::vector<std::thread> threads;
  const size_t count = std::min(batch.size(), static_cast<size_t>(std::max(jobs, 1)));
  for (size_t i = 1; i < count; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  std::vector<PointResult> out;
  for (auto& result : results) {
    if (!result.ok()) return result.status();
    out.push_back(*std::move(result));
  }
  return out;
}

// Each process its share of the batch; all get all results, in its order.
absl::StatusOr<std::vector<PointResult>> OnProcesses(const Space& space,
                                                     const std::vector<Point>& points,
                                                     const std::vector<size_t>& batch, int jobs,
                                                     const Processes& processes) {
  if (processes.size() == 1) return OnThreads(space, points, batch, jobs);
  const auto size = static_cast<size_t>(processes.size());
  std::vector<size_t> share;
  for (auto i = static_cast<size_t>(processes.rank()); i < batch.size(); i += size)
    share.push_back(batch[i]);
  const auto own = OnThreads(space, points, share, jobs);
  std::string text;
  if (own.ok()) {
    for (const PointResult& r : *own) text += Encode(r) + "\n";
  } else {
    text = "error " + std::string(own.status().message()) + "\n";
  }
  std::vector<PointResult> out(batch.size());
  const std::vector<std::string> all = processes.Gather(std::move(text));
  for (size_t p = 0; p < size; ++p) {
    std::istringstream in(all[p]);
    std::string line;
    for (size_t i = p; std::getline(in, line); i += size) {
      if (line.starts_with("error ")) return InvalidInput("{}", line.substr(6));
      if (i >= out.size() || !Decode(line, out[i]))
        return absl::InternalError("a process answered what it was not asked");
    }
  }
  return out;
}

// What process 0 read of its journal, to the others.
absl::Status Share(const Processes& processes, Known& known) {
  std::string text;
  for (size_t i = 0; i < known.size() && processes.rank() == 0; ++i) {
    if (known[i]) text += LineOf(i, *known[i]);
  }
  text = processes.Broadcast(std::move(text));
  for (const std::string_view line : SplitLines(text)) {
    if (!line.empty() && !ReadLine(line, known))
      return absl::InternalError("a journal changed on its way");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<PointResult>> Explore(const Space& space,
                                                 const std::vector<Point>& points,
                                                 const ExplorationRun& run,
                                                 const Processes& processes,
                                                 const CommandContext& context) {
  Known known(points.size());
  Journal journal;
  if (!run.journal.empty()) {
    absl::Status opened;
    if (processes.rank() == 0) opened = journal.Open(run.journal, run.question, known);
    // All processes end where one does.
    const std::string problem =
        processes.Broadcast(opened.ok() ? std::string() : std::string(opened.message()));
    if (!problem.empty()) return InvalidInput("{}", problem);
    FORETRACE_RETURN_IF_ERROR(Share(processes, known));
  }
  const size_t most =
      static_cast<size_t>(std::max(run.jobs, 1)) * static_cast<size_t>(processes.size()) * 8;
  for (size_t next = 0; next < points.size();) {
    std::vector<size_t> batch;
    for (; next < points.size() && batch.size() < most; ++next) {
      if (!known[next]) batch.push_back(next);
    }
    FORETRACE_ASSIGN_OR_RETURN(std::vector<PointResult> results,
                               OnProcesses(space, points, batch, run.jobs, processes));
    for (size_t i = 0; i < batch.size(); ++i) known[batch[i]] = std::move(results[i]);
    FORETRACE_RETURN_IF_ERROR(journal.Append(batch, known));
    if (processes.rank() == 0) {
      context.console->Progress("points", static_cast<int64_t>(next),
                                static_cast<int64_t>(points.size()));
    }
    // Processes stop together, between two batches.
    if (processes.Any(context.stop.stop_requested()) && next < points.size()) {
      return absl::CancelledError(
          fmt::format("interrupted after {} of {} points", next, points.size()));
    }
  }
  std::vector<PointResult> out;
  for (auto& result : known) out.push_back(*std::move(result));
  return out;
}

}  // namespace foretrace
