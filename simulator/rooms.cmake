# One static library per room. A room's folder is its name; every .cpp below it belongs to it.
# What a room may include is its DEPS; scripts/check_layers.py holds the same table against the
# #include lines.
#
#   foretrace_room(NAME [DEPS rooms...] [LIBS libraries...])
set(FORETRACE_ROOMS "")
function(foretrace_room NAME)
  cmake_parse_arguments(ROOM "" "" "DEPS;LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/simulator/${NAME}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/(main|simgrid_module)\\.cpp$")
  if(NOT sources)
    return()
  endif()
  add_library(foretrace_${NAME} STATIC ${sources})
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

pkg_check_modules(ARCHIVE REQUIRED IMPORTED_TARGET libarchive)
pkg_check_modules(SIMGRID REQUIRED IMPORTED_TARGET simgrid)

set(BASICS absl::status absl::statusor absl::strings absl::flat_hash_map absl::flat_hash_set
    absl::btree absl::span absl::inlined_vector fmt::fmt)

foretrace_room(base LIBS ${BASICS} Threads::Threads)
foretrace_room(trace DEPS base)
foretrace_room(reconstruct DEPS base trace)
foretrace_room(topology DEPS base LIBS yaml-cpp)
foretrace_room(des DEPS base)
foretrace_room(importers DEPS base trace
               LIBS foretrace_proto PkgConfig::ARCHIVE ZLIB::ZLIB yaml-cpp)
foretrace_room(exporters DEPS base trace LIBS foretrace_proto ZLIB::ZLIB)
# Ceres is used by cost/fitting/least_squares.cpp alone.
find_package(Ceres REQUIRED)
# XGBoost is used by cost/kernel/boosting.cpp alone; Debian's CMake config of it does not work.
foretrace_room(cost DEPS base trace reconstruct topology LIBS yaml-cpp Ceres::ceres foretrace_proto xgboost)
# SimGrid is used by network/simgrid/simgrid_module.cpp alone, which is loaded when asked for.
add_library(foretrace_simgrid MODULE ${PROJECT_SOURCE_DIR}/simulator/network/simgrid/simgrid_module.cpp)
target_include_directories(foretrace_simgrid PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(foretrace_simgrid PRIVATE PkgConfig::SIMGRID ${BASICS})
foretrace_room(network DEPS base topology des cost LIBS ${CMAKE_DL_LIBS})
if(TARGET foretrace_network)
  add_dependencies(foretrace_network foretrace_simgrid)
  set_source_files_properties(
    ${PROJECT_SOURCE_DIR}/simulator/network/simgrid/simgrid_network.cpp PROPERTIES
    COMPILE_DEFINITIONS FORETRACE_SIMGRID_MODULE="$<TARGET_FILE:foretrace_simgrid>")
endif()
# Of cost the graph knows how operators become kernels. PRIVATE: what uses graphs is compiled without
# the flags of cost's libraries.
foretrace_room(graph DEPS base)
if(TARGET foretrace_graph)
  target_link_libraries(foretrace_graph PRIVATE foretrace_cost)
endif()
foretrace_room(workload DEPS base graph LIBS yaml-cpp)
foretrace_room(mapping DEPS base trace workload topology graph)
# Of network and cost the engine knows the interfaces alone, which are headers.
foretrace_room(engine DEPS base trace reconstruct topology des)
foretrace_room(report DEPS base trace exporters engine)
foretrace_room(search DEPS base graph workload mapping)
pkg_check_modules(CBC REQUIRED IMPORTED_TARGET cbc)
# CBC is used by sharding/sharders/ilp.cpp alone.
foretrace_room(sharding DEPS base trace reconstruct topology cost network engine LIBS yaml-cpp PkgConfig::CBC)
foretrace_room(cli DEPS base trace reconstruct topology des importers exporters cost network graph workload mapping
               engine report search sharding)

if(TARGET foretrace_cli)
  # Platforms and calibrations that ship with foretrace are found by name. Only the files that look
  # for them see the path, so that a compiler cache serves the others to every checkout.
  set_source_files_properties(
    ${PROJECT_SOURCE_DIR}/simulator/cli/shipped.cpp
    ${PROJECT_SOURCE_DIR}/simulator/cli/training_job.cpp
    ${PROJECT_SOURCE_DIR}/simulator/cli/validation_cases.cpp
    PROPERTIES COMPILE_DEFINITIONS FORETRACE_DATA_DIR="${PROJECT_SOURCE_DIR}")
  # Searches spread over machines with MPI, where it is there (scripts/setup --mpi).
  find_package(MPI COMPONENTS CXX QUIET)
  option(FORETRACE_WITH_MPI "spread searches over processes with MPI" ${MPI_CXX_FOUND})
  if(FORETRACE_WITH_MPI AND MPI_CXX_FOUND)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/simulator/cli/processes.cpp PROPERTIES
      COMPILE_DEFINITIONS "FORETRACE_MPI;OMPI_SKIP_MPICXX")
    target_link_libraries(foretrace_cli PRIVATE MPI::MPI_CXX)
  endif()
  add_executable(foretrace ${PROJECT_SOURCE_DIR}/simulator/cli/main.cpp)
  target_link_libraries(foretrace PRIVATE foretrace_cli)
endif()
