# What `cmake --install` and cpack put where. Programs find their data and modules relative to
# themselves (base/shipped.h, base/module.h), so that an installation can be moved.
include(GNUInstallDirs)
if(FORETRACE_LIBRARY OR FORETRACE_PYTHON)
  include(simulator/api/library.cmake)
endif()

if(TARGET foretrace)
  install(TARGETS foretrace RUNTIME DESTINATION bin COMPONENT foretrace)

  # The manual page is made of what --help says, so that it says nothing else.
  find_package(Python3 COMPONENTS Interpreter REQUIRED)
  set(manual ${CMAKE_BINARY_DIR}/foretrace.1)
  add_custom_command(OUTPUT ${manual}
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/make_manual.py $<TARGET_FILE:foretrace> ${manual}
    DEPENDS foretrace ${PROJECT_SOURCE_DIR}/scripts/make_manual.py VERBATIM)
  add_custom_target(manual ALL DEPENDS ${manual})
  install(FILES ${manual} DESTINATION share/man/man1 COMPONENT foretrace)

  set(completions ${PROJECT_SOURCE_DIR}/scripts/completion)
  install(FILES ${completions}/foretrace DESTINATION share/bash-completion/completions COMPONENT foretrace)
  install(FILES ${completions}/_foretrace DESTINATION share/zsh/vendor-completions COMPONENT foretrace)
  install(FILES ${completions}/foretrace.fish DESTINATION share/fish/vendor_completions.d COMPONENT foretrace)
endif()
if(FORETRACE_MODULES)
  install(TARGETS ${FORETRACE_MODULES} LIBRARY DESTINATION lib/foretrace COMPONENT foretrace)
endif()
install(DIRECTORY topologies calibration simulator/console/pages DESTINATION share/foretrace COMPONENT foretrace)
install(DIRECTORY proto/json/ DESTINATION share/foretrace/schemas COMPONENT foretrace)
# What pages draw with; where it is missing, --html says so.
find_file(FORETRACE_CHART_JS chart.min.js PATHS /usr/share/javascript/chart.js NO_DEFAULT_PATH)
if(FORETRACE_CHART_JS)
  install(FILES ${FORETRACE_CHART_JS} DESTINATION share/foretrace/pages COMPONENT foretrace)
endif()
install(DIRECTORY traces/networks traces/samples traces/workloads DESTINATION share/foretrace/traces COMPONENT foretrace)
install(FILES LICENSE README.md DESTINATION share/doc/foretrace COMPONENT foretrace)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME foretrace)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The foretrace authors <foretrace@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Simulator of distributed training, driven by traces")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# Depends: what the programs and modules are linked with, by dpkg-shlibdeps (package dpkg-dev).
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR})
include(CPack)
