# How lit runs these tests. A test is a file with RUN lines: IR (.mlir), a spec that is its own test (.yaml), or commands
# alone (.test). pipec, pipe-opt, piperun, FileCheck, not, split-file and mlir's tools are on the PATH; %specs is the
# folder of example specs, %golden that of the plans kept of released formats. Inputs/ holds files that tests read.
import os

import lit.formats

config.name = "pipec"
config.test_format = lit.formats.ShTest(execute_external=False)
config.test_source_root = os.path.dirname(__file__)
config.suffixes = [".mlir", ".yaml", ".test"]
config.excludes = ["Inputs"]

config.environment["PATH"] = os.pathsep.join(
    [config.pipec_tools_dir, config.llvm_tools_dir, config.environment["PATH"]]
)
config.environment["FILECHECK_OPTS"] = "--enable-var-scope --allow-unused-prefixes=false"
config.substitutions.append(("%specs", os.path.join(config.pipec_source_dir, "specs")))
config.substitutions.append(("%golden", os.path.join(config.pipec_source_dir, "test", "golden")))

if config.pipec_z3 and not config.pipec_z3.endswith("NOTFOUND"):
    config.available_features.add("z3")

if config.pipec_sanitize:
    config.available_features.add("sanitize")
    # LLVM's packaged archives are not instrumented, so their allocator poisons what our code then reads; and pipec does
    # not take a large module apart before it ends.
    config.environment["ASAN_OPTIONS"] = "allow_user_poisoning=0:detect_leaks=0"
    config.environment["UBSAN_OPTIONS"] = "print_stacktrace=1"
