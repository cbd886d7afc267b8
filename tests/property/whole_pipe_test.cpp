// Recordings that are wrong in some place go through the whole of predict without a crash, a hang
// or an error of many lines. FORETRACE_FUZZ_CASES says how many of each kind, FORETRACE_FUZZ_FIRST
// with which to begin, and FORETRACE_FUZZ_VERBOSE=1 prints the number of each before it runs.
#include "tests/support/whole_pipe.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <random>

#include "simulator/importers/io/input_file.h"
#include "simulator/replay/run.h"
#include "tests/support/real_data.h"

namespace foretrace {
namespace {

using Random = std::mt19937_64;

size_t Below(Random& random, size_t n) { return n == 0 ? 0 : random() % n; }

int FromEnvironment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

// --- a job of two ranks that has something of everything ----------------------------------------

class KinetoText {
 public:
  explicit KinetoText(int rank) : rank_(rank) {}

  void Event(std::string_view category, std::string_view name, int thread, double start,
             double duration, std::string_view arguments) {
    events_ += fmt::format(
        R"({}{{"ph":"X","cat":"{}","name":"{}","pid":1,"tid":{},"ts":{},"dur":{},"args":{{{}}}}})",
        events_.empty() ? "" : ",\n", category, name, thread, start, duration, arguments);
  }
  void Call(std::string_view name, double start, double duration) {
    Event("cuda_runtime", name, 9, start, duration,
          fmt::format(R"("correlation":{})", ++correlation_));
  }
  // Work of the last call.
  void Device(std::string_view category, std::string_view name, int stream, double start,
              double duration, std::string_view more = "") {
    Event(category, name, stream, start, duration,
          fmt::format(R"("stream":{},"device":0,"correlation":{},"blocks per SM":1.5{}{})", stream,
                      correlation_, more.empty() ? "" : ",", more));
  }
  std::string Finish() const {
    return fmt::format(
               R"({{"schemaVersion":1,"distributedInfo":{{"backend":"nccl","rank":{},"world_size":2,)"
               R"("pg_config":[{{"pg_name":"0","pg_size":2,"ranks":[0,1]}}]}},"deviceProperties":)"
               R"([{{"id":0,"name":"NVIDIA A100-SXM4-80GB","numSms":108}}],"traceEvents":[)",
               rank_) +
           events_ + "]}";
  }

 private:
  int rank_;
  int correlation_ = 100;
  std::string events_;
};

void AddStep(KinetoText& text, int rank, int step) {
  const double t = 1000.0 * step;
  const std::string nccl = fmt::format(
      R"("Collective name":"allreduce","In msg nelems":1024,"Out msg nelems":1024,"Group size":2,)"
      R"("dtype":"Float","Process Group Name":"0","Process Group Ranks":"[0, 1]","Seq":{})",
      step);
  const std::string exchange = fmt::format(
      R"("Collective name":"{}","In msg nelems":64,"Out msg nelems":64,"Group size":2,)"
      R"("dtype":"Float","Process Group Name":"0","Process Group Ranks":"[0, 1]","{} Rank":{})",
      rank == 0 ? "send" : "recv", rank == 0 ? "Dst" : "Src", 1 - rank);
  text.Event("user_annotation", fmt::format("ProfilerStep#{}", step), 9, t, 900, "");
  text.Event("cpu_op", "aten::mm", 9, t + 10, 20,
             R"("Input Dims":[[8,8],[8,8]],"Input type":["float","float"])");
  text.Call("cudaLaunchKernel", t + 12, 5);
  text.Device("kernel", "sgemm", 7, t + 20, 80);
  text.Call("cudaMemcpyAsync", t + 32, 5);
  text.Device("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 8, t + 40, 60, R"("bytes":100000)");
  text.Call("cudaEventRecord", t + 38, 1);
  text.Call("cudaStreamWaitEvent", t + 40, 1);
  text.Event("cpu_op", "c10d::allreduce_", 9, t + 42, 20, "");
  text.Event("cpu_op", "record_param_comms", 9, t + 43, 18, nccl);
  text.Call("cudaLaunchKernelExC", t + 45, 6);
  text.Device("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20, t + 105, 50, nccl);
  text.Call("cudaStreamWaitEvent", t + 64, 1);
  text.Call("cudaLaunchKernel", t + 66, 5);
  text.Device("kernel", "add", 7, t + 157, 30);
  text.Call("cudaLaunchKernelExC", t + 72, 6);
  text.Device("kernel", "ncclDevKernel_SendRecv", 21, t + 190, 25, exchange);
  text.Call("cudaGraphLaunch", t + 80, 9);
  text.Device("kernel", "first", 7, t + 220, 20);
  text.Device("kernel", "side", 22, t + 242, 50);
  text.Device("kernel", "last", 7, t + 294, 20);
  text.Call("cudaMemcpyAsync", t + 92, 230);
  text.Device("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 7, t + 316, 2, R"("bytes":4)");
  text.Call("cudaDeviceSynchronize", t + 330, 4);
}

std::vector<std::string> SmallJob() {
  std::vector<std::string> files;
  for (int rank = 0; rank < 2; ++rank) {
    KinetoText text(rank);
    for (int step = 0; step < 3; ++step) AddStep(text, rank, step);
    files.push_back(text.Finish());
  }
  return files;
}

// --- mutations of JSON text ---------------------------------------------------------------------

struct Piece {
  size_t begin = 0;
  size_t end = 0;
};

// Numbers, or strings with their quotes.
std::vector<Piece> Pieces(std::string_view text, bool numbers) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') {
      const size_t begin = i++;
      while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
      if (!numbers && i < text.size()) pieces.push_back({begin, i + 1});
    } else if (numbers && (text[i] == '-' || (text[i] >= '0' && text[i] <= '9'))) {
      const size_t begin = i;
      while (i < text.size() && std::string_view("+-.eE0123456789").find(text[i]) != text.npos) ++i;
      pieces.push_back({begin, i});
    }
  }
  return pieces;
}

// Lines of events, as KinetoText writes them; of other texts, lines.
std::vector<Piece> Lines(std::string_view text) {
  std::vector<Piece> lines;
  for (size_t i = 0; i < text.size();) {
    const size_t end = std::min(text.find('\n', i), text.size() - 1) + 1;
    lines.push_back({i, end});
    i = end;
  }
  return lines;
}

std::string Number(Random& random, std::string_view text, const std::vector<Piece>& numbers) {
  static constexpr std::string_view kEdges[] = {"0",
                                                "-1",
                                                "1",
                                                "2147483647",
                                                "2147483646",
                                                "4294967296",
                                                "1e30",
                                                "-1e30",
                                                "9223372036854775807",
                                                "1e-30",
                                                "0.5",
                                                "-2147483648",
                                                "2.3e12",
                                                "-2.3e12",
                                                "64",
                                                "2000000",
                                                "1e9",
                                                "99999999",
                                                "9007199254740993",
                                                "7"};
  if (Below(random, 2) == 0) return std::string(kEdges[Below(random, std::size(kEdges))]);
  const Piece& other = numbers[Below(random, numbers.size())];
  return std::string(text.substr(other.begin, other.end - other.begin));
}

void Mutate(Random& random, std::string& text) {
  const size_t kind = Below(random, 10);
  const bool number = kind < 5;
  if (kind < 8) {
    const std::vector<Piece> pieces = Pieces(text, number);
    if (pieces.empty()) return;
    const Piece at = pieces[Below(random, pieces.size())];
    const Piece& other = pieces[Below(random, pieces.size())];
    const std::string with =
        number ? Number(random, text, pieces) : text.substr(other.begin, other.end - other.begin);
    text.replace(at.begin, at.end - at.begin, with);
    return;
  }
  const std::vector<Piece> lines = Lines(text);
  if (lines.size() < 4) return;
  // Neither the first nor the last, which hold more than an event.
  const Piece at = lines[1 + Below(random, lines.size() - 2)];
  if (kind == 8) {
    text.erase(at.begin, at.end - at.begin);
  } else {
    text.insert(at.begin, text.substr(at.begin, at.end - at.begin));
  }
}

SimulationOptions RandomOptions(Random& random) {
  SimulationOptions options;
  options.allow_missing_ranks = Below(random, 4) > 0;
  static constexpr std::string_view kAbsent[] = {"as-recorded", "alike", "never-last"};
  options.absent = kAbsent[Below(random, 3)];
  if (Below(random, 4) == 0) options.what_if = {"kind=kernel:x1e6"};
  if (Below(random, 4) == 0) options.what_if.push_back("name=gemm:remove");
  if (Below(random, 8) == 0) options.semantics = "algorithm1";
  if (Below(random, 8) == 0) options.aligned_start = true;
  return options;
}

// How many cases ended in figures.
int RunCases(const Importer& importer, const std::vector<std::string>& files, int cases) {
  const int first = FromEnvironment("FORETRACE_FUZZ_FIRST", 0);
  cases = FromEnvironment("FORETRACE_FUZZ_CASES", cases);
  const bool verbose = FromEnvironment("FORETRACE_FUZZ_VERBOSE", 0) != 0;
  int predicted = 0;
  for (int n = first; n < first + cases; ++n) {
    if (verbose) fmt::print(stderr, "case {}\n", n);
    Random random(static_cast<uint64_t>(n));
    std::vector<std::string> mutated = files;
    for (size_t m = Below(random, 4) + 1; m > 0; --m) {
      Mutate(random, mutated[Below(random, mutated.size())]);
    }
    const auto before = std::chrono::steady_clock::now();
    predicted += RunWholePipe(importer, mutated, RandomOptions(random)).ok() ? 1 : 0;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - before;
    EXPECT_LT(took.count(), 20.0) << "case " << n;
  }
  return predicted;
}

TEST(WholePipe, SmallJobIsPredicted) {
  SimulationOptions options;
  const absl::Status status = RunWholePipe(*MakeKinetoImporter(), SmallJob(), options);
  EXPECT_TRUE(status.ok()) << status;
}

TEST(WholePipe, SmallJobWithMistakes) {
  // Most mistakes leave something to predict: else this would test error messages alone.
  EXPECT_GT(RunCases(*MakeKinetoImporter(), SmallJob(), 1000),
            FromEnvironment("FORETRACE_FUZZ_CASES", 1000) / 4);
}

TEST(WholePipe, RealProfileWithMistakes) {
  const std::string path =
      RealData("hta-traces/critical_path/cuda_event_sync_multi_stream/event_sync_trace.json.gz");
  FORETRACE_SKIP_WITHOUT(path);
  const auto file = InputFile::Open(path, {});
  ASSERT_TRUE(file.ok()) << file.status();
  const auto document = (*file)->NextDocument();
  ASSERT_TRUE(document.ok()) << document.status();
  std::string text;
  for (;;) {
    const auto chunk = (*document)->Next();
    ASSERT_TRUE(chunk.ok()) << chunk.status();
    if (chunk->empty()) break;
    text += *chunk;
  }
  EXPECT_GT(RunCases(*MakeKinetoImporter(), {text}, 30), 0);
}

}  // namespace
}  // namespace foretrace
