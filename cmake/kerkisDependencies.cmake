# SPDX-License-Identifier: Apache-2.0
# Finds what kerkis stands on, for its own build, for the installed package and for the probe of the tool chain.
# Input:  kerkis_needs    any of: comm kerkis testing
# Output: kerkis_missing  a sentence for each part that is not there

set(kerkis_missing "")

if(comm IN_LIST kerkis_needs)
  find_package(Kokkos CONFIG QUIET)
  if(NOT Kokkos_FOUND)
    list(APPEND kerkis_missing "Kokkos 4.6 or newer (set Kokkos_ROOT)")
  elseif(Kokkos_VERSION VERSION_LESS 4.6)
    list(APPEND kerkis_missing "Kokkos 4.6 or newer (found ${Kokkos_VERSION} in ${Kokkos_DIR})")
  endif()
  find_package(MPI 3.1 QUIET COMPONENTS CXX)
  if(NOT MPI_CXX_FOUND)
    list(APPEND kerkis_missing "MPI 3.1 or newer")
  endif()
endif()

if(kerkis IN_LIST kerkis_needs)
  # OpenBLAS in its OpenMP build comes first: another thread pool beside Kokkos' OpenMP costs up to a hundredfold.
  if(NOT TARGET kerkis::cblas)
    set(kerkis_blas_folders openblas-openmp openblas)
    find_library(KERKIS_CBLAS_LIBRARY NAMES openblaso openblas PATH_SUFFIXES ${kerkis_blas_folders})
    if(NOT KERKIS_CBLAS_LIBRARY)
      find_package(BLAS QUIET)
      find_library(KERKIS_CBLAS_LIBRARY NAMES cblas)
    endif()
    find_path(KERKIS_CBLAS_INCLUDE_DIR NAMES cblas.h PATH_SUFFIXES ${kerkis_blas_folders})
    mark_as_advanced(KERKIS_CBLAS_LIBRARY KERKIS_CBLAS_INCLUDE_DIR)
    if(KERKIS_CBLAS_LIBRARY AND KERKIS_CBLAS_INCLUDE_DIR)
      add_library(kerkis::cblas INTERFACE IMPORTED)
      set_target_properties(
        kerkis::cblas
        PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${KERKIS_CBLAS_INCLUDE_DIR}"
                   INTERFACE_LINK_LIBRARIES "${KERKIS_CBLAS_LIBRARY};${BLAS_LIBRARIES}")
    else()
      list(APPEND kerkis_missing "OpenBLAS with cblas.h")
    endif()
    unset(kerkis_blas_folders)
  endif()
  find_package(nlohmann_json 3.9 CONFIG QUIET)
  if(NOT nlohmann_json_FOUND)
    list(APPEND kerkis_missing "nlohmann-json 3.9 or newer")
  endif()
endif()

if(testing IN_LIST kerkis_needs)
  find_package(doctest 2.4.9 CONFIG QUIET)
  if(NOT doctest_FOUND)
    list(APPEND kerkis_missing "doctest 2.4.9 or newer")
  endif()
endif()
