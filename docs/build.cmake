# SPDX-License-Identifier: Apache-2.0
# cmake -D DOXYGEN=… -D SOURCE=… -D FOLDER=… -D VERSION=… -P build.cmake: builds the reference in FOLDER/html, and fails on a warning.
# Classes, enumerations, macros and functions of a namespace must be documented. Members of a documented class need not be: those of every
# layer and stage are described once, at their concept, and many say all by their names.
configure_file(${CMAKE_CURRENT_LIST_DIR}/Doxyfile.in ${FOLDER}/Doxyfile @ONLY)
execute_process(COMMAND ${DOXYGEN} ${FOLDER}/Doxyfile WORKING_DIRECTORY ${SOURCE} RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "doxygen ends with ${status}")
endif()
file(STRINGS ${FOLDER}/warnings.txt warnings ENCODING UTF-8)
list(FILTER warnings EXCLUDE REGEX "Member .* of (class|struct) .* is not documented")
if(warnings)
  list(JOIN warnings "\n  " warnings)
  message(FATAL_ERROR "doxygen warns:\n  ${warnings}")
endif()
file(GLOB examples ${SOURCE}/examples/*.cpp) # to which the pages link
file(COPY ${examples} DESTINATION ${FOLDER}/html)
message(STATUS "the reference: ${FOLDER}/html/index.html")
