// Recordings that are wrong in some place go through the whole of predict without a crash, a hang
// or an error of many lines. FORETRACE_FUZZ_CASES says how many of each kind, FORETRACE_FUZZ_FIRST
// with which to begin, and FORETRACE_FUZZ_VERBOSE=1 prints the number of each before it runs.
#include "tests/support/whole_pipe.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <random>

#include "simulator/importers/io/input_file.h"
#include "simulator/replay/run.h"
#include "tests/support/job_script.h"
#include "tests/support/json_mutation.h"
#include "tests/support/random_store.h"
#include "tests/support/real_data.h"

namespace foretrace {
namespace {

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

// Bytes that decide options.
std::string RandomBytes(Random& random, size_t n) {
  std::string bytes(n, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
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
    const std::clock_t before = std::clock();  // of this process: a loaded machine is no fault
    const std::string decisions = RandomBytes(random, 16);
    Drawn drawn(decisions);
    predicted += RunWholePipe(importer, mutated, DrawnOptions(drawn)).ok() ? 1 : 0;
    EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, 20.0) << "case " << n;
  }
  return predicted;
}

TEST(WholePipe, SmallJobIsPredicted) {
  PipeOptions options;
  const absl::Status status = RunWholePipe(*MakeKinetoImporter(), SmallJob(), options);
  EXPECT_TRUE(status.ok()) << status;
}

TEST(WholePipe, SmallJobWithMistakes) {
  // Else this would test error messages alone: with mistakes and options that do not go together,
  // about a quarter of the cases end in figures.
  EXPECT_GT(RunCases(*MakeKinetoImporter(), SmallJob(), 1000),
            FromEnvironment("FORETRACE_FUZZ_CASES", 1000) / 5);
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

// The difference that a change makes is told by communicator, whose name nobody may have recorded.
TEST(WholePipe, ChangedCollectivesOfNoDeclaredGroup) {
  JobScript job(2);
  for (size_t r = 0; r < 2; ++r) {
    for (int step = 0; step < 3; ++step) {
      const double t = 1000.0 * step;
      const std::string name = fmt::format("all_reduce {}", step);
      job.rank(r).Step(step, {t, t + 900});
      job.rank(r).Collective(name, CollectiveOp::kAllReduce, "", {t + 10, t + 15}, 7,
                             {t + 20, t + 700});
      job.rank(r).Call("synchronize", RuntimeCall::kDeviceSynchronize, {t + 30, t + 704});
    }
  }
  PipeOptions options;
  options.simulation.what_if = {"kind=collective:x0.5"};
  EXPECT_EQ(PredictStore(job.Build(), options), absl::OkStatus());
}

// Recordings drawn at random: what no importer would write, and most of what they do.
TEST(WholePipe, RandomRecordings) {
  const int first = FromEnvironment("FORETRACE_FUZZ_FIRST", 0);
  const int cases = FromEnvironment("FORETRACE_FUZZ_CASES", 1000);
  int predicted = 0;
  for (int n = first; n < first + cases; ++n) {
    Random random(static_cast<uint64_t>(n));
    const std::string bytes = RandomBytes(random, 40 + Below(random, 600));
    predicted += PredictDrawn(bytes).ok() ? 1 : 0;
  }
  EXPECT_GT(predicted, cases / 4);
}

}  // namespace
}  // namespace foretrace
