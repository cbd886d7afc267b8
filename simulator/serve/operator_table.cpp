#include "simulator/serve/operator_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>
#include <utility>

#include "simulator/base/contains.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/serve/operator_predictor.h"
#include "simulator/serve/operator_rows.h"

namespace foretrace::serve {
namespace {

std::vector<OperatorErrors> ErrorsOf(const std::vector<OperatorRow>& rows,
                                     OperatorPredictor& predictor) {
  struct Group {
    size_t rows = 0;
    size_t beyond = 0;
    std::vector<double> relative;
  };
  std::map<std::string, Group> groups;
  for (const OperatorRow& row : rows) {
    Group& group = groups[row.precision];
    ++group.rows;
    const auto predicted = predictor.Predict(row);
    if (!predicted) continue;
    group.relative.push_back(predicted->ms / row.time.ms() - 1);
    group.beyond += predicted->beyond ? 1 : 0;
  }
  std::vector<OperatorErrors> errors;
  for (auto& [precision, group] : groups) {
    errors.push_back(SummarizeOperator(precision, group.rows, std::move(group.relative)));
    errors.back().beyond = group.beyond;
  }
  return errors;
}

absl::Status NoFewPredicted(const std::string& few_file, const std::string& file,
                            const OperatorRows& known) {
  std::set<std::string> types;
  for (const OperatorRow& row : known.rows) types.insert(row.precision);
  return InvalidInput(
      "{}: no row of these few is predicted from {}, so that none corrects it: take rows of its "
      "types ({}) whose sizes lie between its own; its columns are {}",
      few_file, file, fmt::join(types, ", "), known.header);
}

}  // namespace

double OperatorScale::compute(std::string_view precision) const {
  if (ContainsAny(precision, {"a16", "_wo"})) return half;  // narrow weights alone
  if (ContainsAny(precision, {"a8", "fp8", "float8", "int8"})) return eight_bits;
  return ContainsAny(precision, {"fp4"}) ? four_bits : half;
}

absl::StatusOr<std::vector<OperatorErrors>> HoldOutOperators(const std::string& file,
                                                             std::string_view text) {
  FORETRACE_ASSIGN_OR_RETURN(const OperatorRows table, ReadOperatorRows(file, text));
  OperatorPredictor predictor(table.rows, false, {});
  auto errors = ErrorsOf(table.rows, predictor);
  if (AllOperators(errors).held_out == 0) {
    return InvalidInput("{}: no row lies between others: nothing can be held out", file);
  }
  return errors;
}

absl::StatusOr<std::vector<OperatorErrors>> TestOperators(
    const std::string& file, std::string_view text, const std::string& test_file,
    std::string_view test_text, const OperatorScale& scale, const OperatorFile& few,
    const ResidualTrainer& trainer) {
  FORETRACE_ASSIGN_OR_RETURN(const OperatorRows known, ReadOperatorRows(file, text));
  FORETRACE_ASSIGN_OR_RETURN(const OperatorRows test, ReadOperatorRows(test_file, test_text));
  if (known.header != test.header) {
    return InvalidInput("{}:1: has other columns than {}: '{}', not '{}'", test_file, file,
                        test.header, known.header);
  }
  OperatorModel model;
  if (trainer) {
    FORETRACE_ASSIGN_OR_RETURN(model, OperatorModel::Fit(known.rows, trainer));
  }
  OperatorPredictor predictor(known.rows, true, scale, std::move(model));
  if (!few.text.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(const OperatorRows rows, ReadOperatorRows(few.file, few.text));
    if (!predictor.Correct(rows.rows)) return NoFewPredicted(few.file, file, known);
  }
  return ErrorsOf(test.rows, predictor);
}

}  // namespace foretrace::serve
