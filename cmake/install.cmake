# What `cmake --install` puts where: the program, what it says of its options, documents, examples, the unit for systemd.
include(GNUInstallDirs)
install(TARGETS dovetail RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(NOT CMAKE_CROSSCOMPILING)
  install(FILES ${CMAKE_BINARY_DIR}/spoken/dovetail.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${CMAKE_BINARY_DIR}/spoken/dovetail DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${CMAKE_BINARY_DIR}/spoken/_dovetail DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
endif()

# Laid out as in the repository, so that links between the documents lead somewhere.
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN CMakeLists.txt EXCLUDE)

# The unit of docs/deploying.md, with the program where this install puts it, which is known only then (`--prefix`).
# It goes where systemd looks for what is not the system's own, or, with the prefix /usr, for what is.
set(unit_folder lib/systemd/system)
install(CODE "
  set(DOVETAIL_PAGE \"${CMAKE_SOURCE_DIR}/docs/deploying.md\")
  cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_PREFIX)
  set(DOVETAIL_PROGRAM \"${CMAKE_INSTALL_BINDIR}/dovetail\")
  cmake_path(ABSOLUTE_PATH DOVETAIL_PROGRAM BASE_DIRECTORY \"\${CMAKE_INSTALL_PREFIX}\")
  set(DOVETAIL_UNIT \"\${CMAKE_INSTALL_PREFIX}/${unit_folder}/dovetail.service\")
  include(\"${CMAKE_SOURCE_DIR}/cmake/install_unit.cmake\")")
