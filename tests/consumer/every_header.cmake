# SPDX-License-Identifier: Apache-2.0
# every_header(LAYER): a header kerkis_every_LAYER.hpp in the build folder, which includes all of a layer's. HEADERS is the folder
# that the package's headers lie in.
function(every_header layer)
  file(GLOB headers RELATIVE ${HEADERS} ${HEADERS}/kerkis/${layer}/*.hpp)
  if(NOT headers)
    message(FATAL_ERROR "no header in ${HEADERS}/kerkis/${layer}")
  endif()
  list(TRANSFORM headers REPLACE "(.+)" "#include <\\1>\n")
  list(JOIN headers "" text)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/kerkis_every_${layer}.hpp CONTENT "${text}")
endfunction()
