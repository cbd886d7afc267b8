// The compiled part of the Python package foretrace: calls with the GIL released, and tables as
// arrays. foretrace/__init__.py is what people see.

#include <pybind11/functional.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <memory>
#include <optional>

#include "simulator/api/foretrace.h"
#include "simulator/api/foretrace_step.h"

namespace py = pybind11;
namespace api = foretrace::api;

namespace {

// Work runs without the GIL. About twenty times a second it is taken to look for Ctrl-C, whose
// KeyboardInterrupt ends the work; and for each call of `progress`.
api::Control ControlOf(const py::object& progress) {
  api::Control control;
  control.tick = [] {
    const py::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  };
  if (!progress.is_none()) {
    control.progress = [&progress](std::string_view what, int64_t done, int64_t total) {
      const py::gil_scoped_acquire gil;
      progress(py::str(what.data(), what.size()), done, total);
    };
  }
  return control;
}

// `call` with a control for `progress`, without the GIL.
template <typename Call>
auto Released(const py::object& progress, const Call& call) {
  const api::Control control = ControlOf(progress);
  const py::gil_scoped_release released;
  return call(control);
}

api::Document Run(const std::vector<std::string>& arguments, const py::object& progress) {
  return Released(progress,
                  [&](const api::Control& control) { return api::Run(arguments, control); });
}

api::Document RunOn(const api::Job& job, const std::string& command,
                    const std::vector<std::string>& options, const py::object& progress) {
  return Released(progress, [&](const api::Control& control) {
    return api::RunOn(job, command, options, control);
  });
}

api::Job Import(const std::vector<std::string>& paths, bool strict,
                const std::string& process_groups, const std::vector<std::string>& ignore, int jobs,
                const py::object& progress) {
  return Released(progress, [&](const api::Control& control) {
    return api::Job::Import(paths, {strict, process_groups, ignore, jobs}, control);
  });
}

// Numbers as arrays over the memory of the table, which they keep; texts as lists.
py::dict Columns(const api::Document& document, const std::string& path) {
  const auto table = std::make_shared<api::Table>(document.Rows(path));
  const py::capsule owner(new std::shared_ptr<api::Table>(table), [](void* held) {
    delete static_cast<std::shared_ptr<api::Table>*>(held);
  });
  py::dict columns;
  for (const auto& [name, values] : table->columns) {
    const auto array = [&](const auto& numbers) -> py::object {
      py::array view(py::dtype::of<typename std::decay_t<decltype(numbers)>::value_type>(),
                     numbers.size(), numbers.data(), owner);
      view.attr("flags").attr("writeable") = false;
      return py::object(std::move(view));
    };
    if (const auto* integers = std::get_if<std::vector<int64_t>>(&values)) {
      columns[py::str(name)] = array(*integers);
    } else if (const auto* numbers = std::get_if<std::vector<double>>(&values)) {
      columns[py::str(name)] = array(*numbers);
    } else {
      columns[py::str(name)] = py::cast(std::get<std::vector<std::string>>(values));
    }
  }
  return columns;
}

// foretrace_step.h as a class.
class StepPredictor {
 public:
  StepPredictor(const std::string& model, const std::string& platform, const std::string& parallel,
                const std::optional<std::string>& profile) {
    std::array<char, 1024> error = {};
    predictor_.reset(foretrace_step_open(model.c_str(), platform.c_str(), parallel.c_str(),
                                         profile ? profile->c_str() : nullptr, error.data(),
                                         error.size()));
    if (predictor_ == nullptr) throw py::value_error(error.data());
  }

  py::dict Predict(const std::vector<std::pair<int32_t, int32_t>>& chunks, int32_t decodes,
                   int64_t decode_cached) const {
    std::vector<int32_t> tokens, cached;
    for (const auto& [new_tokens, before] : chunks) {
      tokens.push_back(new_tokens);
      cached.push_back(before);
    }
    const foretrace_step_batch batch = {tokens.data(), cached.data(), tokens.size(), decodes,
                                        decode_cached};
    foretrace_step_time time;
    if (foretrace_step_predict(predictor_.get(), &batch, &time) != 0) {
      throw py::value_error("a step has at least one token, and no negative numbers");
    }
    py::dict result;
    result["us"] = time.us;
    result["calibrated"] = time.calibrated;
    result["analytic"] = time.analytic;
    result["extrapolated"] = time.extrapolated;
    return result;
  }

 private:
  struct Close {
    void operator()(foretrace_step_predictor* p) const { foretrace_step_close(p); }
  };
  std::unique_ptr<foretrace_step_predictor, Close> predictor_;
};

}  // namespace

PYBIND11_MODULE(_foretrace, m) {
  m.attr("API_VERSION") = FORETRACE_API_VERSION;
  // Raised as (exit status, message); the package turns it into its own classes.
  m.attr("Failure") = py::exception<api::Error>(m, "Failure");
  py::register_local_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const api::Error& e) {
      const py::object failure = py::module_::import("foretrace._foretrace").attr("Failure");
      PyErr_SetObject(failure.ptr(), py::make_tuple(static_cast<int>(e.kind()), e.what()).ptr());
    }
  });
  py::class_<api::Document>(m, "Document")
      .def_property_readonly("json", &api::Document::json)
      .def("columns", &Columns, py::arg("path"));
  py::class_<api::Job>(m, "Job").def_property_readonly("inspection", &api::Job::inspection);
  py::class_<StepPredictor>(m, "StepPredictor")
      .def(py::init<const std::string&, const std::string&, const std::string&,
                    const std::optional<std::string>&>(),
           py::arg("model"), py::arg("platform"), py::arg("parallel") = "tp1",
           py::arg("profile") = py::none())
      .def("predict", &StepPredictor::Predict,
           py::arg("chunks") = std::vector<std::pair<int32_t, int32_t>>(), py::arg("decodes") = 0,
           py::arg("decode_cached") = 0);
  m.def("run", &Run, py::arg("arguments"), py::arg("progress") = py::none());
  m.def("run_on", &RunOn, py::arg("job"), py::arg("command"), py::arg("options"),
        py::arg("progress") = py::none());
  m.def("load", &Import, py::arg("paths"), py::arg("strict") = false,
        py::arg("process_groups") = "", py::arg("ignore") = std::vector<std::string>(),
        py::arg("jobs") = 0, py::arg("progress") = py::none());
  m.def("version", &api::Version);
}
