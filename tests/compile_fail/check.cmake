# SPDX-License-Identifier: Apache-2.0
# Compiles SOURCE, which must be refused in the words that it expects.
list(TRANSFORM FOLDERS PREPEND -I)
set(command ${COMPILER} -std=c++20 -fopenmp -fsyntax-only -fdiagnostics-color=never ${FOLDERS} ${SOURCE})

execute_process(COMMAND ${command} -DKERKIS_FAIL RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(status EQUAL 0)
  message(FATAL_ERROR "${SOURCE} compiles, and must not")
endif()
file(STRINGS ${SOURCE} expectations REGEX "^// EXPECT: ")
if(NOT expectations)
  message(FATAL_ERROR "${SOURCE} has no line // EXPECT: …")
endif()
foreach(line IN LISTS expectations)
  string(REGEX REPLACE "^// EXPECT: " "" expectation "${line}")
  if(NOT output MATCHES "${expectation}")
    message(FATAL_ERROR "${SOURCE} is refused, but not with: ${expectation}\n${output}")
  endif()
endforeach()

execute_process(COMMAND ${command} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${SOURCE} must compile without -DKERKIS_FAIL\n${output}")
endif()
