{# SPDX-License-Identifier: Apache-2.0 #}
{# Everything that kerkis stands on comes from the system: conan create conan --profile:all conan/system.profile --no-remote
   The versions are those that CMake finds there; the environment gives others. #}
{% set name, version, executable = detect_api.detect_default_compiler() %}
[settings]
os={{ detect_api.detect_os() }}
arch={{ detect_api.detect_arch() }}
build_type=Release
compiler={{ name }}
compiler.version={{ detect_api.default_compiler_version(name, version) }}
compiler.libcxx={{ detect_api.detect_libcxx(name, version, executable) }}
compiler.cppstd=20

[platform_requires]
kokkos/{{ os.getenv("KERKIS_KOKKOS_VERSION", "5.2.0") }}
openblas/{{ os.getenv("KERKIS_OPENBLAS_VERSION", "0.3.29") }}
nlohmann_json/{{ os.getenv("KERKIS_JSON_VERSION", "3.11.3") }}
boost/{{ os.getenv("KERKIS_BOOST_VERSION", "1.83.0") }}
doctest/{{ os.getenv("KERKIS_DOCTEST_VERSION", "2.4.11") }}
