#pragma once
// What `serve` answers, as text, JSON and timeline.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "simulator/serve/memory_ledger.h"
#include "simulator/serve/metrics.h"

namespace foretrace::serve {

struct ServingReport {
  std::string model, platform, engine, parallel, source;
  std::string expert_exchange;  // how tokens go to experts of other devices; empty: none do
  int32_t engines = 1, decode_engines = 0, devices = 1;
  MemoryLedger ledger;
  std::string memory_verdict;
  ServiceLevel level;
  ServingSummary summary;
  const ServingResult* result = nullptr;  // must outlive the report
  double watts = 0, usd_per_device = 0;   // of a device, where its file says; else 0
  // Of a device, where its power was measured; else 0, and energy is that of the rated power.
  double idle_watts = 0;
  int32_t devices_of_a_step = 1;  // that each do what a step's time and energy are of
  bool power_known() const;
  double joules() const;  // of all devices while requests are served; 0: nothing is stated
  double joules_per_output_token() const;
  double output_tokens_per_s_per_1000_usd() const;  // of devices alone; 0: not stated
  std::vector<std::string> notes;
};

// "overloaded from 42 s on", or that the deployment keeps up; of requests that all came before one
// was answered, which show neither, how long they took.
std::string LoadVerdict(const ServingReport& report);
std::string ServingText(const ServingReport& report);
std::string ServingJson(const ServingReport& report);
// Steps of every engine, and of the first requests their waiting, prefill and decode.
absl::Status WriteServingTimeline(const ServingResult& result, const std::string& path);

}  // namespace foretrace::serve
