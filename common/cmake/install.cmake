# SPDX-License-Identifier: Apache-2.0
# cmake --install: libraries, headers, find_package(anydnn) and pkg-config.
install(TARGETS anydnn EXPORT anydnn-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS anydnn_static EXPORT anydnn-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(ANYDNN_TOOLS)
  install(TARGETS anydnn_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/api/include/anydnn DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT anydnn-targets NAMESPACE anydnn:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/anydnn)

include(CMakePackageConfigHelpers)
file(WRITE ${PROJECT_BINARY_DIR}/anydnn-config.cmake
  "include(CMakeFindDependencyMacro)\nfind_dependency(Threads)\ninclude(\${CMAKE_CURRENT_LIST_DIR}/anydnn-targets.cmake)\n")
write_basic_package_version_file(${PROJECT_BINARY_DIR}/anydnn-config-version.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/anydnn-config.cmake ${PROJECT_BINARY_DIR}/anydnn-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/anydnn)
file(WRITE ${PROJECT_BINARY_DIR}/anydnn.pc "prefix=${CMAKE_INSTALL_PREFIX}
libdir=\${prefix}/${CMAKE_INSTALL_LIBDIR}
includedir=\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}

Name: anydnn
Description: Portable deep-neural-network primitives
Version: ${PROJECT_VERSION}
Libs: -L\${libdir} -lanydnn
Libs.private: -lpthread -ldl -lm
Cflags: -I\${includedir}
")
install(FILES ${PROJECT_BINARY_DIR}/anydnn.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
