#pragma once
// The work behind `foretrace calibrate`: tables in, calibration files and errors out.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/calibrate/fitter.h"

namespace foretrace {

struct CalibrateOptions {
  std::vector<std::string> tables;       // neutral CSV files to fit
  std::vector<std::string> test_tables;  // files that take no part in the fit
  // Tables that were not read from files, such as those of traces; fitted and tested likewise.
  std::vector<BenchmarkTable> made_tables, made_test_tables;
  std::string platform;         // keep only rows of this platform; empty: every platform by itself
  std::string hold_out;         // a rule of the family; empty: none
  std::string adapt;            // prior calibration file to correct; empty: fit from scratch
  std::string calibration;      // existing calibration file to evaluate; then there are no tables
  std::string output;           // folder; files go to output/<platform>/; empty: write nothing
  std::string output_platform;  // name the written platform so; for one platform only
  std::string date;             // YYYY-MM-DD for the files; empty: the newest date of the tables
  std::string note;
  FitOptions fit;
};

// A row with what was predicted for it, for tables and plots.
struct CalibrateRow {
  std::string platform;
  std::string model;
  std::string shape;
  double measured_us = 0;
  double predicted_us = 0;
  bool extrapolated = false;
};

struct CalibrateReport {
  // Errors on the rows that took no part in the fit (test tables, held-out rows); without either,
  // on the fitted rows themselves. By model; names begin with the platform when there are several.
  // The last entry, "all", pools every row.
  std::vector<ModelErrors> models;
  bool in_sample = false;  // `models` is about the fitted rows
  // Rows of the test that no model covers.
  size_t uncovered_count = 0;
  std::vector<CalibrateRow> rows;
  std::vector<std::string> notes;
  std::vector<std::string> written;
};

// Deterministic: the same tables and options write the same bytes. Errors name the file and what is
// wrong with it.
absl::StatusOr<CalibrateReport> RunCalibrate(const Fitter& fitter, const CalibrateOptions& options);

}  // namespace foretrace
