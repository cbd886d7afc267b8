# One static library per room. A room's folder is its name; every .cpp below it belongs to it.
# What a room may include is its DEPS; scripts/check_layers.py holds the same table against the
# #include lines.
#
#   foretrace_room(NAME [DEPS rooms...] [LIBS libraries...])
set(FORETRACE_ROOMS "")

# With FORETRACE_UNITY: has the sources of a target compiled some at once, grouped by
# scripts/unity_groups.py so that their names do not collide.
find_package(Python3 COMPONENTS Interpreter REQUIRED)
function(foretrace_unity NAME)
  if(NOT FORETRACE_UNITY)
    return()
  endif()
  execute_process(COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/unity_groups.py 24 ${ARGN}
                  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE groups COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]+" groups "${groups}")
  foreach(line ${groups})
    string(REGEX MATCH "^([0-9]+) (.*)$" line "${line}")
    set_source_files_properties(${CMAKE_MATCH_2} PROPERTIES UNITY_GROUP ${NAME}_${CMAKE_MATCH_1})
  endforeach()
  set_target_properties(${NAME} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

function(foretrace_room NAME)
  cmake_parse_arguments(ROOM "" "" "DEPS;LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/simulator/${NAME}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/(main|[a-z]+_module)\\.cpp$")
  if(NOT sources)
    return()
  endif()
  add_library(foretrace_${NAME} STATIC ${sources})
  foretrace_unity(foretrace_${NAME} ${sources})
  target_include_directories(foretrace_${NAME} PUBLIC ${PROJECT_SOURCE_DIR})
  foreach(dep ${ROOM_DEPS})
    if(TARGET foretrace_${dep})
      target_link_libraries(foretrace_${NAME} PUBLIC foretrace_${dep})
    endif()
  endforeach()
  target_link_libraries(foretrace_${NAME} PUBLIC ${ROOM_LIBS})
  set(FORETRACE_ROOMS ${FORETRACE_ROOMS} ${NAME} PARENT_SCOPE)
endfunction()

# Generated protobuf code: third-party style code, so it is not held to our warnings.
file(GLOB proto_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/proto/*.proto)
if(proto_files)
  protobuf_generate_cpp(proto_sources proto_headers ${proto_files})
  add_library(foretrace_proto STATIC ${proto_sources})
  target_include_directories(foretrace_proto SYSTEM PUBLIC ${CMAKE_CURRENT_BINARY_DIR})
  target_link_libraries(foretrace_proto PUBLIC protobuf::libprotobuf)
  target_compile_options(foretrace_proto PRIVATE -w)
else()
  add_library(foretrace_proto INTERFACE)
endif()

# Libraries that few commands need are linked by modules alone, which are loaded when asked for
# (base/module.h): foretrace_NAME.so, beside the program.
set(FORETRACE_MODULES "")
function(foretrace_module NAME SOURCE)
  add_library(foretrace_${NAME} MODULE ${PROJECT_SOURCE_DIR}/simulator/${SOURCE})
  set_target_properties(foretrace_${NAME} PROPERTIES PREFIX "")
  target_include_directories(foretrace_${NAME} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(foretrace_${NAME} PRIVATE ${ARGN})
  set(FORETRACE_MODULES ${FORETRACE_MODULES} foretrace_${NAME} PARENT_SCOPE)
endfunction()


set(BASICS absl::status absl::statusor absl::strings absl::flat_hash_map absl::flat_hash_set
    absl::btree absl::span absl::inlined_vector fmt::fmt)

pkg_check_modules(ARCHIVE REQUIRED IMPORTED_TARGET libarchive)
foretrace_module(archive importers/io/archive_module.cpp PkgConfig::ARCHIVE)

if(FORETRACE_WITH_MODULES)
  find_package(Ceres REQUIRED)
  foretrace_module(ceres calibrate/ceres_module.cpp Ceres::ceres)
  # Debian's CMake config of XGBoost does not work.
  foretrace_module(xgboost calibrate/xgboost_module.cpp xgboost)
  pkg_check_modules(CBC REQUIRED IMPORTED_TARGET cbc)
  foretrace_module(cbc optimise/cbc_module.cpp PkgConfig::CBC absl::statusor)
  pkg_check_modules(SIMGRID REQUIRED IMPORTED_TARGET simgrid)
  foretrace_module(simgrid network/simgrid/simgrid_module.cpp PkgConfig::SIMGRID ${BASICS})
endif()

foretrace_room(base LIBS ${BASICS} Threads::Threads yaml-cpp ${CMAKE_DL_LIBS})
# Only these files see the paths, so that a compiler cache serves the others to every checkout.
set_source_files_properties(${PROJECT_SOURCE_DIR}/simulator/base/module.cpp PROPERTIES COMPILE_DEFINITIONS
  "FORETRACE_BUILD_FOLDER=\"${CMAKE_BINARY_DIR}\";FORETRACE_INSTALLED_MODULES=\"${CMAKE_INSTALL_PREFIX}/lib/foretrace\"")
set_source_files_properties(${PROJECT_SOURCE_DIR}/simulator/base/shipped.cpp PROPERTIES COMPILE_DEFINITIONS
  "FORETRACE_SOURCE_DATA=\"${FORETRACE_DATA_FOLDER}\";FORETRACE_INSTALLED_DATA=\"${CMAKE_INSTALL_PREFIX}/share/foretrace\"")
foretrace_room(trace DEPS base)
foretrace_room(hardware DEPS base LIBS yaml-cpp)
foretrace_room(reconstruct DEPS base trace hardware)
foretrace_room(topology DEPS base hardware LIBS yaml-cpp)
foretrace_room(importers DEPS base trace hardware
               LIBS foretrace_proto ZLIB::ZLIB yaml-cpp)
add_dependencies(foretrace_importers foretrace_archive)  # for what is built alone: tests, the demo
foretrace_room(exporters DEPS base trace reconstruct LIBS foretrace_proto ZLIB::ZLIB)
foretrace_room(cost DEPS base trace reconstruct hardware topology LIBS yaml-cpp foretrace_proto)
foretrace_room(network DEPS base hardware topology cost)
# Of network and cost the engine knows the interfaces alone, which are headers.
foretrace_room(engine DEPS base trace reconstruct hardware topology)
foretrace_room(report DEPS base trace exporters engine)
foretrace_room(console DEPS base report)
# RE2 selects nodes by name. Its own flags (-pthread) would not go with precompiled headers.
foretrace_room(replay DEPS base trace reconstruct hardware topology importers exporters cost network engine report
               console LIBS re2)
if(FORETRACE_PLANNING)
  foretrace_room(optimise DEPS base)
  foretrace_room(calibrate DEPS base trace hardware topology cost optimise)
  # Of cost the graph knows how operators become kernels. PRIVATE: what uses graphs is compiled without
  # the flags of cost's libraries.
  foretrace_room(graph DEPS base)
  target_link_libraries(foretrace_graph PRIVATE foretrace_cost)
  foretrace_room(workload DEPS base graph LIBS yaml-cpp)
  target_link_libraries(foretrace_workload PRIVATE foretrace_cost)
  foretrace_room(plan DEPS base trace)
  foretrace_room(mapping DEPS base trace plan workload hardware topology graph optimise)
  foretrace_room(search DEPS base graph workload plan mapping optimise)
  foretrace_room(sharding DEPS base trace reconstruct hardware topology cost calibrate optimise network engine LIBS yaml-cpp)
  foretrace_room(serve DEPS base exporters graph workload LIBS yaml-cpp)
  target_link_libraries(foretrace_serve PRIVATE foretrace_cost)
  foretrace_room(dataflow DEPS base trace hardware graph optimise plan mapping LIBS yaml-cpp)
  foretrace_room(architect DEPS base graph workload optimise search LIBS yaml-cpp)
  foretrace_room(backends DEPS base graph workload optimise LIBS yaml-cpp)
  target_link_libraries(foretrace_backends PRIVATE foretrace_cost)
  foretrace_room(capture DEPS base trace cost workload backends)
  foretrace_room(planning DEPS base trace reconstruct hardware topology importers exporters cost calibrate network graph
                 workload plan mapping engine report search sharding serve dataflow architect backends capture
                 console replay LIBS re2)
endif()
foretrace_room(cli DEPS base console replay planning)
if(FORETRACE_PLANNING)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/simulator/cli/commands.cpp PROPERTIES COMPILE_DEFINITIONS FORETRACE_PLANNING)
endif()

if(TARGET foretrace_cli)
  # Public data that are beside a checkout where $FORETRACE_REALDATA does not say.
  set_source_files_properties(${PROJECT_SOURCE_DIR}/simulator/planning/validation/validation_cases.cpp
    PROPERTIES COMPILE_DEFINITIONS FORETRACE_DATA_DIR="${PROJECT_SOURCE_DIR}")
  # Searches spread over machines with MPI, where it is there (scripts/setup --mpi).
  find_package(MPI COMPONENTS CXX QUIET)
  option(FORETRACE_WITH_MPI "spread searches over processes with MPI" ${MPI_CXX_FOUND})
  if(FORETRACE_WITH_MPI AND MPI_CXX_FOUND)
    foretrace_module(mpi console/mpi_module.cpp MPI::MPI_CXX absl::statusor)
    target_compile_definitions(foretrace_mpi PRIVATE OMPI_SKIP_MPICXX)
  endif()
  add_executable(foretrace ${PROJECT_SOURCE_DIR}/simulator/cli/main.cpp)
  target_link_libraries(foretrace PRIVATE foretrace_cli)
  # What every start runs lies together, and nothing is relocated: half the time of `--help`.
  set_target_properties(foretrace PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  if(NOT FORETRACE_SANITIZE)
    target_link_options(foretrace PRIVATE -no-pie -Wl,-z,keep-text-section-prefix)
  endif()
endif()
