#include "simulator/serve/step_factors.h"

#include <gtest/gtest.h>

#include "simulator/base/atomic_file.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/serve/serving_fixture.h"

namespace foretrace::serve {
namespace {

// What an engine would have measured whose steps take `factors` of the modelled ones.
PreparedRun Measured(const StepFactors& factors, double gap_ms) {
  PreparedRun prepared;
  prepared.run.folder = "run";
  prepared.run.model = "m";
  prepared.run.device = "d";
  prepared.run.engine = SmallEngine();
  std::vector<Request> requests;
  for (int i = 0; i < 40; ++i) requests.push_back(At(gap_ms * i, 20 + 13 * (i % 5), 10 + i % 7));
  prepared.run.trace = TraceOf(std::move(requests));
  prepared.steps = std::make_shared<LinearStep>(1000, 20, 0.5);
  Deployment deployment;
  deployment.pool = {prepared.run.engine, WithFactors(prepared.steps, factors)};
  const auto result = Simulate(prepared.run.trace, deployment);
  EXPECT_TRUE(result.ok()) << result.status();
  double first = 1e9, last = 0;
  for (size_t i = 0; i < result->outcomes.size(); ++i) {
    const RequestOutcome& o = result->outcomes[i];
    RequestTimes times;
    times.ttft = RealSeconds((o.first_token - o.queued).seconds());
    times.e2e = RealSeconds((o.last_token - o.queued).seconds());
    times.tpot = RealSeconds((o.last_token - o.first_token).seconds()) /
                 (prepared.run.trace.requests[i].output_tokens - 1);
    prepared.run.measured.push_back(times);
    prepared.run.rows.push_back(i);
    first = std::min(first, o.queued.seconds());
    last = std::max(last, o.last_token.seconds());
  }
  prepared.run.time = RealSeconds(last - first);
  return prepared;
}

TEST(StepFactors, AreFoundFromWhatTheyMade) {
  StepFactors truth;
  truth.decodes = 1.3, truth.prompts = 0.8;
  const std::vector<PreparedRun> runs = {Measured(truth, 8), Measured(truth, 20)};
  const auto fit = FitAndHoldOut(runs);
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_NEAR(fit->factors.decodes, 1.3, 0.02);
  EXPECT_NEAR(fit->factors.prompts, 0.8, 0.02);
  for (const StepFactorFit::Of& of : fit->runs) {
    EXPECT_GT(std::abs(of.modelled.tpot_mean_error), 5);
    EXPECT_LT(std::abs(of.fitted.tpot_mean_error), 1);
    ASSERT_TRUE(of.held_out);
    EXPECT_LT(std::abs(of.held_out->tpot_mean_error), 2);
  }
}

TEST(StepFactors, FilesAreReadBack) {
  const TempFolder folder;
  const std::string file = folder.path() + "/factors.yaml";
  StepFactorFit fit;
  fit.factors = {1.25, 0.875, "org/model: \"a\"", "GPU", ""};
  ASSERT_TRUE(WriteFile(file, Yaml(fit)).ok());
  const auto read = ReadStepFactors(file);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_DOUBLE_EQ(read->decodes, 1.25);
  EXPECT_DOUBLE_EQ(read->prompts, 0.875);
  EXPECT_EQ(read->model, fit.factors.model);
  std::vector<std::string> notes;
  NoteOthers(*read, fit.factors.model, "another GPU", notes);
  ASSERT_EQ(notes.size(), 1);
  EXPECT_NE(notes[0].find("runs of GPU, this is another GPU"), std::string::npos);
  ASSERT_TRUE(WriteFile(file, "kind: serving_steps\ndecodes: 0\nprompts: 1\n").ok());
  EXPECT_NE(ReadStepFactors(file).status().message().find("'decodes'"), std::string::npos);
}

}  // namespace
}  // namespace foretrace::serve
