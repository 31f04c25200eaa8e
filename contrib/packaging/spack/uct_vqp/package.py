# Spack: the module for the UCX of the same environment.
#
#   spack repo create ~/vqp-repo vqp && spack repo add ~/vqp-repo/spack_repo/vqp
#   cp -r contrib/packaging/spack/uct_vqp ~/vqp-repo/spack_repo/vqp/packages/
#   spack install --no-checksum uct-vqp ^ucx@1.18.1+verbs
#
# The tarball of `make dist` has to be in the current folder.

import os

from spack_repo.builtin.build_systems.autotools import AutotoolsPackage

from spack.package import *


class UctVqp(AutotoolsPackage):
    """UCX transport that uses several RDMA queue pairs for one endpoint."""

    url = f"file://{os.getcwd()}/uct_vqp-0.1.0.tar.gz"
    manual_download = True

    license("BSD-3-Clause")

    version("0.1.0")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("gmake", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("rdma-core")
    depends_on("ucx@1.13:+verbs")

    # A module needs internal headers of the UCX that it is loaded into: its release
    # tarball. The checksums are those of the package ucx. Spack prefers the first one.
    ucx_sources = {
        "1.22.0": "258941cddd14ca60d38c0d31b9b09ec1052c901086841011a498da8b55a3cb24",
        "1.21.0": "2374d2fcf3186fbfd5e27633ab153aabaeb6b4f503a88563d2aca67cf51ed2c1",
        "1.20.1": "545c419a7b5e04643cb8bff5a19b3b5071a8f8f0605f1e8efb36f8f3d7bfb9d3",
        "1.19.1": "dea5d821fce05b6ffe175a74e6e148386dd85791409fc71242f3d1369100fd8a",
        "1.18.1": "8018dd75f11b5e8d6e57dcdb5b798d2c1f000982c353efde1f3170025c6c3b4c",
        "1.17.0": "34658e282f99f89ce7a991c542e9727552734ac6ad408c52f22b4c2653b04276",
        "1.16.0": "f73770d3b583c91aba5fb07557e655ead0786e057018bfe42f0ebe8716e9d28c",
        "1.15.0": "4b202087076bc1c98f9249144f0c277a8ea88ad4ca6f404f94baa9cb3aebda6d",
        "1.14.1": "baa0634cafb269a3112f626eb226bcd2ca8c9fcf0fec3b8e2a3553baad5f77aa",
        "1.13.1": "efc37829b68e131d2acc82a3fd4334bfd611156a756837ffeb650ab9a9dd3828",
    }
    for ucx_version, ucx_sha256 in ucx_sources.items():
        resource(
            name=f"ucx-{ucx_version}",
            url="https://github.com/openucx/ucx/releases/download/"
            f"v{ucx_version}/ucx-{ucx_version}.tar.gz",
            sha256=ucx_sha256,
            placement="ucx-src",
            when=f"^ucx@{ucx_version}",
        )
    requires(
        *(f"^ucx@{ucx_version}" for ucx_version in ucx_sources),
        policy="one_of",
        msg="uct_vqp's recipe has the sources of certain versions of UCX only",
    )

    def configure_args(self):
        return [
            "--without-gtest",
            f"--with-ucx-src={self.stage.source_path}/ucx-src",
        ]

    # UCX has the options of the transport: the module was loaded
    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_loaded(self):
        run = Executable(self.prefix.bin.join("vqp-run"))
        options = run(self.spec["ucx"].prefix.bin.ucx_info, "-cf", output=str)
        if "UCX_VQP_NUM_PATHS=" not in options:
            raise InstallError("UCX does not load the module")
