#pragma once
// Lookups by software that runs several kernels for each table instead of one for all: what these
// kernels are is data (topologies/lookups/), what they take follows from a batch and a device.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/shipped.h"
#include "simulator/base/time.h"
#include "simulator/base/units.h"
#include "simulator/cost/embedding/embedding_model.h"

namespace foretrace {

inline constexpr ShippedKind kLookupStacks = {"lookup stack", "topologies/lookups", ".yaml"};

// One kernel, or several in a row that are alike. Rows are of the table's width.
struct StackKernel {
  std::string name;
  bool each_input = false;      // one for each input; else one for each table
  bool several_inputs = false;  // only where a table has more than one input
  bool several_ranks = false;   // only where there is more than one rank
  bool scattered = false;       // moves rows or words in no order
  double launches = 1;
  // Moved for each sample of an input, each lookup, each distinct row.
  double sample_rows = 0, lookup_rows = 0, unique_rows = 0;
  double lookup_bytes = 0, unique_bytes = 0;
  double lookup_instructions = 0;  // for each element of each lookup's row
  double sample_blocks = 0;        // thread blocks for each sample
  // Dependent reads from memory that a block of a sample waits for, one after the other, with one
  // lookup; and lookups whose rows it has under way at a time. 0: none.
  double chained_reads = 0, rows_at_once = 0;
  // Radix sort: of lookups' or distinct rows' keys. 0 bits: none.
  bool sorts_unique = false;
  double key_bytes = 0, value_bytes = 0;
  double key_bits = 0;  // 0: as many as number the lookups
};

// Facts of the software, and of kernels as they were measured on one device.
struct LookupStack {
  std::string name, source;
  bool tensor_float32 = false;  // GEMMs of the dense part
  // Collectives start when a loop of this period finds all ranks ready, on average half of it after
  // they were asked for, and the CPU goes on when they are done. Zero: neither.
  SimTime cycle;
  bool reduces_loss = false;   // over the ranks, at the end of each step
  bool deals_by_size = false;  // tables in falling order of size to the ranks and back again
  SimTime kernel;              // a kernel that has little to do, from the end of the one before
  SimTime read;                // from device memory
  double stream_efficiency = 0, scatter_efficiency = 0;  // of the DRAM peak
  double blocks_per_sm_us = 0;                           // thread blocks that begin
  double instructions_per_sm_clock = 0;
  double sort_efficiency = 0;  // of the DRAM peak
  SimTime sort_pass;           // one with few keys, its preparation included
  double sort_digit_bits = 0;
  double one_block_keys = 0;  // up to so many keys a single kernel sorts
  std::vector<StackKernel> forward, backward;
};

// Errors name file, line, key and what is allowed.
absl::StatusOr<LookupStack> LoadLookupStack(const std::string& file);
absl::StatusOr<LookupStack> ParseLookupStack(const std::string& text, const std::string& file);

// Errors: the device's file lacks a fact that StackTime needs.
absl::Status CheckStackDevice(const GpuPeaks& device);

// A table, or a part of it, with the lookups of each of its inputs.
struct StackTable {
  TableLookup lookup;                // of all inputs together; batch: bags of all
  std::span<const double> poolings;  // mean lookups of a sample, by input; at least one
  Bytes element = Bytes(4);
};

// Time of all kernels of a pass for the table, one after the other.
SimTime StackTime(const LookupStack& stack, const GpuPeaks& device, const StackTable& table,
                  LookupPass pass, bool several_ranks);

}  // namespace foretrace
