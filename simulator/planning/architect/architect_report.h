#pragma once
// What the command architect found: text, JSON, CSV, a page, and the accelerator as a file.

#include <optional>
#include <string>
#include <vector>

#include "simulator/architect/search.h"
#include "simulator/report/text_table.h"

namespace foretrace {

// A model's own search, and its plans on the design that is best for all and on the one whose area
// is the cap.
struct ModelFindings {
  std::string name;
  double weight = 1;
  Bytes hbm;  // of its own best design
  ArchitectResult search;
  ModelPlan common;
  std::optional<ModelPlan> on_cap;  // unset: the cap is no design, or the model does not fit on it
  SimTime simulated;                // an iteration of `common` on the event engine; 0: too large
  double hysteresis_loss = 0;       // of throughput, where the exact search ran too

  const EvaluatedDesign& best() const { return search.evaluated[search.best]; }
};

struct ArchitectReport {
  DesignSpace space;
  TrainingSetup training;           // with the memory of the common design
  std::vector<Bytes> memory_sizes;  // searched, ascending
  bool exact = true;
  int hysteresis = 0;
  Objective objective = Objective::kThroughput;
  std::vector<ModelFindings> models;
  ArchitectResult common;  // over all models; of one model its own search
  MachineBase machine;     // of the common design
  SearchSeconds seconds;   // of all searches, on this process
  std::vector<std::string> notes;

  const EvaluatedDesign& best() const { return common.evaluated[common.best]; }
};

std::string FormatArchitect(const ArchitectReport& report, TextStyle style);
std::string ArchitectJson(const ArchitectReport& report);
// Every evaluated design, in order of evaluation: area, score and throughputs.
std::string DesignsCsv(const ArchitectReport& report);
// A page with the tables, the convergence of each search and throughput over area.
std::string ArchitectPage(const ArchitectReport& report);
// The chosen accelerator as a device (topologies/accelerators/README.md), and as many as there are
// on one switch: a platform for search, generate and predict, a system for dataflow.
std::string AcceleratorYaml(const ArchitectReport& report);
std::string PlatformYaml(const ArchitectReport& report);
std::string SystemYaml(const ArchitectReport& report);
std::string SecondsText(const SearchSeconds& seconds);

}  // namespace foretrace
