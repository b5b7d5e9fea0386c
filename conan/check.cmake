# SPDX-License-Identifier: Apache-2.0
# Creates the Conan package with no remote, all dependencies from the system, and runs its test package. Conan is the one in the path, or
# comes from the Python index into a virtual environment in WORK; where neither is there, the test is skipped. tests/consumer registers it.
find_program(conan NAMES conan NO_CACHE)
if(conan)
  execute_process(COMMAND ${conan} --version OUTPUT_VARIABLE version ERROR_QUIET)
  if(NOT version MATCHES " 2\\.")
    unset(conan)
  endif()
endif()
if(NOT conan)
  set(environment ${WORK}/python)
  set(conan ${environment}/bin/conan)
endif()
if(NOT EXISTS ${conan})
  find_program(python NAMES python3 NO_CACHE)
  if(NOT python)
    message("kerkis: skipped: neither conan nor python3 is here")
    return()
  endif()
  foreach(command "${python};-m;venv;${environment}" "${environment}/bin/pip;install;--quiet;--retries;1;--timeout;30;conan>=2.5,<3")
    execute_process(COMMAND ${command} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output TIMEOUT 240)
    if(NOT status EQUAL 0)
      file(REMOVE_RECURSE ${environment})
      string(REPLACE ";" " " command "${command}")
      message("kerkis: skipped: no conan in the path, and it could not be installed (${command}: ${status})\n${output}")
      return()
    endif()
  endforeach()
endif()

# A home of its own: neither settings nor packages of the user count. MPI is that of this build.
file(REMOVE_RECURSE ${WORK}/conan_home ${WORK}/conan_test)
set(ENV{CONAN_HOME} ${WORK}/conan_home)
set(ENV{CXX} ${COMPILER})
set(ENV{Kokkos_ROOT} ${KOKKOS})
foreach(part KOKKOS BOOST JSON DOCTEST)
  if(${part}_VERSION)
    set(ENV{KERKIS_${part}_VERSION} ${${part}_VERSION})
  endif()
endforeach()
set(from_system --no-remote --profile:all ${SOURCE}/conan/system.profile)
execute_process(
  COMMAND
    ${conan} create ${SOURCE}/conan ${from_system} -s build_type=Debug -o kerkis/*:asio=True -o kerkis/*:testing=True
    -c tools.cmake.cmaketoolchain:generator=${GENERATOR} -c tools.cmake.cmake_layout:test_folder=${WORK}/conan_test
    -c "tools.cmake.cmaketoolchain:extra_variables={'MPI_CXX_COMPILER':'${MPI_COMPILER}','MPIEXEC_EXECUTABLE':'${MPIEXEC}'}"
  RESULT_VARIABLE status
  OUTPUT_VARIABLE output
  ERROR_VARIABLE output)
if(NOT status EQUAL 0 OR NOT output MATCHES "100% tests passed")
  message(FATAL_ERROR "conan create failed (${status}):\n${output}")
endif()

# Without its components the package stands on Kokkos alone.
execute_process(
  COMMAND ${conan} graph info ${SOURCE}/conan ${from_system} -o kerkis/*:kerkis=False
  RESULT_VARIABLE status
  OUTPUT_VARIABLE output
  ERROR_VARIABLE output)
if(NOT status EQUAL 0
   OR NOT output MATCHES "label: kokkos/"
   OR output MATCHES "label: (openblas|nlohmann_json|boost|doctest)/")
  message(FATAL_ERROR "the component comm alone (${status}):\n${output}")
endif()
