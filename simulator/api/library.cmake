# libforetrace, for other programs (find_package(foretrace)) and for Python: all rooms in one shared
# library, of which the interface in foretrace.h alone is visible.
set(FORETRACE_PYTHON_DIR lib/python3/dist-packages CACHE STRING "where the Python package goes, below the prefix")

set(api_sources ${PROJECT_SOURCE_DIR}/simulator/api/foretrace.cpp ${PROJECT_SOURCE_DIR}/simulator/api/background.cpp
  ${PROJECT_SOURCE_DIR}/simulator/api/foretrace_step.cpp)
add_library(foretrace_api SHARED ${api_sources})
set_target_properties(foretrace_api PROPERTIES OUTPUT_NAME foretrace EXPORT_NAME foretrace
  VERSION ${PROJECT_VERSION} SOVERSION 1)
target_link_libraries(foretrace_api PRIVATE foretrace_cli)
# What the rooms define stays within: others may link other versions of the same templates.
target_link_options(foretrace_api PRIVATE -Wl,--exclude-libs,ALL -Wl,-Bsymbolic)
target_include_directories(foretrace_api INTERFACE $<INSTALL_INTERFACE:include>)
target_compile_features(foretrace_api INTERFACE cxx_std_20)

include(CMakePackageConfigHelpers)
install(TARGETS foretrace_api EXPORT foretraceTargets LIBRARY DESTINATION lib COMPONENT library)
install(FILES ${PROJECT_SOURCE_DIR}/simulator/api/foretrace.h ${PROJECT_SOURCE_DIR}/simulator/api/foretrace_step.h DESTINATION include/foretrace COMPONENT library)
install(EXPORT foretraceTargets NAMESPACE foretrace:: DESTINATION lib/cmake/foretrace COMPONENT library)
configure_package_config_file(${PROJECT_SOURCE_DIR}/simulator/api/foretraceConfig.cmake.in
  ${CMAKE_BINARY_DIR}/foretraceConfig.cmake INSTALL_DESTINATION lib/cmake/foretrace)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/foretraceConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/foretraceConfig.cmake ${CMAKE_BINARY_DIR}/foretraceConfigVersion.cmake
  DESTINATION lib/cmake/foretrace COMPONENT library)

if(FORETRACE_PYTHON)
  find_package(Python3 COMPONENTS Interpreter Development.Module REQUIRED)
  set(Python_EXECUTABLE ${Python3_EXECUTABLE})
  set(PYBIND11_FINDPYTHON ON)
  find_package(pybind11 REQUIRED)
  # Linked with the rooms themselves, so that the package needs no library beside it.
  pybind11_add_module(foretrace_python MODULE ${PROJECT_SOURCE_DIR}/simulator/api/python/python_module.cpp ${api_sources})
  set_target_properties(foretrace_python PROPERTIES OUTPUT_NAME _foretrace
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/python/foretrace)
  target_link_libraries(foretrace_python PRIVATE foretrace_cli)
  target_link_options(foretrace_python PRIVATE -Wl,--exclude-libs,ALL -Wl,-Bsymbolic)
  # The package as it can be imported from the build.
  file(GLOB package_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/simulator/api/python/foretrace/*)
  foreach(file ${package_files})
    get_filename_component(name ${file} NAME)
    if(NOT name STREQUAL "__pycache__")
      configure_file(${file} ${CMAKE_BINARY_DIR}/python/foretrace/${name} COPYONLY)
      install(FILES ${file} DESTINATION ${FORETRACE_PYTHON_DIR}/foretrace COMPONENT python)
    endif()
  endforeach()
  install(TARGETS foretrace_python LIBRARY DESTINATION ${FORETRACE_PYTHON_DIR}/foretrace COMPONENT python)
endif()
