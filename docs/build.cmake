# SPDX-License-Identifier: Apache-2.0
# cmake -D DOXYGEN=… -D SOURCE=… -D FOLDER=… -D VERSION=… -P build.cmake: builds the reference in FOLDER/html, and fails on a warning.
# All that is public must be documented (Doxyfile.in says what is), but for members whose names something else has fixed and explains:
#  - the concepts Module, ForwardStage, PipelineStage, Policy and Schedule, and what all layers call the types of their signatures; only in
#    kerkis, kerkis::nn and kerkis::axis, where such classes are;
#  - the language: operators other than calls, and what makes a class a range or an iterator;
#  - the base of an override (std::streambuf, doctest's IReporter).
configure_file(${CMAKE_CURRENT_LIST_DIR}/Doxyfile.in ${FOLDER}/Doxyfile @ONLY)
execute_process(COMMAND ${DOXYGEN} ${FOLDER}/Doxyfile WORKING_DIRECTORY ${SOURCE} RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "doxygen ends with ${status}")
endif()
file(STRINGS ${FOLDER}/warnings.txt warnings ENCODING UTF-8)
set(types "Element|ExecutionSpace|Saved|Context|Parameter|Matrix|View|Microbatch|Tokens|axis")
set(constants "name|chunks")
set(functions "forward|backward|backward_input|backward_weight|for_each_parameter|make_saved|input_columns|output_columns|order|orders")
set(any "(class|struct) [^ ]+")
set(modelling "(class|struct) kerkis::((nn|axis)::)?[A-Za-z0-9]+")
foreach(fixed "(${types}) \\(typedef\\) of ${modelling}"
              "(${constants}) \\(variable\\) of ${modelling}"
              "(${functions})\\(.* \\(function\\) of ${modelling}"
              "operator[^A-Za-z(]+\\(.* \\((function|friend)\\) of ${any}"
              "(iterator_category|value_type|difference_type) \\(typedef\\) of ${any}"
              "(begin|end)\\(\\) \\(function\\) of ${any}"
              ".* override \\(function\\) of ${any}")
  list(FILTER warnings EXCLUDE REGEX "Member ${fixed} is not documented")
endforeach()
if(warnings)
  list(JOIN warnings "\n  " warnings)
  message(FATAL_ERROR "doxygen warns:\n  ${warnings}")
endif()
file(GLOB examples ${SOURCE}/examples/*.cpp) # to which the pages link
file(COPY ${examples} DESTINATION ${FOLDER}/html)
message(STATUS "the reference: ${FOLDER}/html/index.html")
