# SPDX-License-Identifier: Apache-2.0
# Installs kerkis from BUILD into a folder of its own, builds the project in SOURCE against it and runs its programs.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "failed (${status}): ${ARGN}\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK}/prefix ${WORK}/build)
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
# No header is used where it is installed from.
file(GLOB_RECURSE package ${WORK}/prefix/share/cmake/kerkis/*.cmake)
foreach(file IN LISTS package)
  file(READ ${file} text)
  get_filename_component(source_tree ${SOURCE}/../.. ABSOLUTE)
  string(FIND "${text}" "${source_tree}/include" place)
  if(NOT place EQUAL -1 OR text MATCHES "-march|-Werror|-Wall")
    message(FATAL_ERROR "${file} names the source tree or our own flags")
  endif()
endforeach()
run(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -G ${GENERATOR} -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_BUILD_TYPE=Debug
    -D CMAKE_PREFIX_PATH=${WORK}/prefix -D Kokkos_DIR=${KOKKOS} -D MPI_CXX_COMPILER=${MPI_COMPILER})
run(${CMAKE_COMMAND} --build ${WORK}/build -j 2)
foreach(program comm_only whole)
  run(${MPIEXEC} -n 2 ${WORK}/build/bin/${program})
endforeach()
