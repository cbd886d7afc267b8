"""Whether scripts/setup installs what the build takes from the system (scripts/check_packages.py)."""
import os
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import check_packages  # noqa: E402

BUILD = pathlib.Path(os.environ["FORETRACE_BUILD"])


@unittest.skipUnless(pathlib.Path("/var/lib/dpkg/status").exists(), "no Debian packages here")
class Packages(unittest.TestCase):
    maxDiff = None

    def test_setup_installs_what_the_build_needs(self):
        errors, headers, libraries = check_packages.check(BUILD)
        self.assertEqual(errors, [])
        self.assertGreater(headers, 100)
        self.assertGreater(libraries, 5)

    def test_a_package_left_out_is_noticed(self):
        """libxgboost-dev was missing from the list once; nothing else brings its header along."""
        errors, _, _ = check_packages.check(BUILD, without=["libxgboost-dev"])
        self.assertTrue(any("xgboost/c_api.h" in error and "libxgboost-dev" in error for error in errors),
                        errors)
        self.assertFalse([error for error in errors if "xgboost" not in error], errors)

    @unittest.skipUnless((BUILD / "foretrace").exists(), "the program is not built")
    def test_the_program_links_no_solver(self):
        """Looking a number up needs none: fits, integer programs and SimGrid are modules."""
        loaded = check_packages.output("ldd", str(BUILD / "foretrace")).lower()
        self.assertIn("libc.so", loaded)
        for solver in ("ceres", "xgboost", "libcbc", "libclp", "coinutils", "cholmod", "simgrid"):
            self.assertNotIn(solver, loaded)

    def test_names_of_dependency_fields(self):
        self.assertEqual(check_packages.Installed.names("a (>= 1), b:any | c-1.2+x , d"), ["a", "b", "c-1.2+x", "d"])


if __name__ == "__main__":
    unittest.main()
