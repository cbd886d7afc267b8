"""What `cmake --install` puts down, run from where it was put."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ["FORETRACE_BUILD"])


def run(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="foretrace-install-"))
        # Staged as packagers do, then moved: nothing may depend on the prefix that was configured.
        done = run("cmake", "--install", BUILD, "--prefix", "/opt/staged", env={**os.environ, "DESTDIR": cls.folder})
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
        cls.prefix = cls.folder / "moved here"
        (cls.folder / "opt/staged").rename(cls.prefix)
        cls.environment = {"PATH": os.environ["PATH"], "HOME": str(cls.folder)}

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def foretrace(self, *arguments, **environment):
        return run(self.prefix / "bin/foretrace", *arguments, cwd=self.folder, env={**self.environment, **environment})

    def test_predicts_its_own_sample(self):
        sample = self.prefix / "share/foretrace/traces/samples/dlrm_8rank"
        done = self.foretrace("predict", sample)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("us predicted", done.stdout)

    def test_finds_platforms_beside_itself(self):
        # The first folder that has data is the one the names come from.
        done = self.foretrace("collective", "all_reduce", "--topology", "dgx-a1000")
        self.assertEqual(done.returncode, 2)
        self.assertIn(str(self.prefix / "share/foretrace/topologies"), done.stderr)
        self.assertIn("did you mean dgx-a100", done.stderr)
        done = self.foretrace("collective", "all_reduce", "--topology", "dgx-a100", "--bytes", "1M")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_data_folder_of_the_environment_comes_first(self):
        own = self.folder / "own/topologies"
        own.mkdir(parents=True)
        text = (ROOT / "topologies/dgx-a100.yaml").read_text()
        (own / "my-cluster.yaml").write_text(text)
        done = self.foretrace("collective", "all_reduce", "--topology", "my-cluster", "--bytes", "1M",
                              FORETRACE_DATA=str(self.folder / "own"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.foretrace("collective", "all_reduce", "--topology", "my-cluster").returncode, 2)

    def test_every_command_finds_its_data(self):
        for line in (
            "serve llama3.1-8b --platform dgx-h100 --rate 5 --count 20",
            "explore dfmodel-dlrm -o explored",
            "dataflow gpt3-175b --system sn10-8 --batch 2304 --forward",
            "architect bert-large --devices 64 --hbm 32 --global-batch 1024",
            "search llama3-8b --platform dgx-h100 --global-batch 64",
            "list workloads",
        ):
            with self.subTest(line):
                done = self.foretrace(*line.split())
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_modules_are_found_beside_it(self):
        if not list((self.prefix / "lib/foretrace").glob("foretrace_simgrid.so")):
            self.skipTest("built without modules")
        done = self.foretrace("collective", "all_reduce", "--topology", "dgx-a100", "--bytes", "1M", "--network", "simgrid")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.foretrace("collective", "all_reduce", "--topology", "dgx-a100", "--bytes", "1M", "--network", "simgrid",
                              FORETRACE_MODULES=str(self.folder))
        self.assertEqual(done.returncode, 3)
        self.assertIn("foretrace_simgrid.so", done.stderr)

    def test_manual_names_every_command(self):
        page = (self.prefix / "share/man/man1/foretrace.1").read_text().replace("\\-", "-")
        listed = self.foretrace("--help").stdout.split("Subcommands:\n", 1)[1]
        commands = re.findall(r"^  ([a-z]\S*)", listed, re.M)
        self.assertGreater(len(commands), 15)
        for command in commands:
            self.assertIn(f".SS foretrace {command}", page)

    def test_bash_completes_commands_options_and_platforms(self):
        script = f"""
            PATH={str(self.prefix / "bin")!r}:$PATH
            source {str(self.prefix / "share/bash-completion/completions/foretrace")!r}
            compopt() {{ :; }}
            complete_line() {{ COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _foretrace; echo "${{COMPREPLY[*]}}"; }}
            complete_line foretrace pre
            complete_line foretrace predict --what
            complete_line foretrace predict --platform dgx1
        """
        done = run("bash", "-c", script, env=self.environment, cwd=self.folder)
        self.assertEqual(done.stdout.splitlines(), ["predict", "--what-if", "dgx1-v100"], done.stderr)


class Packaged(unittest.TestCase):
    def test_debian_package_holds_a_program_that_runs(self):
        if not shutil.which("dpkg-deb"):
            self.skipTest("no dpkg here")
        with tempfile.TemporaryDirectory(prefix="foretrace-package-") as folder:
            folder = pathlib.Path(folder)
            done = run("cpack", "-G", "DEB", "-B", folder, cwd=BUILD)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            (package,) = folder.glob("foretrace_*.deb")
            depends = run("dpkg-deb", "--field", package, "Depends").stdout
            for library in ("libprotobuf", "libabsl", "libyaml-cpp", "libstdc++6"):
                self.assertIn(library, depends)
            tree = folder / "tree"
            self.assertEqual(run("dpkg-deb", "-x", package, tree).returncode, 0)
            done = run(tree / "usr/bin/foretrace", "predict", tree / "usr/share/foretrace/traces/samples/dlrm_8rank",
                       cwd=folder, env={"PATH": os.environ["PATH"], "HOME": str(folder)})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("Verdict", done.stdout)


if __name__ == "__main__":
    unittest.main()
