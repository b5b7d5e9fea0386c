# SPDX-License-Identifier: Apache-2.0
# conan create conan                       headers and CMake package; the test package builds and runs a program on two ranks
# conan create conan -o "kerkis/*:asio=True" -o "kerkis/*:testing=True"
#
# A consumer calls find_package(kerkis 0.1 COMPONENTS …) as without Conan: the package's own CMake files are used, with CMakeDeps and
# CMakeToolchain for what kerkis stands on. Whatever the system has already goes into [platform_requires] (see system.profile).
import os
import re
import shutil

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir
from conan.tools.system.package_manager import Apk, Apt, Brew, Dnf, PacMan, Yum, Zypper

required_conan_version = ">=2.5"


class Kerkis(ConanFile):
    name = "kerkis"
    description = "The parallel plan as a type: hybrid parallel training on Kokkos and MPI"
    license = "Apache-2.0"
    topics = ("hpc", "mpi", "kokkos", "machine-learning", "header-only")
    package_type = "header-library"
    implements = ["auto_header_only"]
    settings = "os", "compiler", "build_type", "arch"
    no_copy_source = True

    # One option per component, for what it stands on; the component comm (Kokkos and MPI) is always there.
    options = {"kerkis": [True, False], "asio": [True, False], "testing": [True, False]}
    default_options = {"kerkis": True, "asio": False, "testing": False}
    options_description = {
        "kerkis": "all of the library, not only comm: CBLAS and JSON",
        "asio": "the bridge to Boost.Asio",
        "testing": "main function and helpers of tests with several ranks: doctest",
    }

    @property
    def _root(self):
        return os.path.dirname(self.recipe_folder)

    def set_version(self):
        header = load(self, os.path.join(self._root, "include", "kerkis", "version.hpp"))
        self.version = ".".join(re.findall(r"^#define KERKIS_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", header, re.MULTILINE))

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/kerkis*", "include/*"):
            copy(self, pattern, src=self._root, dst=self.export_sources_folder)

    def requirements(self):
        def require(reference):
            self.requires(reference, transitive_headers=True, transitive_libs=True)

        require("kokkos/[>=4.6 <6]")
        if self.options.kerkis:
            require("openblas/[>=0.3.10 <1]")
            require("nlohmann_json/[>=3.9 <4]")
        if self.options.asio:
            require("boost/[>=1.81 <2]")
        if self.options.testing:
            require("doctest/[>=2.4.9 <3]")

    # MPI comes from the system: public indexes have no MPICH, and a cluster's own is the right one there anyway. Whoever has a
    # compiler wrapper in the path needs no package.
    def system_requirements(self):
        if shutil.which("mpicxx") is None:
            Apt(self).install(["libmpich-dev", "mpich"])
            Dnf(self).install(["mpich-devel"])
            Yum(self).install(["mpich-devel"])
            Zypper(self).install(["mpich-devel"])
            PacMan(self).install(["mpich"])
            Apk(self).install(["mpich-dev"])
            Brew(self).install(["mpich"])

    def validate(self):
        check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.user_presets_path = False
        for programs in ("TESTS", "EXAMPLES", "BENCH"):
            toolchain.cache_variables["KERKIS_BUILD_" + programs] = False
        toolchain.generate()

    def package(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.install()
        copy(self, "LICENSE", src=self.source_folder, dst=os.path.join(self.package_folder, "licenses"))
        rmdir(self, os.path.join(self.package_folder, "share", "doc"))

    def package_info(self):
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        self.cpp_info.builddirs = [os.path.join("share", "cmake", "kerkis")]
        self.cpp_info.set_property("cmake_find_mode", "none")
