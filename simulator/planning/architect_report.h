#pragma once
// What the command architect found: text, JSON, CSV, a page, and the accelerator as a file.

#include <string>
#include <vector>

#include "simulator/architect/search.h"
#include "simulator/report/text_table.h"

namespace foretrace {

// A model's own search and its plans on the cap's design (where that is in the space) and on the
// design that is best for all.
struct ModelFindings {
  std::string name;
  double weight = 1;
  ArchitectResult search;
  ModelPlan common;
  double hysteresis_loss = 0;  // of throughput, where the exact search ran too

  const EvaluatedDesign& best() const { return search.evaluated[search.best]; }
};

struct ArchitectReport {
  DesignSpace space;
  TrainingSetup training;
  bool exact = true;
  int hysteresis = 0;
  Objective objective = Objective::kThroughput;
  std::vector<ModelFindings> models;
  ArchitectResult common;  // over all models; of one model its own search

  const EvaluatedDesign& best() const { return common.evaluated[common.best]; }
};

std::string FormatArchitect(const ArchitectReport& report, TextStyle style);
std::string ArchitectJson(const ArchitectReport& report);
// Every evaluated design, in order of evaluation: area, score and throughputs.
std::string DesignsCsv(const ArchitectReport& report);
// A page with the tables, the convergence of each search and throughput over area.
std::string ArchitectPage(const ArchitectReport& report);
// As topologies/accelerators/README.md describes.
std::string AcceleratorYaml(const std::string& name, const SizedDesign& design,
                            const DesignSpace& space, Bytes hbm);

}  // namespace foretrace
