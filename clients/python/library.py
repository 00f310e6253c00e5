"""Runs the server tests that python3-influxdb brings along, against tsdbd.

Usage: library.py TSDBD. The tests start a server of their own each; here that
is tsdbd in the place of influxd. The last line printed is the counts.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import types
import unittest
import warnings

BINARY = sys.argv[1]

import influxdb  # noqa: E402,F401

try:
    import pandas.testing

    # The tests import it by an old name, of which pandas warns, and make every
    # warning an error.
    sys.modules["pandas.util.testing"] = pandas.testing
    simplefilter = warnings.simplefilter
    warnings.simplefilter = lambda action, category=Warning, *rest, **named: (
        None if category is FutureWarning else simplefilter(action, category, *rest, **named)
    )
except ImportError:  # its tests are skipped then
    sys.modules["pandas"] = types.ModuleType("pandas")
    sys.modules["pandas.util"] = types.ModuleType("pandas.util")
    testing = types.ModuleType("pandas.util.testing")
    testing.assert_frame_equal = None
    sys.modules["pandas.util.testing"] = testing
    import influxdb.tests

    influxdb.tests.using_pypy = True
    influxdb.tests.skip_if_pypy = unittest.skip("pandas is not installed")


def free_port(kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_INET, kind) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Instance:
    """A tsdbd as the tests' InfluxDbInstance."""

    def __init__(self, _template, udp_enabled=False):
        self.dir = tempfile.mkdtemp()
        self.http_port = free_port()
        self.udp_port = free_port(socket.SOCK_DGRAM) if udp_enabled else -1
        config = os.path.join(self.dir, "tsdbd.toml")
        with open(config, "w") as f:
            f.write('[data]\ndir = "%s/data"\n[http]\nbind-address = "127.0.0.1:%d"\n' % (self.dir, self.http_port))
            if udp_enabled:
                f.write('[[udp]]\nenabled = true\nbind-address = "127.0.0.1:%d"\ndatabase = "db"\n'
                        'precision = "ns"\nbatch-size = 10\nbatch-timeout = "100ms"\n' % self.udp_port)
        self.proc = subprocess.Popen([BINARY, "-config", config], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        line = self.proc.stdout.readline()
        if b"listens on" not in line:
            raise RuntimeError("tsdbd does not start: %r" % line)

    def close(self, remove_tree=True):
        self.proc.terminate()
        self.proc.wait()
        shutil.rmtree(self.dir)


import influxdb.tests.server_tests.base as base  # noqa: E402

base.InfluxDbInstance = Instance
import influxdb.tests.server_tests.client_test_with_server as cases  # noqa: E402

suite = unittest.defaultTestLoader.loadTestsFromModule(cases)
result = unittest.TextTestRunner(stream=sys.stdout, verbosity=0).run(suite)
failed = len(result.failures) + len(result.errors)
print("%d skipped" % len(result.skipped))
print("%d passed, %d failed" % (result.testsRun - failed - len(result.skipped), failed))
