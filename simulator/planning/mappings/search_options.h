#pragma once
// What `search` is asked.

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "simulator/console/options.h"
#include "simulator/planning/mappings/search_run.h"
#include "simulator/planning/mappings/training_job.h"

namespace foretrace {

struct SearchCommandOptions : SearchQuestion {
  TrainingJobOptions job;
  std::vector<std::string> compare;
  std::string svg, timeline, mapping_out;
  std::string network;  // a tier; empty: closed forms alone
  double cpu_scale = 1;
  bool picture = false;
  bool memory = false, energy = false;
  bool json = false;
  // Of these options, the first that was given.
  std::function<std::string(std::initializer_list<const char*>)> first_given;

  // Adds the options to a command, which is asked later what was given and must outlive them.
  void Register(CLI::App& command);
  // That none is given which changes nothing: of searchers that do not run, of what the job's stack
  // decides; and that the device has units for what GEMMs shall take.
  absl::Status Check(const TrainingJob& training) const;
};

}  // namespace foretrace
